"""Once Slurm answers again a cycle comes within one cycle's time, however long it was away."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_rl_plugin.errors import BatchSystemUnavailable
from slurm_rl_plugin.hook.daemon.daemon import Daemon
from slurm_rl_plugin.hook.daemon.pace import Pace
from tests.unit.hook.queues import QueueInMemory, ScorePolicy, pending_jobs
from tests.unit.hook.test_cycle import cycle_over
from tests.unit.hook.test_daemon import CountedStop, daemon_of

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
    queue = QueueInMemory(pending_jobs([3, 2, 1]))
    daemon, _ = daemon_of(cycle_over(queue, ScorePolicy([1, 2, 3]), tmp_path), CountedStop(1))
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
