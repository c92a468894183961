"""The broker that learns: on sites that say no more than their size."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import pytest

from slurm_rl_plugin.brokers.agents.rules import ProbeSettings
from slurm_rl_plugin.brokers.learning_agent import LearningAgentBroker
from slurm_rl_plugin.brokers.port import Broker, RoutedJob
from slurm_rl_plugin.domain.job_description import JobDescription
from slurm_rl_plugin.domain.site import JobRequest, SiteOffer

NOW = 1_800_000_000.0
HOUR = 3600.0


@dataclass
class SizedSite:
    """A site of some processors; counts how often it is asked."""

    name: str
    processors: int
    asked: list[JobRequest] = field(default_factory=list)

    def offer(self, request: JobRequest) -> SiteOffer | None:
        self.asked.append(request)
        if self.processors < 1:
            return None
        return SiteOffer(
            site=self.name,
            expected_start=NOW,
            utility=0.5,
            price=0.0,
            processors=self.processors,
        )


def asks(user: str = "eva", processors: int = 1, time_limit: float = HOUR) -> JobRequest:
    job = JobDescription(
        partition="batch",
        qos="",
        name="run",
        time_limit=time_limit,
        has_batch_script=True,
        account="physics",
        user=user,
    )
    return JobRequest(job=job, processors=processors)


def ran(site: str, wait: float, *, ended: float = NOW, user: str = "eva") -> RoutedJob:
    started = ended - HOUR
    return RoutedJob(
        site=site,
        request=asks(user),
        submitted=started - wait,
        started=started,
        ended=ended,
    )


def broker(at: float = NOW, **settings: Any) -> LearningAgentBroker:
    constants = ProbeSettings(probes=4, weight=0.1, recent=HOUR, fading=24 * HOUR)
    return LearningAgentBroker(clock=lambda: at, seed=1, settings=constants._replace(**settings))


def names(ranked: list[Any]) -> list[str]:
    return [each.site for each in ranked]


def test_without_experience_the_largest_site_comes_first() -> None:
    sites = [SizedSite("small", 10), SizedSite("large", 1000), SizedSite("middle", 100)]
    agent: Broker = broker()
    ranked = agent.rank(asks(processors=8), sites)
    assert names(ranked) == ["large", "middle", "small"]
    # the time that all processors would need: 8 * 3600 / 1000
    assert [each.merit for each in ranked] == pytest.approx([-28.8, -288.0, -2880.0])
    assert all("No job of this user" in each.reason for each in ranked)


def test_a_site_is_asked_for_its_size_once() -> None:
    site = SizedSite("north", 64)
    agent = broker()
    for _ in range(3):
        agent.rank(asks(), [site])
    assert len(site.asked) == 1


def test_sites_that_are_too_small_or_silent_are_left_out() -> None:
    silent = SizedSite("silent", 0)
    agent = broker()
    sites = [SizedSite("small", 4), silent, SizedSite("large", 64)]
    assert names(agent.rank(asks(processors=8), sites)) == ["large"]
    silent.processors = 64  # it is asked again
    assert set(names(agent.rank(asks(processors=8), sites))) == {"large", "silent"}
    assert agent.rank(asks(processors=1000), sites) == []
    assert agent.rank(asks(), []) == []


def test_a_wait_sends_the_user_elsewhere_and_nobody_else() -> None:
    sites = [SizedSite("large", 1000), SizedSite("small", 100)]
    agent = broker()
    agent.learn(ran("large", wait=10 * HOUR))
    ranked = agent.rank(asks(), sites)
    assert names(ranked) == ["small", "large"]
    assert ranked[1].merit == pytest.approx(-(36000.0 + 3.6))
    assert ranked[1].reason == "Mean wait of 1 job of this user there: 36000 s."
    assert names(agent.rank(asks("max"), sites)) == ["large", "small"]


def test_a_bad_site_is_tried_again_after_a_long_silence() -> None:
    sites = [SizedSite("large", 1000), SizedSite("small", 1)]
    agent = broker(at=NOW + 100 * 24 * HOUR)
    agent.learn(ran("large", wait=50 * HOUR))
    assert names(agent.rank(asks(), sites)) == ["large", "small"]


def test_silence_of_a_job_that_was_sent_is_bad_news_until_it_is_heard_of() -> None:
    sites = [SizedSite("large", 1000), SizedSite("small", 100)]
    agent = broker()
    agent.sent("large", asks(), NOW - 6 * HOUR)
    ranked = agent.rank(asks(), sites)
    assert names(ranked) == ["small", "large"]
    assert ranked[1].merit == pytest.approx(-(5 * HOUR + 3.6))
    agent.learn(ran("large", wait=0.0))
    assert names(agent.rank(asks(), sites)) == ["large", "small"]


def test_a_job_that_nobody_hears_of_any_more_is_forgotten() -> None:
    sites = [SizedSite("large", 1000), SizedSite("small", 100)]
    agent = broker()
    agent.sent("large", asks(), NOW - 25 * HOUR)
    assert names(agent.rank(asks(), sites)) == ["large", "small"]


def test_sites_that_were_not_drawn_come_behind_and_have_no_higher_merit() -> None:
    sites = [SizedSite(f"site{each}", 100) for each in range(6)]
    ranked = broker(probes=2).rank(asks(), sites)
    assert len(ranked) == 6
    merits = [each.merit for each in ranked]
    assert merits == sorted(merits, reverse=True)
    assert ["drawn" in each.reason for each in ranked] == [False] * 2 + [True] * 4


@pytest.mark.parametrize("wait", [math.nan, math.inf, -5.0])
def test_a_wait_that_cannot_be_teaches_nothing(wait: float) -> None:
    agent = broker()
    agent.learn(ran("large", wait=wait))
    (ranked,) = agent.rank(asks(), [SizedSite("large", 1000)])
    assert ranked.merit == pytest.approx(-3.6)
    assert ranked.reason == "No job of this user has run there yet."


def test_a_job_without_a_time_limit_is_taken_for_an_hour() -> None:
    site = SizedSite("north", 10)
    (ranked,) = broker().rank(asks(processors=10, time_limit=math.nan), [site])
    assert ranked.merit == -HOUR
