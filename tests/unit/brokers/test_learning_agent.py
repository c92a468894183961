"""The broker that learns: on sites that nobody may ask."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest

from slurm_rl_plugin.brokers.learning_agent import FADING, LearningAgentBroker
from slurm_rl_plugin.brokers.port import Broker, Outcome, RoutedJob
from slurm_rl_plugin.domain.job_class import JobDescription
from slurm_rl_plugin.domain.site import JobRequest, SiteOffer

NOW = 1_800_000_000.0
HOUR = 3600.0
DAY = 24 * HOUR


@dataclass
class SilentSite:
    """A site that must not be asked."""

    name: str

    def offer(self, request: JobRequest) -> SiteOffer | None:
        raise AssertionError(f"{self.name} was asked")


SITES = [SilentSite("north"), SilentSite("south")]


def asks(
    user: str = "eva", processors: int = 1, time_limit: float = HOUR, **more: Any
) -> JobRequest:
    job = JobDescription(
        partition="batch",
        qos="",
        name="run",
        time_limit=time_limit,
        has_batch_script=True,
        account="physics",
        user=user,
    )
    return JobRequest(job=job, processors=processors, **more)


def ran(
    site: str,
    wait: float,
    *,
    started: float = NOW,
    lasted: float = 0.0,
    outcome: Outcome = "ran",
) -> RoutedJob:
    return RoutedJob(
        site=site,
        request=asks(),
        submitted=started - wait,
        started=started,
        ended=started + lasted,
        outcome=outcome,
    )


def refused(site: str, request: JobRequest, *, at: float = NOW) -> RoutedJob:
    times = dict.fromkeys(("submitted", "started", "ended"), at)
    return RoutedJob(site=site, request=request, outcome="refused", **times)


def broker(at: float = NOW, seed: int = 1) -> LearningAgentBroker:
    return LearningAgentBroker(clock=lambda: at, seed=seed)


def names(ranked: list[Any]) -> list[str]:
    return [each.site for each in ranked]


def test_without_experience_any_site_comes_first() -> None:
    first = set()
    for seed in range(20):
        agent: Broker = broker(seed=seed)
        ranked = agent.rank(asks(), SITES)
        assert [each.merit for each in ranked] == [0.0, 0.0]
        assert all("No job of this user" in each.reason for each in ranked)
        first.add(ranked[0].site)
    assert first == {"north", "south"}
    assert broker().rank(asks(), []) == []


def test_a_wait_sends_the_user_elsewhere_and_nobody_else() -> None:
    agent = broker()
    agent.learn(ran("north", wait=10 * HOUR))
    ranked = agent.rank(asks(), SITES)
    assert names(ranked) == ["south", "north"]
    assert ranked[1].merit == -36000.0
    assert ranked[1].reason == "Mean wait of 1 job of this user there: 36000 s."
    assert [each.merit for each in agent.rank(asks("max"), SITES)] == [0.0, 0.0]


def test_a_bad_site_is_tried_again_after_a_long_silence() -> None:
    agent = broker(at=NOW + 100 * DAY)
    agent.learn(ran("north", wait=50 * HOUR))
    agent.learn(ran("south", wait=60.0, started=NOW + 100 * DAY))
    assert names(agent.rank(asks(), SITES)) == ["north", "south"]


def test_a_job_that_still_waits_is_bad_news() -> None:
    agent = broker()
    for waited in (5 * HOUR, HOUR):
        agent.waiting("north", asks(), waited)
    ranked = agent.rank(asks(), SITES)
    assert names(ranked) == ["south", "north"]
    assert ranked[1].merit == -5 * HOUR


def test_a_site_that_fails_jobs_at_once_is_no_fast_one() -> None:
    """Nodes that kill every job the moment it starts must not attract all jobs."""
    agent = broker()
    failed = ran("north", wait=0.0, started=NOW - HOUR, lasted=HOUR, outcome="failed")
    agent.learn(failed)
    agent.learn(ran("south", wait=4 * HOUR))
    ranked = agent.rank(asks(), SITES)
    assert names(ranked) == ["south", "north"]
    assert ranked[1].merit == -(HOUR + DAY)
    assert ranked[1].reason.endswith("90000 s; the site failed 1 of them.")


@pytest.mark.parametrize(
    ("more", "behind"),
    [
        ({"processors": 8}, True),
        ({"processors": 9, "time_limit": 2 * HOUR}, True),
        ({"processors": 7}, False),
        ({"processors": 8, "time_limit": HOUR - 60}, False),
        ({"processors": 8, "time_limit": math.nan}, False),
        ({"processors": 8, "needs": (("gres", "gpu:1"),)}, True),
    ],
)
def test_a_refusal_counts_for_jobs_that_ask_for_as_much(more: dict[str, Any], behind: bool) -> None:
    agent = broker()
    agent.learn(refused("north", asks(processors=8)))
    agent.learn(ran("south", wait=60.0))
    ranked = agent.rank(asks(**more), SITES)
    assert names(ranked) == (["south", "north"] if behind else ["north", "south"])
    assert ("Refused such a job" in ranked[1].reason) == behind


def test_a_refusal_of_other_needs_or_long_ago_counts_no_more() -> None:
    agent = broker()
    agent.learn(refused("north", asks(needs=(("gres", "gpu:1"),))))
    agent.learn(refused("north", asks(), at=NOW - 10 * FADING))
    agent.learn(ran("south", wait=60.0))
    assert names(agent.rank(asks(), SITES)) == ["north", "south"]


def test_what_others_met_counts_until_the_users_own_jobs_tell() -> None:
    agent = broker()
    agent.others = {"north": 3 * HOUR}
    ranked = agent.rank(asks(), SITES)
    assert names(ranked) == ["south", "north"]
    assert "other users wait 10800 s" in ranked[1].reason
    agent.learn(ran("north", wait=60.0))
    agent.learn(ran("south", wait=120.0))
    assert names(agent.rank(asks(), SITES)) == ["north", "south"]
    later = broker(at=NOW + 100 * DAY)
    later.others = {"north": 3 * HOUR}
    later.learn(ran("north", wait=60.0))
    assert later.rank(asks(), SITES)[1].merit == pytest.approx(-3 * HOUR, rel=1e-3)


@pytest.mark.parametrize("wait", [math.nan, math.inf, -5.0])
def test_a_wait_that_cannot_be_teaches_nothing(wait: float) -> None:
    agent = broker()
    agent.learn(ran("north", wait=wait))
    (ranked,) = agent.rank(asks(), SITES[:1])
    assert ranked.merit == 0.0
    assert ranked.reason == "No job of this user has run there yet."
