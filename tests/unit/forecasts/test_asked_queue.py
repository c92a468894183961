"""Questions that play the queue forward: what may be asked, how long they take, what is advised."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.errors import RequestRefused
from slurm_rl_plugin.forecasts.live.asked_queue import (
    KILLED,
    QUESTION_SECONDS,
    AskedJob,
    AskedQueue,
    Variant,
    advice_for,
    variants_of,
)
from slurm_rl_plugin.forecasts.live.foretold_queue import ForetoldQueue
from slurm_rl_plugin.forecasts.live.site_at import SiteAt
from slurm_rl_plugin.forecasts.live.sources import ReplaySource, rule_order
from slurm_rl_plugin.units import DAY, HOUR, FloatArray, IntArray
from tests.unit.forecasts.foretelling import busy_look, forecaster, replay_source
from tests.unit.forecasts.live_site import LiveSite, last_days, live_site

RUNS = np.linspace(0.5 * HOUR, 1.0 * HOUR, 1000)


@dataclass(slots=True)
class Clock:
    """A clock that goes on by hand."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowReplays(ReplaySource):
    """Replays that each take so long by a clock, and tell that who asks for less starts sooner.

    Attributes:
        clock: goes on by them.
        took: seconds of a replay.
        made: of each request how many were made.
    """

    clock: Clock
    took: float
    made: list[int] = field(default_factory=list)

    def waits(
        self,
        site: SiteAt,
        jobs: IntArray,
        draws: int,
        rng: np.random.Generator,
        goes_on: Callable[[int], bool] | None = None,
    ) -> FloatArray:
        count = 0
        while count < draws and not (count and goes_on and not goes_on(count)):
            self.clock.now += self.took
            count += 1
        self.made.append(count)
        asks = site.prepared.log.select(jobs)
        wait = asks.processors * np.nan_to_num(asks.time_limit, nan=DAY)
        return np.tile(wait.astype(np.float64)[:, None], count)


@pytest.fixture(scope="module")
def site() -> LiveSite:
    return live_site()


@pytest.fixture(scope="module")
def now(site: LiveSite) -> float:
    return busy_look(site, last_days(site, 2.0, HOUR))


def asked_queue(
    folder: Path, site: LiveSite, now: float, took: float
) -> tuple[AskedQueue, ForetoldQueue, SlowReplays]:
    """Who answers, the queue that he foretold, and the replays by which he answers."""
    clock, history = Clock(), site.history(now)
    made = forecaster(folder)
    queue = made.foretell(history, site.queue(now, now - HOUR))
    known = {name: getattr(replay_source(), name) for name in ReplaySource.__slots__}
    made.source = SlowReplays(**known, clock=clock, took=took)
    made.monotonic = clock
    return AskedQueue(forecaster=made, history=lambda: history), queue, made.source


REQUEST: dict[str, Any] = {
    "user": "ann",
    "account": "physics",
    "processors": 16,
    "time_limit": 32 * HOUR,
    "advice": True,
}


@pytest.mark.parametrize("took", [0.01, 0.9, 3.0, 30.0])
def test_all_replays_of_a_question_have_one_time(
    site: LiveSite, now: float, tmp_path: Path, took: float
) -> None:
    """Whatever one takes, the question ends, but for a replay that is under way."""
    asked, queue, source = asked_queue(tmp_path, site, now, took)
    job = asked.new_job(queue, REQUEST)["jobs"][0]
    assert job["forecast"]["start"] > now
    assert source.clock.now <= max(QUESTION_SECONDS, took) + took
    before = source.clock.now
    asked.advice(queue, 0)
    assert source.clock.now - before <= max(QUESTION_SECONDS, took) + took


def test_a_slow_queue_has_fewer_draws_and_advice_all_the_same(
    site: LiveSite, now: float, tmp_path: Path
) -> None:
    asked, queue, source = asked_queue(tmp_path, site, now, 0.7)
    job = asked.new_job(queue, REQUEST)["jobs"][0]
    assert 5 <= min(source.made) <= max(source.made) < 10
    assert job["advice"]
    assert all(each["sooner"] > 0.0 for each in job["advice"])


def test_of_too_few_draws_nothing_is_said_to_be_sure(
    site: LiveSite, now: float, tmp_path: Path
) -> None:
    asked, queue, _ = asked_queue(tmp_path, site, now, 3.0)
    assert asked.new_job(queue, REQUEST)["jobs"][0]["advice"] == []


