"""Requests and offers: as JSON, their values, ranking and forwarding."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.brokers.live.job_document import (
    DEEPEST,
    LONGEST_TEXT,
    LONGEST_TIME,
    MOST_FORWARDED,
    MOST_PROCESSORS,
    Forwarding,
    forwarded_offers,
    job_document,
    job_request,
    site_offer,
    strict_object,
)
from slurm_rl_plugin.brokers.live.offer_pages import Forwarder
from slurm_rl_plugin.brokers.live.offer_worth import (
    UNKNOWN_RUN_TIME,
    OfferWorth,
    offer_value,
    schedule_variables,
)
from slurm_rl_plugin.brokers.live.remote_site import SiteAnswer, ask_sites
from slurm_rl_plugin.brokers.market.formula import (
    MACHINE_FUNCTIONS,
    MACHINE_VARIABLES,
    SCHEDULE_VARIABLES,
    parse_formula,
)
from slurm_rl_plugin.brokers.market.market_simulation import MarketSettings, simulate_market
from slurm_rl_plugin.brokers.registry import OfferedValueBroker, SiteUtilityBroker
from slurm_rl_plugin.domain.job_class import JobClassifier, JobClassRule, JobDescription
from slurm_rl_plugin.domain.site import NEEDS, Allocation, JobRequest, SiteOffer
from slurm_rl_plugin.domain.utility_class import BUILT_IN, UtilityClass
from slurm_rl_plugin.errors import ConfigurationError, RequestRefused
from tests.unit.brokers.test_market import workload

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


NOW = 1000.0


def offer(site: str, **more: Any) -> SiteOffer:
    given = {"expected_start": 5.0, "utility": 0.5, "price": -2.0, "processors": 8, **more}
    return SiteOffer(site=site, **given)


OFFER = offer("north")


def test_an_offer_comes_back_as_it_was_and_new_fields_are_left_alone() -> None:
    document = asdict(OFFER)
    assert site_offer({**document, "later": [1]}, "north") == OFFER
    published = replace(OFFER, published=True)
    assert site_offer(asdict(published), "north") == published
    del document["published"]  # a site of an earlier release publishes nothing
    assert site_offer(document, "north") == OFFER


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("site", ("south", None)),
        ("expected_start", (None, math.nan, -1, 1e300, 10**400)),
        ("utility", (None, 1.5, "1")),
        ("price", (None, math.inf, True)),
        ("processors", (None, 0, 8.0, 10**400)),
        ("published", (1,)),
    ],
)
def test_an_offer_that_cannot_be_is_none(field: str, values: tuple[Any, ...]) -> None:
    for value in values:
        with pytest.raises(RequestRefused):
            site_offer({**asdict(OFFER), field: value}, "north")


def test_nothing_that_sbatch_shows_can_sound_as_if_slurmctld_did_not_answer() -> None:
    with pytest.raises(RequestRefused, match=r"^needs\.ntasks has a blank\.$"):
        job_request({"processors": 1, "needs": {"ntasks": "Broken pipe"}})
    # 22.05: sbatch: error: invalid partition specified: Connection refused
    with pytest.raises(RequestRefused, match=r"^partition has a blank\.$"):
        job_request({"processors": 1, "partition": "batch,Connection refused"})
    assert job_request({"processors": 1, "name": "my job"}).job.name == "my job"
    assert not [words for words in CommandRunner.unreachable if " " not in words]


REQUEST = job_request({"processors": 4, "time_limit": 1800, "account": "physics"})
#: Every job is of the interactive class; none is.
ALL = JobClassifier((JobClassRule(job_class="interactive", name=""),))
NONE = JobClassifier(())


def offered(
    price: str, request_: JobRequest = REQUEST, wait: float = 0.0, **more: Any
) -> SiteOffer:
    """The offer of a site with this price; 64 processors unless `more` says otherwise."""
    given = {"all_processors": 64, **more}
    return OfferWorth(price, NONE).offer("north", request_, now=NOW, start=NOW + wait, **given)


def test_the_price_is_the_sites_formula() -> None:
    formula = "processors * run_time / 3600 + interactive + wait / all_processors"
    same = "NumberOfProcessors * RunTime / 3600 + Interactive + StartTime / SiteProcessors"
    assert offered(formula, wait=64.0).price == offered(same, wait=64.0).price == 3.0
    unlimited = replace(REQUEST, job=replace(REQUEST.job, time_limit=math.nan))
    assert offered("run_time", unlimited).price == UNKNOWN_RUN_TIME
    quick = OfferWorth("interactive", ALL)
    assert quick.offer("north", REQUEST, now=NOW, start=NOW, all_processors=64).price == 1.0
    for refused in ("utility", "JobCost", "", "1 +", "9 ** 99", "UF1"):
        with pytest.raises(ConfigurationError):
            offered(refused)


def test_a_class_of_the_sites_own_gives_its_own_utility() -> None:
    fades = UtilityClass(form="piecewise", points=((1.0, 0.5),))
    rules = (JobClassRule(job_class="fades", account="physics"),)
    asked = OfferWorth("0", JobClassifier(rules, {**BUILT_IN, "fades": fades}))
    start = NOW + 60.0 + 1800.0  # half an hour past the start-up allowance
    made = asked.offer("north", REQUEST, now=NOW, start=start, all_processors=64)
    assert made.utility == pytest.approx(0.75)


def test_formulas_of_the_paper_value_an_offer_as_they_are_printed() -> None:
    made = offered("MF4", wait=60.0, all_processors=8)
    area, idle = 4 * 1800.0, 4 * 1800.0
    assert made.price == pytest.approx((area + idle) * (1.0 - 1.0))
    made = replace(made, price=5.0)
    for formula, value in (
        ("UF3", -65.0),
        ("-StartTime - 2*JobCost", -70.0),
        ("EndTime", 1860.0),
        ("SiteUtility", made.utility),
    ):
        assert offer_value(formula, REQUEST, made, NOW, interactive=False) == pytest.approx(value)


@pytest.mark.parametrize("variable", SCHEDULE_VARIABLES)
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

    def price(formula: str) -> float:
        site = OfferWorth(formula, NONE, schedule=schedule)
        return site.offer("north", REQUEST, now=NOW, start=NOW, all_processors=64).price

    assert price("RunTime") == 1800.0
    assert asked == []
    idle = 1.0 - (60 * 600.0 + 4 * 1800.0) / (64 * 1800.0)
    assert price("1 - utilization") == pytest.approx(idle)
    assert asked == [1]
    assert all(math.isfinite(price(name)) for name in MACHINE_FUNCTIONS)


def sites(*offers: SiteOffer) -> list[SiteAnswer]:
    return [SiteAnswer(name=each.site, promised=each) for each in offers]


def test_an_offer_for_which_the_formula_has_no_value_is_none() -> None:
    asked = sites(offer("a", expected_start=10.0), offer("b", expected_start=30.0))
    broker = OfferedValueBroker("1 / wait", lambda job: False, lambda: 10.0)
    assert [each.site for each in broker.rank(REQUEST, asked)] == ["b"]
    with pytest.raises(ConfigurationError):
        OfferedValueBroker("wait ** 99", lambda job: False, lambda: 10.0)


def test_the_site_that_expects_most_comes_first_however_late_it_starts_the_job() -> None:
    """One that publishes nothing offers the time utility of the wait instead, and comes last."""
    given = {"north": (1300.0, 0.9), "east": (1100.0, 0.2), "south": (1200.0, 0.5)}
    asked = sites(
        offer("silent", expected_start=1000.0, utility=0.99),
        *(
            offer(name, expected_start=start, utility=utility, published=True)
            for name, (start, utility) in given.items()
        ),
    )
    ranking = SiteUtilityBroker().rank(REQUEST, asked)
    assert [(each.site, each.merit) for each in ranking] == [
        *(("north", 0.9), ("south", 0.5), ("east", 0.2), ("silent", -1000.0)),
    ]
    assert ranking[0].reason == "expects a utility of 0.900 from it"
    assert ranking[0].offer == asked[1].promised


JOB = job_request({"processors": 1})
FAR = Forwarding(request_id="0123456789", hops=2, time_to_live=10.0)


class Others:
    """What a forwarder asks; keeps how far the request may go."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.asked: list[Forwarding] = []
        self.seconds = seconds

    def __call__(
        self, request: JobRequest, forwarding: Forwarding
    ) -> tuple[Sequence[SiteOffer], dict[str, str]]:
        self.asked.append(forwarding)
        time.sleep(self.seconds)
        return [offer("far")], {"dark": "no answer"}


