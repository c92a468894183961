"""Utility and price of an offer, and the file of a site's own utilities."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_rl_plugin.brokers.live.job_document import job_request
from slurm_rl_plugin.brokers.live.offer_worth import UNKNOWN_RUN_TIME, OfferWorth
from slurm_rl_plugin.brokers.live.utility_file import UtilityFile
from slurm_rl_plugin.domain.published_utilities import PublishedUtilities
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.utility.time_utility import time_utility
from slurm_rl_plugin.whole_file import write_whole

REQUEST = job_request({"processors": 4, "time_limit": 1800, "account": "physics"})
NOW = 1000.0
PUBLISHED = PublishedUtilities(
    site="north",
    time=NOW,
    valid_for=60.0,
    model="ab",
    utilities={"batch": {"physics": 0.625}, "interactive": {"physics": 0.25}},
)


def worth(price: str, *, interactive: bool = False) -> OfferWorth:
    return OfferWorth(price, lambda job: interactive)


@pytest.mark.parametrize("interactive", [False, True])
def test_utility_is_the_time_utility_of_the_expected_wait(interactive: bool) -> None:
    offer = worth("0", interactive=interactive).offer(
        "north", REQUEST, now=NOW, start=NOW + 300.0, all_processors=64
    )
    assert offer.utility == pytest.approx(time_utility(2100.0, 1800.0, interactive))
    assert 0.0 < offer.utility < 1.0


def test_a_job_without_a_limit_counts_as_one_of_an_hour() -> None:
    unlimited = replace(REQUEST, job=replace(REQUEST.job, time_limit=math.nan))
    offer = worth("run_time").offer("north", unlimited, now=NOW, start=NOW, all_processors=64)
    assert offer.price == UNKNOWN_RUN_TIME


def test_the_price_is_the_sites_formula() -> None:
    formula = "processors * run_time / 3600 + interactive + wait / all_processors"
    offer = worth(formula).offer("north", REQUEST, now=NOW, start=NOW + 64.0, all_processors=64)
    assert offer.price == pytest.approx(3.0)
    for refused in ("utility", "", "1 +", "9 ** 99"):
        with pytest.raises(ConfigurationError):
            worth(refused)


def test_published_utilities_go_first_while_they_are_fresh(tmp_path: Path) -> None:
    path, now = tmp_path / "utilities.json", [NOW]
    file = UtilityFile(path, lambda: now[0])
    assert file.utility(REQUEST, False) is None
    write_whole(path, PUBLISHED.to_json())
    assert file.utility(REQUEST, False) == 0.625
    assert file.utility(REQUEST, True) == 0.25
    other = replace(REQUEST, job=replace(REQUEST.job, account="biology"))
    assert file.utility(other, False) is None
    offer = OfferWorth("0", lambda job: False, file.utility).offer(
        "north", REQUEST, now=NOW, start=NOW + 9e5, all_processors=64
    )
    assert offer.utility == 0.625
    now[0] += 61.0
    assert file.utility(REQUEST, False) is None
    write_whole(path, replace(PUBLISHED, time=now[0]).to_json())
    assert file.utility(REQUEST, False) == 0.625


@pytest.mark.parametrize("text", ["", "{}", "[" * 100_000, "x" * 2_000_000])
def test_a_broken_publication_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "utilities.json").write_text(text)
    assert UtilityFile(tmp_path / "utilities.json", lambda: NOW).utility(REQUEST, False) is None
