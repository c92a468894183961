"""Utility and price of an offer."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from slurm_rl_plugin.brokers.live.job_document import job_request
from slurm_rl_plugin.brokers.live.offer_worth import (
    UNKNOWN_RUN_TIME,
    OfferWorth,
    offer_value,
    schedule_variables,
)
from slurm_rl_plugin.brokers.market.formula import (
    MACHINE_FUNCTIONS,
    MACHINE_VARIABLES,
    USER_FUNCTIONS,
    parse_formula,
)
from slurm_rl_plugin.brokers.market.market_simulation import MarketSettings, simulate_market
from slurm_rl_plugin.domain.job_class import JobClassifier, JobClassRule
from slurm_rl_plugin.domain.site import Allocation
from slurm_rl_plugin.domain.utility_class import BUILT_IN, UtilityClass
from slurm_rl_plugin.errors import ConfigurationError
from tests.unit.brokers.test_market_guarantees import workload

REQUEST = job_request({"processors": 4, "time_limit": 1800, "account": "physics"})
NOW = 1000.0
#: Every job is of the interactive class; none is.
ALL = JobClassifier((JobClassRule(job_class="interactive", name=""),))
NONE = JobClassifier(())


def worth(price: str, *, interactive: bool = False) -> OfferWorth:
    return OfferWorth(price, ALL if interactive else NONE)


def test_a_job_without_a_limit_counts_as_one_of_an_hour() -> None:
    unlimited = replace(REQUEST, job=replace(REQUEST.job, time_limit=math.nan))
    offer = worth("run_time").offer("north", unlimited, now=NOW, start=NOW, all_processors=64)
    assert offer.price == UNKNOWN_RUN_TIME


def test_the_price_is_the_sites_formula() -> None:
    formula = "processors * run_time / 3600 + interactive + wait / all_processors"
    offer = worth(formula).offer("north", REQUEST, now=NOW, start=NOW + 64.0, all_processors=64)
    assert offer.price == pytest.approx(3.0)
    same = "NumberOfProcessors * RunTime / 3600 + Interactive + StartTime / SiteProcessors"
    named = worth(same).offer("north", REQUEST, now=NOW, start=NOW + 64.0, all_processors=64)
    assert named.price == offer.price
    for refused in ("utility", "JobCost", "", "1 +", "9 ** 99", "UF1"):
        with pytest.raises(ConfigurationError):
            worth(refused)


def test_a_class_of_the_sites_own_gives_its_own_utility() -> None:
    fades = UtilityClass(form="piecewise", points=((1.0, 0.5),))
    rules = (JobClassRule(job_class="fades", account="physics"),)
    asked = OfferWorth("0", JobClassifier(rules, {**BUILT_IN, "fades": fades}))
    start = NOW + 60.0 + 1800.0  # half an hour past the start-up allowance
    offer = asked.offer("north", REQUEST, now=NOW, start=start, all_processors=64)
    assert offer.utility == pytest.approx(0.75)


def test_formulas_of_the_paper_value_an_offer_as_they_are_printed() -> None:
    offer = worth("MF4").offer("north", REQUEST, now=NOW, start=NOW + 60.0, all_processors=8)
    area, idle = 4 * 1800.0, 4 * 1800.0
    assert offer.price == pytest.approx((area + idle) * (1.0 - 1.0))
    offer = replace(offer, price=5.0)
    for formula, value in (
        ("UF3", -65.0),
        ("-StartTime - 2*JobCost", -70.0),
        ("EndTime", 1860.0),
        ("SiteUtility", offer.utility),
    ):
        assert offer_value(formula, REQUEST, offer, NOW, interactive=False) == pytest.approx(value)
    for name in USER_FUNCTIONS:
        assert math.isfinite(offer_value(name, REQUEST, offer, NOW, interactive=False))


SCHEDULE = [Allocation(0.0, 10.0, 3), Allocation(0.0, 30.0, 2), Allocation(40.0, 60.0, 8)]


def test_the_schedule_tells_what_is_idle_around_a_job() -> None:
    """Of 8 processors 3 are free from 0 on, 3 more from 10, all from 30 to 40."""
    found = schedule_variables(SCHEDULE, 0.0, 10.0, 30.0, processors=4, capacity=8)
    assert found["under"] == pytest.approx(1 * 10.0)  # three end just then, one has been idle
    assert found["left_right"] == pytest.approx(2 * 20.0)
    assert found["left_right_rel"] == pytest.approx(40.0 / 80.0)
    assert found["over"] == pytest.approx(4 * 10.0)
    taken = 3 * 10.0 + 2 * 30.0 + 8 * 20.0
    assert found["utilization"] == pytest.approx((taken + 80.0) / (8 * 60.0))
    alone = schedule_variables([], 0.0, 0.0, 5.0, processors=8, capacity=8)
    assert alone == {
        "under": 0.0,
        "over": 0.0,
        "left_right": 0.0,
        "left_right_rel": 0.0,
        "utilization": 1.0,
    }


@pytest.mark.parametrize("variable", ["over", "under", "left_right", "utilization"])
def test_a_site_and_the_simulated_market_mean_the_same(variable: str) -> None:
    """The last of some jobs, priced by single processors there and by their number here."""
    jobs = workload(
        [(0.0, 10.0, 1.0, 3), (0.0, 30.0, 1.0, 2), (0.0, 50.0, 1.0, 8), (0.0, 20.0, 1.0, 4)]
    )
    owner = parse_formula(variable, MACHINE_VARIABLES)
    settings = MarketSettings(machines=(8,), owner=owner, rescheduling=False)
    sold = simulate_market(jobs, settings)
    plan = [
        Allocation(float(start), float(start + length), int(count))
        for start, length, count in zip(sold.start, jobs.estimate, jobs.processors, strict=True)
    ]
    job = plan.pop()
    found = schedule_variables(plan, 0.0, job.begin, job.end, processors=4, capacity=8)
    assert found[variable] == pytest.approx(sold.price[-1])


def test_the_schedule_is_asked_only_where_the_price_names_it() -> None:
    asked: list[int] = []

    def schedule() -> list[Allocation]:
        asked.append(1)
        return [Allocation(NOW, NOW + 600.0, 60)]

    for price, times in (("MF1", 1), ("RunTime", 0), ("1 - utilization", 1)):
        asked.clear()
        site = OfferWorth(price, NONE, schedule=schedule)
        offer = site.offer("north", REQUEST, now=NOW, start=NOW, all_processors=64)
        assert len(asked) == times
    assert offer.price == pytest.approx(1.0 - (60 * 600.0 + 4 * 1800.0) / (64 * 1800.0))
    for name in MACHINE_FUNCTIONS:
        made = OfferWorth(name, NONE, schedule=schedule)
        assert math.isfinite(
            made.offer("north", REQUEST, now=NOW, start=NOW, all_processors=64).price
        )