def test_each_site_forwards_with_fewer_hops_and_less_time() -> None:
    others = Others()
    assert Forwarder(others, 8).begin(JOB, FAR)() == [offer("far")]
    assert others.asked == [
        Forwarding(request_id=FAR.request_id, hops=1, time_to_live=pytest.approx(8.0))
    ]
    bounded = Others()
    Forwarder(bounded, 1).begin(JOB, FAR)()
    assert bounded.asked[0].hops == 0  # by the site, whatever was asked


def test_others_are_not_waited_for_longer_than_the_time_to_live() -> None:
    forwarder, began = Forwarder(Others(seconds=5.0), 2), time.monotonic()
    short = Forwarding(request_id="0123456789", hops=1, time_to_live=0.2)
    assert forwarder.begin(JOB, short)() == []
    assert time.monotonic() - began < 2.0


def test_of_the_offers_of_others_faulty_ones_are_left_out() -> None:
    good = asdict(offer("far"))
    faulty: list[Any] = [7, None, {}, {**good, "utility": 2.0}]
    faulty += [{**good, "site": name} for name in ("a,b", "--x", "", "a b", "x" * 65, 7)]
    assert forwarded_offers({"forwarded": [*faulty, good]}) == [offer("far")]
    assert forwarded_offers({"forwarded": "far"}) == []
    assert len(forwarded_offers({"forwarded": [good] * 999})) == MOST_FORWARDED


class Answering:
    """A site that answers with offers."""

    def __init__(self, name: str, offers: list[SiteOffer]) -> None:
        self.name, self.offers = name, offers

    def answers(self, *_: object) -> list[SiteOffer]:
        return self.offers


def test_a_sites_own_offer_goes_before_what_another_says_of_it() -> None:
    said = offer("far", expected_start=0.0)
    near = Answering("near", [offer("near"), said, offer("third")])
    found = ask_sites([near, Answering("far", [offer("far")])], JOB, 5.0, time.monotonic)  # type: ignore[list-item]
    assert [each.name for each in found] == ["near", "far", "third"]
    assert found[1].promised == offer("far")
    silent = Answering("near", [said])
    (first, second) = ask_sites([silent], JOB, 5.0, time.monotonic)  # type: ignore[list-item]
    assert (first.why_not, second.promised) == ("makes no offer itself", said)


def test_questions_to_others_are_bounded() -> None:
    places = threading.BoundedSemaphore(1)
    asked = [Answering(name, [offer(name)]) for name in ("a", "b")]
    places.acquire()
    none = ask_sites(asked, JOB, 5.0, time.monotonic, places=places)  # type: ignore[arg-type]
    assert [each.promised for each in none] == [None, None]
    places.release()
    ask_sites(asked, JOB, 5.0, time.monotonic, places=places)  # type: ignore[arg-type]
    assert places.acquire(timeout=5.0)
