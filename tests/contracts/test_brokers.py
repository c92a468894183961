"""The contract of the broker port, on every broker of the registry."""

from __future__ import annotations

import math

import pytest

from slurm_rl_plugin.brokers.live.job_document import job_request
from slurm_rl_plugin.brokers.live.remote_site import SiteAnswer
from slurm_rl_plugin.brokers.port import Broker, RoutedJob
from slurm_rl_plugin.brokers.registry import BROKERS, LEARNERS, broker_named
from slurm_rl_plugin.domain.site import SiteOffer

NOW = 1_000_000.0
REQUEST = job_request({"processors": 4, "time_limit": 600})


def offering(name: str, wait: float, processors: int = 64) -> SiteAnswer:
    offer = SiteOffer(
        site=name,
        expected_start=NOW + wait,
        utility=1.0 / (1.0 + wait),
        price=0.0,
        processors=processors,
        published=True,
    )
    return SiteAnswer(name=name, promised=offer)


SITES = [
    offering("far", 900.0),
    SiteAnswer(name="silent", why_not="no answer"),
    offering("near", 9),
]


def made(name: str) -> Broker:
    return broker_named(
        name, clock=lambda: NOW, seed=3, formula="-wait", is_interactive=lambda _: False
    )


@pytest.fixture(params=BROKERS)
def broker(request: pytest.FixtureRequest) -> Broker:
    return made(request.param)


@pytest.mark.parametrize("name", BROKERS)
def test_sites_that_answer_are_ranked_once_each_best_first(name: str) -> None:
    ranking = made(name).rank(REQUEST, SITES)
    asked = ["far", "near"]
    assert sorted(each.site for each in ranking) == [*asked, *["silent"] * (name in LEARNERS)]
    merits = [each.merit for each in ranking]
    assert merits == sorted(merits, reverse=True)
    assert all(map(math.isfinite, merits))
    assert all(each.reason for each in ranking)


def test_what_a_site_promised_is_told_as_it_was_promised(broker: Broker) -> None:
    promised = {site.name: site.promised for site in SITES}
    for each in broker.rank(REQUEST, SITES):
        assert each.offer in (None, promised[each.site])


def test_of_two_equal_starts_the_larger_site_is_first() -> None:
    sites = [offering("small", 30.0, 8), offering("large", 30.0, 64)]
    assert [each.site for each in made("earliest").rank(REQUEST, sites)] == ["large", "small"]


def test_where_no_site_takes_the_job_nothing_is_ranked() -> None:
    for name in BROKERS:
        assert made(name).rank(REQUEST, []) == []
        assert name in LEARNERS or made(name).rank(REQUEST, [SITES[1]]) == []


@pytest.mark.parametrize("name", BROKERS)
def test_the_same_seed_and_clock_give_the_same_ranking(name: str) -> None:
    rankings = [[each.site for each in made(name).rank(REQUEST, SITES)] for _ in range(2)]
    assert rankings[0] == rankings[1]


@pytest.mark.parametrize("started", [NOW - 60.0, NOW - 900.0, math.nan])
def test_what_became_of_a_job_is_taken_notice_of_whatever_it_says(
    broker: Broker, started: float
) -> None:
    job = RoutedJob(
        site="near", request=REQUEST, submitted=NOW - 120.0, started=started, ended=NOW - 10.0
    )
    broker.learn(job)
    assert {each.site for each in broker.rank(REQUEST, SITES)} >= {"far", "near"}


def test_long_waits_at_a_site_turn_a_learner_away() -> None:
    for name in LEARNERS:
        broker = made(name)
        broker.rank(REQUEST, SITES)
        for place, wait in (("near", 80_000.0), ("far", 10.0)):
            broker.learn(
                RoutedJob(
                    site=place,
                    request=REQUEST,
                    submitted=NOW - 90_000.0,
                    started=NOW - 90_000.0 + wait,
                    ended=NOW - 100.0,
                )
            )
        assert [each.site for each in broker.rank(REQUEST, SITES)][1:] == ["far", "near"]
