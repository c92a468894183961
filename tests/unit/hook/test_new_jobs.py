"""Jobs that come between two cycles get their places at once, and nothing else is written."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.batch_systems.port import (
    ApplyReport,
    FactorChange,
    SchedulerFacts,
    SchedulerLoad,
)
from slurm_rl_plugin.domain import Decision, Memory, QueueSnapshot
from slurm_rl_plugin.errors import ChangeRejected
from slurm_rl_plugin.hook.cycle.cycle import LONGEST_WRITING, WRITES_AT_ONCE, Cycle
from slurm_rl_plugin.hook.cycle.settings import SOONEST_POLL, Pace
from slurm_rl_plugin.hook.cycle_report import CycleReport
from tests.unit.hook.queues import (
    FACTS,
    NOW,
    CountedStop,
    QueueInMemory,
    ScorePolicy,
    audit_lines,
    cycle_over,
    daemon_of,
    pending_jobs,
)


@dataclass
class WaitingQueue(QueueInMemory):
    """Shows the pending jobs; `submitted` counts the jobs that have come."""

    lists_pending = True

    submitted: int = 0
    bursts: list[int] = field(default_factory=list)

    def load(self) -> SchedulerLoad:
        return replace(super().load(), submitted=self.submitted)

    def pending_now(self) -> QueueSnapshot:
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
    assert stop.pauses == [SOONEST_POLL] * 5


def test_in_shadow_mode_nobody_looks_for_new_jobs(queue: WaitingQueue, tmp_path: Path) -> None:
    cycle = cycle_over(queue, LastFirst([]), tmp_path, shadow=True)
    daemon, reports = daemon_of(cycle, CountedStop(2, lambda number: queue.add([5, 4, 3, 2])))
    daemon.pace = Pace(longest=60.0, soonest=60.0)
    daemon.run()
    assert len(reports) == 1


def slow(cycle: Cycle, queue: WaitingQueue) -> None:
    """Each call that writes takes so long that no other follows in its cycle."""
    queue.now = 100.0 * NOW
    cycle.monotonic = lambda: LONGEST_WRITING * len(queue.bursts)


def test_a_place_for_another_request_goes_before_new_jobs_also_where_writes_are_slow(
    queue: WaitingQueue, tmp_path: Path
) -> None:
    few = 20
    policy = ScorePolicy(list(range(few)))
    queue.pending = pending_jobs([1] * few)
    cycle = cycle_over(queue, policy, tmp_path)
    cycle.run()
    assert queue.order()[0] == few
    slow(cycle, queue)
    count = few + 2 * WRITES_AT_ONCE
    queue.add([1] * count)
    queue.pending.jobs.time_limit[few - 1] = 6000.0
    policy.scores = [*range(few - 1), -1, *range(few, count)]
    queue.written.clear()
    cycle.run(new_jobs=True)
    assert len(queue.written) == WRITES_AT_ONCE
    assert queue.written[0].job_id == few
    assert queue.written[0].new < queue.written[0].old


def test_a_place_that_was_not_sent_is_decided_first_again(
    queue: WaitingQueue, tmp_path: Path
) -> None:
    """More limits are raised than one cycle can write: all lose their places in the next ones."""
    count = 4 * WRITES_AT_ONCE
    raised = count // 2
    policy = ScorePolicy(list(range(count)))
    queue.pending, queue.now = pending_jobs([1] * count), 100.0 * NOW
    cycle = cycle_over(queue, policy, tmp_path)
    cycle.run()
    slow(cycle, queue)
    queue.pending.jobs.time_limit[raised:] = 6000.0
    policy.scores = [*range(count, count + raised), *range(raised)]
    queue.written.clear()
    for _ in range(raised // WRITES_AT_ONCE):
        cycle.run(new_jobs=True)
    assert sorted(change.job_id for change in queue.written) == list(range(raised + 1, count + 1))
    assert cycle.run(new_jobs=True).writes == 0


def test_how_long_new_jobs_were_without_places_that_were_not_sent_at_once(
    queue: WaitingQueue, cycle: Cycle
) -> None:
    cycle.run()
    slow(cycle, queue)
    cycle.run()
    queue.add([1] * (3 + 2 * WRITES_AT_ONCE))
    queue.pending.jobs.eligible[3:] = queue.now + 1.0
    queue.now += 2.0
    for passed in (1.0, 4.0):
        seconds = cycle.run(new_jobs=True).place_seconds
        assert seconds == (passed + LONGEST_WRITING,) * WRITES_AT_ONCE
        queue.now += 3.0


def test_a_queue_that_is_spaced_anew_is_written_to_the_end(
    queue: WaitingQueue, tmp_path: Path
) -> None:
    """Begun and not ended, spacing would begin again in each cycle."""
    count = 700
    policy = ScorePolicy([*range(count, 1, -1), 100.5])  # the last job is to go before a hundred
    queue.pending = pending_jobs([1] * count, factor=list(range(count - 1, -1, -1)))
    cycle = cycle_over(queue, policy, tmp_path)
    slow(cycle, queue)
    for _ in range(10):
        cycle.run()
    assert queue.order() == [*range(1, 601), 700, *range(601, 700)]
    assert cycle.run().writes == 0


def test_a_call_of_which_all_is_refused_after_others_is_no_missing_right(
    queue: WaitingQueue, tmp_path: Path
) -> None:
    queue.add(list(range(WRITES_AT_ONCE + 2, 0, -1)))
    queue.now = 100.0 * NOW
    cycle = cycle_over(queue, LastFirst([]), tmp_path)
    apply = queue.apply

    def refusing(changes: Sequence[FactorChange]) -> ApplyReport:
        if len(changes) < WRITES_AT_ONCE:
            raise ChangeRejected("no job took it")
        return apply(changes)

    queue.apply = refusing  # type: ignore[method-assign]
    report = cycle.run()
    assert (report.failure, report.writes) == (None, WRITES_AT_ONCE)


def test_looks_for_new_jobs_judge_no_backlog_of_accounting(
    queue: WaitingQueue, cycle: Cycle, monkeypatch: pytest.MonkeyPatch
) -> None:
    cycle.run()
    load = queue.load
    monkeypatch.setattr(queue, "load", lambda: replace(load(), backlog=9))
    assert not any(cycle.run(new_jobs=True).disturbances for _ in range(9))


def test_a_look_for_new_jobs_that_fails_is_no_cycle(queue: WaitingQueue, cycle: Cycle) -> None:
    cycle.run()
    queue.away = True
    report = cycle.run(new_jobs=True)
    assert (report.failure, report.of_new_jobs) == ("batch_system", True)


def looked(cycle: Cycle, between: Callable[[int], None]) -> tuple[list[float], list[CycleReport]]:
    """Pauses and reports of a daemon whose next cycle is not due for a minute."""
    stop = CountedStop(24, between)
    daemon, reports = daemon_of(cycle, stop)
    daemon.pace = Pace(longest=60.0, soonest=60.0)
    daemon.run()
    return stop.pauses, reports


def test_once_another_hosts_controller_is_in_charge_nobody_looks_for_new_jobs(
    queue: WaitingQueue, tmp_path: Path
) -> None:
    cycle = cycle_over(queue, LastFirst([]), tmp_path, beside_controllers=True)

    def between(number: int) -> None:
        queue.known = replace(FACTS, in_charge=False)
        queue.add([5, 4, 3, *[2] * number])

    _, reports = looked(cycle, between)
    assert [each.mode for each in reports if each.of_new_jobs] == ["standby"]


def test_a_job_that_comes_held_is_looked_for_until_it_may_start(
    queue: WaitingQueue, cycle: Cycle
) -> None:
    def between(number: int) -> None:
        if number == 2:
            queue.add([5, 4, 3, 0], held=[False, False, False, True])
        if number == 4:
            queue.add([5, 4, 3, 2])

    _, reports = looked(cycle, between)
    assert [each.writes for each in reports if each.of_new_jobs][:2] == [0, 1]


def test_a_batch_system_whose_cheap_look_takes_long_is_asked_less_often(
    queue: WaitingQueue, cycle: Cycle
) -> None:
    clock, load = [0.0], queue.load

    def slow_load() -> SchedulerLoad:
        clock[0] += 0.4
        return load()

    queue.load = slow_load  # type: ignore[method-assign]
    stop = CountedStop(6)
    daemon, _ = daemon_of(cycle, stop)
    daemon.pace, daemon.monotonic = Pace(longest=60.0, soonest=60.0), lambda: clock[0]
    daemon.run()
    assert stop.pauses == pytest.approx([SOONEST_POLL, *[4.0] * 5])  # a tenth of the time


@pytest.mark.parametrize(
    ("call", "taken", "pause"),
    [
        ("snapshot", 3.0, 27.0),
        ("snapshot", 29.0, 1.0),
        ("snapshot", 31.0, 31.0),
        ("snapshot", 200.0, 200.0),
        ("pending_now", 31.0, 31.0),
        ("pending_now", 200.0, 200.0),
    ],
)
def test_what_took_longer_than_a_cycle_is_followed_by_as_long_a_pause(
    queue: WaitingQueue, cycle: Cycle, call: str, taken: float, pause: float
) -> None:
    clock, began, ended = [0.0], [], []
    answer = getattr(queue, call)

    def slow_answer() -> QueueSnapshot:
        if not ended:
            clock[0] += taken
            ended.append(clock[0])
        return answer()

    facts = queue.facts

    def first_call() -> SchedulerFacts:
        began.extend([clock[0]] * len(ended))
        return facts()

    def between(number: int) -> None:
        clock[0] += stop.pauses[-1]
        queue.events = (number,)  # the queue changes all the time
        if call == "pending_now" and number == 1:
            queue.add([5, 4, 3, 2])

    setattr(queue, call, slow_answer)
    queue.facts = first_call  # type: ignore[method-assign]
    stop = CountedStop(100, between)
    daemon, _ = daemon_of(cycle, stop)
    daemon.pace, daemon.monotonic = Pace(longest=30.0, soonest=30.0), lambda: clock[0]
    daemon.run()
    assert began[0] - ended[0] == pytest.approx(pause)


def test_what_a_user_did_between_cycles_outlasts_a_stop(
    queue: WaitingQueue, cycle: Cycle, tmp_path: Path
) -> None:
    cycle.run()
    queue.add([5, 4, 3, 2])
    first = int(np.argmax(queue.pending.native_priority + queue.pending.factor))
    queue.pending.nice[:3] = 1000  # as `scontrol top` leaves them
    queue.pending.nice[first] = -2000
    cycle.run(new_jobs=True)
    cycle.remember()
    assert (tmp_path / "state.json.own-nice").is_file()


def test_a_right_that_was_denied_rests_for_new_jobs_too(
    queue: WaitingQueue, cycle: Cycle, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(changes: Sequence[FactorChange]) -> ApplyReport:
        asked.append(len(changes))
        raise ChangeRejected("no right")

    asked: list[int] = []
    cycle.run()
    queue.add([5, 4, 3, 2])
    monkeypatch.setattr(queue, "apply", denied)
    reports = [cycle.run(new_jobs=True) for _ in range(cycle.settings.breaker_rest + 2)]
    assert [each.failure for each in reports] == ["write", *[None] * (len(reports) - 1)]
    assert len(asked) == 1
    for _ in range(cycle.settings.breaker_rest - 1):  # whole cycles end the rest
        assert cycle.run().mode == "shadow"
    assert cycle.run().failure == "write"
