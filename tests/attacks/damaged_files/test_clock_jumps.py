"""The head node's clock is set wrong and right again: an NTP server, a battery, a leap second.

No user can do it. The order may be the oldest first for so long; nothing may be lost, and all is as
before once the clock is right.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.configuration import read_configuration
from slurm_rl_plugin.domain import Decision
from slurm_rl_plugin.features.history.past_runs import PastRuns
from slurm_rl_plugin.hook.cycle.cycle import Cycle
from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.hook.memory.carried_factors import CLOCK, ClockWatch, Disturbances
from slurm_rl_plugin.hook.memory.disable_file import Disablement, DisableWatch, write_disable_file
from slurm_rl_plugin.hook.rails.reserve import ReserveRail, ReserveSettings
from slurm_rl_plugin.services.hook import build_cycle, load_policy_or_fall_back
from tests.fakes.fake_cluster import NOW, FakeCluster
from tests.unit.features.run_tables import Run
from tests.unit.features.run_tables import snapshot_of as queue_of_runs
from tests.unit.hook.queues import pending_jobs, snapshot_of

HOUR, DAY = 3600.0, 86400.0
JUMPS = [-DAY, -HOUR, -1.0, 1.0, HOUR, DAY, 10 * 365 * DAY]


class Clock:
    """A clock of the day that can be set, and one that cannot."""

    def __init__(self) -> None:
        self.now = float(NOW)

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "time", clock)
    return clock


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """Of twelve jobs the shortest, which sjf has first, came last."""
    fake = FakeCluster(tmp_path)
    fake.enter(monkeypatch)
    for job in range(1, 13):
        since = NOW - 600 + 10 * job
        fake.add(job, submit=since, eligible=since, time_limit=f"{65 - 5 * job}:00")
    return fake


@pytest.fixture
def cycle(fake: FakeCluster, clock: Clock, tmp_path: Path) -> Cycle:
    path = tmp_path / "slurm-rl.toml"
    path.write_text(
        f'[hook]\nmode = "active"\nstate_file = "{tmp_path}/state.json"\naudit_file = ""\n'
        f'disable_file = ""\n[policy]\nmodel = "sjf"\n'
    )
    configuration = read_configuration(path, environment={})
    return build_cycle(configuration, load_policy_or_fall_back("sjf"))


def first_to_last(report: CycleReport) -> list[int]:
    """Job numbers in the order that was decided."""
    assert report.snapshot is not None
    jobs: list[int] = report.snapshot.pending.jobs.job_id[[*report.order]].tolist()
    return jobs


@pytest.mark.parametrize("jump", JUMPS)
def test_the_order_is_as_before_once_the_clock_is_right(
    cycle: Cycle, clock: Clock, fake: FakeCluster, jump: float
) -> None:
    before = cycle.run()
    assert before.failure is None
    clock.now += jump
    wrong = cycle.run()
    assert wrong.failure is None
    assert wrong.fallback_reason is None
    clock.now += 30.0 - jump
    cycle.run()
    clock.now += 30.0
    after = cycle.run()
    assert first_to_last(after) == first_to_last(before) == [*range(12, 0, -1)]
    assert after.writes == 0
    assert cycle.release().rejected == {}
    assert {job["site"] for job in fake.state["jobs"]} == {0}


def test_a_second_that_comes_twice_changes_nothing(cycle: Cycle, clock: Clock) -> None:
    first = cycle.run()
    for step in (0.5, -0.5, 0.0, -1.0, 1.0, 0.1):  # a leap second, smeared and not
        clock.now += step
        report = cycle.run()
        assert (report.failure, report.writes, dict(report.disturbances)) == (None, 0, {})
        assert first_to_last(report) == first_to_last(first)


@pytest.mark.parametrize("jump", [-DAY, -HOUR, HOUR, DAY])
def test_a_jump_is_told_twice_there_and_back_and_a_slew_is_not(jump: float) -> None:
    watch, disturbances = ClockWatch(), Disturbances()
    now = 1000.0
    for second in range(100):  # NTP slews by half a millisecond in a second
        watch.look(now + second * 1.0005, float(second), disturbances)
    assert disturbances.taken() == {}
    watch.look(now + 130.0 + jump, 130.0, disturbances)
    watch.look(now + 160.0 + jump, 160.0, disturbances)
    watch.look(now + 190.0, 190.0, disturbances)
    assert disturbances.taken() == {CLOCK: 2}


@pytest.mark.parametrize("jump", [-DAY, -HOUR, HOUR, DAY])
def test_a_pause_is_never_shorter_for_a_jump(tmp_path: Path, jump: float) -> None:
    path, watch = tmp_path / "DISABLE", DisableWatch()
    write_disable_file(path, Disablement(by="root", at=float(NOW), until=NOW + 600.0))
    assert watch.standing(path, float(NOW), 0.0) is not None
    assert watch.standing(path, NOW + 300.0 + jump, 300.0) is not None
    assert watch.standing(path, NOW + 599.0, 599.0) is not None
    assert watch.standing(path, NOW + 601.0, 601.0) is None


def after_run(past: PastRuns, start: float, now: float) -> PastRuns:
    """After a look at a job that runs since then."""
    return past.after(
        queue_of_runs(now, running=[Run(1, 0, 4, 9000.0, start=start, end=start + 1e6)])
    )


@pytest.mark.parametrize("jump", [2 * HOUR, DAY, 10 * 365 * DAY])
def test_runs_are_learnt_from_again_once_the_clock_is_right(jump: float) -> None:
    """A daemon that met 2036 once must not wait for it, nor one that reads its memory."""
    past = PastRuns()
    for now in (NOW - 60.0, NOW + jump, float(NOW)):
        found = PastRuns.from_memory(np.concatenate(past.after(queue_of_runs(now)).to_memory()))
        assert found is not None
        past = found
    told = after_run(past, NOW - 20.0, NOW + 1800.0)
    assert told.time == NOW + 1800.0
    assert (len(past.site), len(told.site)) == (0, 1)


def test_a_leap_second_makes_no_event_count_twice() -> None:
    start = NOW - 59.5
    past = after_run(after_run(PastRuns(), start, float(NOW)), start, NOW + 1.0)
    again = after_run(past, start, float(NOW))
    assert again.time == past.time
    last = after_run(again, start, NOW + 1.0)
    assert np.array_equal(np.concatenate(last.to_memory()), np.concatenate(past.to_memory()))


def test_the_reserve_of_a_day_ahead_does_not_last_a_day() -> None:
    """An interactive job was submitted while the clock was wrong: none has come since."""
    rail = ReserveRail(settings=ReserveSettings(most=4, idle_after=HOUR))
    wanted = Decision(scores=np.zeros(1), reserve=2)

    def reserve(submit: float, interactive: bool, now: float) -> int:
        pending = pending_jobs([1])
        times = {"submit": np.array([submit]), "eligible": np.array([submit])}
        jobs = replace(pending.jobs, interactive=np.array([interactive]), **times)
        snapshot = snapshot_of(replace(pending, jobs=jobs), now)
        return rail.check(wanted, snapshot).reserve

    assert reserve(NOW + DAY, True, NOW + DAY + 1.0) == 2
    assert reserve(NOW - 10.0, False, NOW + 60.0) == 2
    assert reserve(NOW - 10.0, False, NOW + 2 * HOUR) == 0
