"""Jobs that come between two cycles get their places at once, and nothing else is written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.batch_systems.port import ApplyReport, FactorChange, SchedulerLoad
from slurm_rl_plugin.domain import Decision, Memory, QueueSnapshot
from slurm_rl_plugin.hook.cycle.cycle import LONGEST_WRITING, WRITES_AT_ONCE, Cycle
from slurm_rl_plugin.hook.daemon.pace import Pace
from tests.unit.hook.queues import NOW, QueueInMemory, ScorePolicy, pending_jobs
from tests.unit.hook.test_cycle import audit_lines, cycle_over
from tests.unit.hook.test_daemon import CountedStop, daemon_of


@dataclass
class WaitingQueue(QueueInMemory):
    """Tells who waits now; `submitted` counts the jobs that have come."""

    submitted: int = 0
    bursts: list[int] = field(default_factory=list)

    def load(self) -> SchedulerLoad:
        return replace(super().load(), submitted=self.submitted)

    def waiting_now(self) -> QueueSnapshot:
        return super().snapshot()

    def apply(self, changes: Sequence[FactorChange]) -> ApplyReport:
        self.bursts.append(len(changes))
        return super().apply(changes)

    def add(self, native: Sequence[int], **columns: Sequence[object]) -> None:
        """The whole queue anew, with factors of those that were there."""
        factor = np.zeros(len(native), dtype=np.int64)
        factor[: len(self.pending)] = self.pending.factor
        self.submitted += len(native) - len(self.pending)
        self.pending = pending_jobs(native, factor=factor.tolist(), **columns)


class LastFirst(ScorePolicy):
    """The later a job came, the sooner it is to start."""

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        self.scores = snapshot.pending.jobs.job_id.astype(np.float64).tolist()
        return super().decide(snapshot, memory)


@pytest.fixture
def queue() -> WaitingQueue:
    return WaitingQueue(pending_jobs([5, 4, 3]))


@pytest.fixture
def cycle(queue: WaitingQueue, tmp_path: Path) -> Cycle:
    return cycle_over(queue, LastFirst([]), tmp_path)


def test_a_new_job_gets_its_place_and_no_other_is_written(
    queue: WaitingQueue, cycle: Cycle
) -> None:
    cycle.run()
    queue.written.clear()
    queue.add([5, 4, 3, 2])
    report = cycle.run(new_jobs=True)
    assert queue.order() == [4, 3, 2, 1]
    assert [change.job_id for change in queue.written] == [4]
    assert (report.writes, report.of_new_jobs) == (1, True)
    assert cycle.run(new_jobs=True).writes == 0


def test_a_new_job_is_audited_without_a_line_of_the_whole_order(
    queue: WaitingQueue, cycle: Cycle, tmp_path: Path
) -> None:
    cycle.run()
    before = len(audit_lines(tmp_path))
    queue.add([5, 4, 3, 2])
    cycle.run(new_jobs=True)
    (line,) = audit_lines(tmp_path)[before:]
    assert (line["event"], line["job"], line["rank"]) == ("write", 4, 0)
    assert 4 in json.loads((tmp_path / "state.json").read_text())["jobs"]


def test_a_job_that_is_released_gets_its_place(queue: WaitingQueue, cycle: Cycle) -> None:
    queue.add([5, 4, 3, 0], held=[False, False, False, True])
    cycle.run()
    queue.add([5, 4, 3, 2])
    assert cycle.run(new_jobs=True).writes == 1
    assert queue.order()[0] == 4


def test_a_longer_limit_loses_its_place_at_once(queue: WaitingQueue, tmp_path: Path) -> None:
    policy = ScorePolicy([1, 2, 3])
    cycle = cycle_over(queue, policy, tmp_path)
    cycle.run()
    assert queue.order() == [3, 2, 1]
    queue.pending.jobs.time_limit[2], policy.scores = 6000.0, [1, 2, 0]
    cycle.run(new_jobs=True)
    assert queue.order() == [2, 1, 3]


def test_before_the_first_cycle_and_without_a_new_job_nobody_decides(
    queue: WaitingQueue, tmp_path: Path
) -> None:
    policy = ScorePolicy([1, 2, 3])
    cycle = cycle_over(queue, policy, tmp_path)
    assert cycle.run(new_jobs=True).writes == 0
    cycle.run()
    cycle.run(new_jobs=True)
    assert policy.asked == 1


@dataclass
class Counting(LastFirst):
    """Remembers how often it has decided; `found` are the counts that it was given."""

    found: list[float] = field(default_factory=list)

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        count = np.zeros(1) if memory is None else memory
        self.found.append(float(count[0]))
        return replace(LastFirst.decide(self, snapshot, memory), memory=count + 1.0)


def test_what_the_policy_remembers_is_that_of_the_last_cycle(
    queue: WaitingQueue, tmp_path: Path
) -> None:
    """Running jobs are as a cycle saw them: they would outlive bounds after their ends."""
    policy = Counting([])
    cycle = cycle_over(queue, policy, tmp_path)
    cycle.run()
    queue.add([5, 4, 3, 2])
    assert cycle.run(new_jobs=True).writes == 1
    cycle.run()
    assert policy.found == [0.0, 1.0, 1.0]


def test_into_an_empty_queue_a_job_comes_as_into_any_other(
    queue: WaitingQueue, cycle: Cycle
) -> None:
    queue.pending = pending_jobs([])
    cycle.run()
    queue.add([1, 1])
    cycle.run(new_jobs=True)
    assert queue.order() == [2, 1]


def test_where_the_policy_fails_new_jobs_stay_where_the_site_puts_them(
    queue: WaitingQueue, tmp_path: Path
) -> None:
    policy = ScorePolicy([1, 2, 3])
    cycle = cycle_over(queue, policy, tmp_path)
    cycle.run()
    queue.add([5, 4, 3, 2])
    policy.broken = True
    assert cycle.run(new_jobs=True).writes == 0
    policy.broken, policy.scores = False, [1, 2, 3, 4]
    assert cycle.run(new_jobs=True).writes == 1  # it is still new


def test_while_a_long_queue_is_ordered_a_new_job_stands_among_those_that_have_a_place(
    queue: WaitingQueue, tmp_path: Path
) -> None:
    cycle = cycle_over(queue, LastFirst([]), tmp_path, max_writes=2)
    queue.add([100, 90, 80, 70, 60, 50])
    cycle.run()
    queue.add([100, 90, 80, 70, 60, 50, 40])
    queue.written.clear()
    cycle.run(new_jobs=True)
    assert [change.job_id for change in queue.written] == [7]
    assert queue.order()[0] == 7


def test_a_whole_cycle_writes_new_jobs_first(queue: WaitingQueue, tmp_path: Path) -> None:
    cycle = cycle_over(queue, LastFirst([]), tmp_path, max_writes=1)
    cycle.run()  # not all have their places
    queue.add([5, 4, 3, 2])
    queue.written.clear()
    cycle.run()
    assert [change.job_id for change in queue.written] == [4]


def test_how_long_a_new_job_was_without_a_place(queue: WaitingQueue, cycle: Cycle) -> None:
    cycle.run()
    queue.add([5, 4, 3, 2])
    queue.pending.jobs.eligible[3] = NOW + 2.0
    queue.now = NOW + 5.0
    report = cycle.run(new_jobs=True)
    assert report.place_seconds == pytest.approx([3.0], abs=0.1)


def test_writes_that_take_long_are_left_for_the_next_cycle(
    queue: WaitingQueue, cycle: Cycle
) -> None:
    queue.add(list(range(3 * WRITES_AT_ONCE, 0, -1)))
    queue.now = 100.0 * NOW
    cycle.monotonic = lambda: LONGEST_WRITING * 0.75 * len(queue.bursts)
    report = cycle.run()
    assert queue.bursts == [WRITES_AT_ONCE] * 2  # after the second it has taken too long
    assert report.writes == 2 * WRITES_AT_ONCE
    wanted = 3 * WRITES_AT_ONCE - 1  # the first that came is last already
    assert report.suppressed["write_bound"] == wanted - report.writes


def test_the_daemon_looks_for_new_jobs_while_the_next_cycle_is_not_due(
    queue: WaitingQueue, cycle: Cycle
) -> None:
    def between(number: int) -> None:
        if number == 3:
            queue.add([5, 4, 3, 2])

    stop = CountedStop(5, between)
    daemon, reports = daemon_of(cycle, stop)
    daemon.pace = Pace(longest=60.0, soonest=60.0)
    daemon.run()
    assert [each.of_new_jobs for each in reports] == [False, True]
    assert reports[1].writes == 1
    assert stop.pauses == [1.0] * 5


def test_in_shadow_mode_nobody_looks_for_new_jobs(queue: WaitingQueue, tmp_path: Path) -> None:
    cycle = cycle_over(queue, LastFirst([]), tmp_path, shadow=True)
    daemon, reports = daemon_of(cycle, CountedStop(2, lambda number: queue.add([5, 4, 3, 2])))
    daemon.pace = Pace(longest=60.0, soonest=60.0)
    daemon.run()
    assert len(reports) == 1
