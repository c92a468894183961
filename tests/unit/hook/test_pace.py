"""When cycles are due, also while Slurm is away and once it answers again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_rl_plugin.batch_systems.port import SchedulerLoad
from slurm_rl_plugin.errors import BatchSystemUnavailable
from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.hook.daemon.daemon import Daemon
from slurm_rl_plugin.hook.daemon.pace import NewJobsDue, Pace
from tests.unit.hook.queues import (
    CountedStop,
    QueueInMemory,
    ScorePolicy,
    cycle_over,
    daemon_of,
    pending_jobs,
    site,
)


def report(*, calls: float = 0.0, pass_interval: float = 30.0) -> CycleReport:
    return CycleReport(
        time=1.0,
        mode="active",
        policy="p",
        calls=(("squeue", calls / 2), ("scontrol", calls / 2)),
        pass_interval=pass_interval,
    )


@pytest.mark.parametrize(
    ("pace", "calls", "earliest"),
    [
        (Pace(longest=30.0), 0.0, 15.0),
        (Pace(longest=10.0), 0.0, 10.0),
        (Pace(longest=30.0, soonest=2.0), 0.1, 2.0),
        (Pace(longest=30.0, soonest=2.0), 1.0, 10.0),
        (Pace(longest=30.0, soonest=2.0), 8.0, 30.0),
        (Pace(longest=30.0, soonest=2.0, busy_share=1.0), 8.0, 8.0),
    ],
)
def test_soon_after_a_change_and_never_later_than_a_cycle(
    pace: Pace, calls: float, earliest: float
) -> None:
    last = report(calls=calls)
    assert pace.earliest(last) == earliest
    assert 0.5 <= pace.poll(last) <= 5.0


def test_without_a_known_pass_the_next_cycle_may_follow_at_once() -> None:
    assert Pace(longest=30.0).earliest(report(pass_interval=0.0)) == 0.0


def test_accounting_at_the_start_earns_no_pause() -> None:
    last = CycleReport(time=1.0, mode="active", policy="p", calls=(("sacct", 60.0),))
    assert Pace(longest=30.0).owed(last) == 0.0


def seen(**suppressed: int) -> CycleReport:
    return replace(report(), suppressed=suppressed, submitted=7)


@pytest.mark.parametrize(
    ("suppressed", "may"),
    [({"held": 0}, False), ({"held": 1}, True), ({"not_eligible": 1}, True)],
)
def test_where_jobs_are_held_it_is_looked_without_a_sign(
    suppressed: dict[str, int], may: bool
) -> None:
    due = NewJobsDue.after(seen(**suppressed), Pace(longest=30.0), 2.0)
    same = SchedulerLoad(struggles=None, events=(9,), submitted=7)
    assert due.may_have_come(same, 7.0) is may
    assert not due.may_have_come(same, 6.9)


def test_a_job_that_came_is_looked_for_within_half_a_second_or_what_the_last_look_cost() -> None:
    due = NewJobsDue.after(seen(), Pace(longest=30.0), 2.0)
    more = SchedulerLoad(struggles=None, events=(9,), submitted=8)
    assert not due.may_have_come(more, 2.4)
    assert due.may_have_come(more, 2.5)
    due.looked(replace(report(calls=0.3), submitted=8), 3.5)
    assert not due.may_have_come(replace(more, submitted=9), 6.4)  # 0.3 s are a tenth of 3 s
    assert due.may_have_come(replace(more, submitted=9), 6.5)
    assert not due.may_have_come(more, 6.5)


#: Seconds between cycles.
CYCLE = 30.0


def away_then_back(tmp_path: Path, back_after: float, trouble: str) -> tuple[Daemon, list[float]]:
    """Runs a daemon through a trouble; when its cycles ended, in seconds of its own pauses."""
    queue = QueueInMemory(pending_jobs([3, 2, 1]))
    ends: list[float] = []

    def set_trouble(now: float) -> None:
        here = now >= back_after
        queue.away = trouble == "away" and not here
        queue.struggles = "slurmctld serves 300 calls at once" if not here else None
        if trouble == "away":
            queue.struggles = None

    stop = CountedStop(10_000)
    stop.between = lambda number: set_trouble(sum(stop.pauses))
    daemon, reports = daemon_of(cycle_over(queue, ScorePolicy([1, 2, 3]), tmp_path), stop)

    def publish(report: object) -> None:
        reports.append(report)  # type: ignore[arg-type]
        ends.append(sum(stop.pauses))
        if reports[-1].succeeded:
            stop.set()

    daemon.pace, daemon.publish = Pace(longest=CYCLE, soonest=CYCLE), publish
    set_trouble(0.0)
    daemon.run()
    return daemon, ends


@pytest.mark.parametrize("trouble", ["away", "busy"])
@pytest.mark.parametrize("back_after", [1.0, 100.0, 1000.0, 5000.0])
def test_the_first_good_cycle_comes_within_one_cycle(
    tmp_path: Path, back_after: float, trouble: str
) -> None:
    _, ends = away_then_back(tmp_path, back_after, trouble)
    assert back_after <= ends[-1] <= back_after + CYCLE


def test_meanwhile_whole_cycles_become_seldom(tmp_path: Path) -> None:
    _, ends = away_then_back(tmp_path, 3000.0, "away")
    assert len(ends) < 3000.0 / CYCLE / 5  # the cheap looks between them are one call each


def test_looks_without_an_answer_are_no_debt_of_ours(tmp_path: Path) -> None:
    queue = QueueInMemory(pending_jobs([3, 2, 1]), away=True)
    daemon, _ = daemon_of(cycle_over(queue, ScorePolicy([1, 2, 3]), tmp_path), CountedStop(1))

    def hangs() -> None:
        daemon.cycle.calls.append(("sdiag", 10.0))
        raise BatchSystemUnavailable("no answer within 10 s")

    queue.load = hangs  # type: ignore[assignment,method-assign]
    assert not daemon._answers()
    queue.away = False
    del queue.load
    report = daemon.run_once()
    assert report.succeeded
    assert daemon._pause(report) == daemon.pace.longest


def test_where_the_look_answers_and_the_cycle_fails_no_pause_doubles(tmp_path: Path) -> None:
    """A command that hangs or lies: what the calls cost says how long to wait, and no more."""
    queue, cycle = site(tmp_path)
    daemon, _ = daemon_of(cycle, CountedStop(1))
    daemon.pace = Pace(longest=CYCLE, busy_share=0.1)

    def hangs() -> None:
        daemon.cycle.calls.append(("squeue", 5.0))
        raise BatchSystemUnavailable("squeue gave no answer within 5 s")

    queue.snapshot = hangs  # type: ignore[assignment,method-assign]
    assert [daemon._pause(daemon.run_once()) for _ in range(4)] == [50.0] * 4


def test_a_cycle_that_waits_longer_than_a_cycles_time_is_followed_by_a_pause(
    tmp_path: Path,
) -> None:
    """The cheap look answers, what a cycle asks first does not: Slurm gets its rest."""
    queue = QueueInMemory(pending_jobs([3, 2, 1]))
    stop = CountedStop(10_000)
    daemon, reports = daemon_of(cycle_over(queue, ScorePolicy([1, 2, 3]), tmp_path), stop)
    hung = 0.0

    def hangs() -> None:
        nonlocal hung
        hung += 60.0
        if len(reports) == 4:
            stop.set()
        raise BatchSystemUnavailable("scontrol gave no answer within 60 s")

    queue.facts = hangs  # type: ignore[assignment,method-assign]
    daemon.pace, daemon.monotonic = Pace(longest=CYCLE), lambda: hung
    daemon.run()
    assert sum(stop.pauses) >= 3 * CYCLE  # the first doubled pause is over when the cycle is
