"""Requests and offers as JSON: what goes out comes back, and nothing else comes in."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.brokers.live.job_document import (
    DEEPEST,
    LONGEST_TEXT,
    LONGEST_TIME,
    MOST_PROCESSORS,
    job_document,
    job_request,
    offer_document,
    site_offer,
    strict_object,
)
from slurm_rl_plugin.domain.job_class import JobDescription
from slurm_rl_plugin.domain.site import NEEDS, JobRequest, SiteOffer
from slurm_rl_plugin.errors import RequestRefused

TEXT = st.text(st.characters(categories=["L", "N", "P"]), max_size=LONGEST_TEXT)
REQUESTS = st.builds(
    JobRequest,
    job=st.builds(
        JobDescription,
        **dict.fromkeys(("partition", "qos", "name", "account", "user"), TEXT),
        time_limit=st.just(math.nan) | st.floats(0.001, LONGEST_TIME),
        has_batch_script=st.sampled_from([True, False, None]),
    ),
    processors=st.integers(1, MOST_PROCESSORS),
    needs=st.dictionaries(st.sampled_from(NEEDS), TEXT).map(
        lambda each: tuple(sorted(each.items()))
    ),
)


@given(REQUESTS)
def test_a_request_comes_back_as_it_was(request_: JobRequest) -> None:
    body = json.dumps(job_document(request_)).encode()
    found = job_request(strict_object(body))
    assert job_document(found) == job_document(request_)
    assert math.isnan(found.job.time_limit) == math.isnan(request_.job.time_limit)


def test_nesting_is_counted_outside_texts_only() -> None:
    inside = '{"a": "' + '[{\\"' * 500 + '"}'
    assert strict_object(inside.encode()) == {"a": '[{"' * 500}
    fits = "[" * (DEEPEST - 1) + "]" * (DEEPEST - 1)
    strict_object(f'{{"a": {fits}}}'.encode())
    with pytest.raises(RequestRefused, match="nested deeper"):
        strict_object(f'{{"a": [{fits}]}}'.encode())


OFFER = SiteOffer(site="north", expected_start=1e9, utility=0.5, price=-2.0, processors=8)


def test_an_offer_comes_back_as_it_was_and_new_fields_are_left_alone() -> None:
    assert site_offer({**offer_document(OFFER), "later": [1]}, "north") == OFFER
    published = replace(OFFER, published=True)
    assert site_offer(offer_document(published), "north") == published


def test_a_site_of_an_earlier_release_publishes_nothing() -> None:
    document = offer_document(OFFER)
    del document["published"]
    assert site_offer(document, "north") == OFFER


@pytest.mark.parametrize(
    "change",
    [
        {"site": "south"},
        {"site": None},
        {"expected_start": math.nan},
        {"expected_start": -1},
        {"expected_start": 1e300},
        {"expected_start": 10**400},
        {"utility": 1.5},
        {"utility": "1"},
        {"price": math.inf},
        {"price": True},
        {"processors": 0},
        {"processors": 8.0},
        {"processors": 10**400},
        {"published": 1},
    ],
)
def test_an_offer_that_cannot_be_is_none(change: dict[str, Any]) -> None:
    with pytest.raises(RequestRefused):
        site_offer({**offer_document(OFFER), **change}, "north")


@pytest.mark.parametrize("field", ["site", "expected_start", "utility", "price", "processors"])
def test_every_field_of_an_offer_is_needed(field: str) -> None:
    document = offer_document(OFFER)
    del document[field]
    with pytest.raises(RequestRefused):
        site_offer(document, "north")


def test_nothing_that_sbatch_shows_can_sound_as_if_slurmctld_did_not_answer() -> None:
    with pytest.raises(RequestRefused, match=r"^needs\.ntasks has a blank\.$"):
        job_request({"processors": 1, "needs": {"ntasks": "Broken pipe"}})
    # 22.05: sbatch: error: invalid partition specified: Connection refused
    with pytest.raises(RequestRefused, match=r"^partition has a blank\.$"):
        job_request({"processors": 1, "partition": "batch,Connection refused"})
    assert job_request({"processors": 1, "name": "my job"}).job.name == "my job"
    assert not [words for words in CommandRunner.unreachable if " " not in words]
