"""Utility and price of an offer."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from slurm_rl_plugin.brokers.live.job_document import job_request
from slurm_rl_plugin.brokers.live.offer_worth import UNKNOWN_RUN_TIME, OfferWorth
from slurm_rl_plugin.domain.job_class import JobClassifier, JobClassRule
from slurm_rl_plugin.domain.utility_class import BUILT_IN, UtilityClass
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.utility.time_utility import paper_row, time_utility

REQUEST = job_request({"processors": 4, "time_limit": 1800, "account": "physics"})
NOW = 1000.0
#: Every job is of the interactive class; none is.
ALL = JobClassifier((JobClassRule(job_class="interactive", name=""),))
NONE = JobClassifier(())


def worth(price: str, *, interactive: bool = False) -> OfferWorth:
    return OfferWorth(price, ALL if interactive else NONE)


@pytest.mark.parametrize("interactive", [False, True])
def test_utility_is_the_time_utility_of_the_expected_wait(interactive: bool) -> None:
    offer = worth("0", interactive=interactive).offer(
        "north", REQUEST, now=NOW, start=NOW + 300.0, all_processors=64
    )
    assert offer.utility == pytest.approx(time_utility(2100.0, 1800.0, paper_row(interactive)))
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


@pytest.mark.parametrize("published", [0.625, None])
def test_a_published_utility_goes_first_and_the_offer_says_so(published: float | None) -> None:
    asked = OfferWorth("0", ALL, lambda request, quick: published if quick else 0.1)
    offer = asked.offer("north", REQUEST, now=NOW, start=NOW + 300.0, all_processors=64)
    assert offer.published is (published is not None)
    waited = time_utility(2100.0, 1800.0, paper_row(True))
    assert offer.utility == pytest.approx(waited if published is None else published)


def test_a_class_of_the_sites_own_gives_its_own_utility() -> None:
    fades = UtilityClass(form="piecewise", points=((1.0, 0.5),))
    rules = (JobClassRule(job_class="fades", account="physics"),)
    asked = OfferWorth("0", JobClassifier(rules, {**BUILT_IN, "fades": fades}))
    start = NOW + 60.0 + 1800.0  # half an hour past the start-up allowance
    offer = asked.offer("north", REQUEST, now=NOW, start=start, all_processors=64)
    assert offer.utility == pytest.approx(0.75)