@pytest.mark.parametrize("rule", ["fifo", "sjf"])
def test_a_job_that_is_not_submitted_stands_where_the_order_puts_it(
    site: LiveSite, now: float, tmp_path: Path, rule: str
) -> None:
    """It has no priority yet, and not everybody goes first."""
    asked, queue, source = asked_queue(tmp_path, site, now, 1.0)
    asked.forecaster.source = replace(source, order=rule_order(rule))
    waiting = queue.snapshot.pending.jobs
    found = {}
    for limit in (60.0, 5.0 * HOUR, 300.0 * HOUR):
        request = {**REQUEST, "time_limit": limit, "advice": False}
        job = asked.new_job(queue, request)["jobs"][0]
        before = waiting.time_limit <= limit if rule == "sjf" else np.ones(len(waiting), np.bool_)
        physics = waiting.account == queue.snapshot.accounts.index("physics")
        assert job["ahead"] == before.sum()
        assert job["ahead_of_account"] == (before & physics).sum()
        found[limit] = job["ahead"]
    assert found[60.0] == (0 if rule == "sjf" else len(waiting))


def test_whose_jobs_are_of_an_account_is_seen_wherever_they_are(
    site: LiveSite, now: float, tmp_path: Path
) -> None:
    _, queue, _ = asked_queue(tmp_path, site, now, 1.0)
    look = queue.snapshot
    nobody = np.empty(0, dtype=np.int64)
    running = look.running.jobs
    user, account = look.users[running.user[0]], look.accounts[running.account[0]]
    alone = replace(queue, snapshot=replace(look, pending=look.pending.select(nobody)))
    assert alone.has_job_of(user, account)
    assert not alone.has_job_of("eve", account)
    assert not alone.has_job_of(user, "chemistry")


@pytest.mark.parametrize("text", ["1" + "0" * 400, "-1" + "0" * 400, "1e999", "NaN", "true", '"4"'])
@pytest.mark.parametrize("name", ["processors", "nodes", "time_limit", "memory", "gpus"])
def test_what_is_no_number_within_bounds_is_refused_by_its_name(name: str, text: str) -> None:
    with pytest.raises(RequestRefused, match=rf"^{name} is no number from") as refused:
        AskedJob.of_document(json.loads(f'{{"{name}": {text}}}'))
    assert refused.value.status.startswith("400")


def half_of(limit: float, processors: int = 16, run_times: FloatArray = RUNS) -> list[Variant]:
    found = variants_of(limit, processors, run_times)
    return [each for each in found if "processors" in each.asks]


def test_on_half_of_the_processors_a_job_runs_twice_as_long_within_its_limit() -> None:
    (kept,) = half_of(2.0 * HOUR)
    assert (kept.asks, kept.killed) == ({"processors": 8.0}, 0.0)
    assert kept.words == "8 processors instead of 16, its run time taken to double"
    assert [each.killed for each in half_of(np.nan)] == [0.0]


@pytest.mark.parametrize(("limit", "asked"), [(1.5, 2.0), (1.9, 2.0), (1.0, 2.0)])
def test_where_that_is_longer_than_its_limit_it_asks_for_a_longer_one(
    limit: float, asked: float
) -> None:
    (longer,) = half_of(limit * HOUR)
    assert longer.asks == {"processors": 8.0, "time_limit": asked * HOUR}
    assert longer.killed <= KILLED
    assert f" and a limit of {asked:g} h instead of {limit:g} h, its" in longer.words


def test_of_twice_its_limit_at_most_and_not_where_more_than_few_would_be_killed() -> None:
    assert half_of(0.9 * HOUR) == []  # a fifth of them reach it as they are
    (just,) = half_of(0.996 * HOUR)
    assert just.asks["time_limit"] == pytest.approx(2.0 * 0.996 * HOUR)
    assert 0.0 < just.killed <= KILLED


def test_half_of_an_odd_number_is_no_less_than_half() -> None:
    assert [each.asks for each in half_of(4 * HOUR, 3)] == [{"processors": 2.0}]
    assert half_of(4 * HOUR, 1) == []


@pytest.mark.parametrize(("sooner", "said"), [(5.0 * HOUR, True), (0.5 * HOUR, False)])
def test_fewer_processors_are_advised_where_the_job_ends_sooner(sooner: float, said: bool) -> None:
    """It runs up to an hour longer: half an hour at its start is none gained at its end."""
    site = live_site(days=6.0)
    now = float(last_days(site, 1.0, HOUR)[0])
    while len((queue := site.queue(now, now)).pending) == 0:
        now += HOUR
    jobs = queue.pending.jobs
    jobs.processors[0], jobs.time_limit[0] = 8, DAY

    def waits(other: QueueSnapshot) -> FloatArray:
        fewer = other.pending.jobs.processors[0] == 4
        return np.full(20, 6.0 * HOUR - sooner * fewer)

    advice = advice_for(queue, 0, RUNS, np.full(20, 6.0 * HOUR), waits)
    assert [each["asks"] for each in advice] == ([{"processors": 4.0}] if said else [])
