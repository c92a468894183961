"""Jobs that come between two cycles get their places at once, and nothing else is written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from slurm_rl_plugin.batch_systems.port import ApplyReport, FactorChange, SchedulerLoad
from slurm_rl_plugin.domain import Decision, Memory, QueueSnapshot
from slurm_rl_plugin.errors import ChangeRejected
from slurm_rl_plugin.hook.cycle.cycle import LONGEST_WRITING, WRITES_AT_ONCE, Cycle
from slurm_rl_plugin.hook.cycle_report import SOONEST_POLL, Pace
from tests.unit.hook.queues import (
    NOW,
    CountedStop,
    ScorePolicy,
    WaitingQueue,
    cycle_over,
    daemon_of,
    pending_jobs,
)


def order_for(queue: WaitingQueue, policy: ScorePolicy, folder: Path, **settings: object) -> Cycle:
    """A cycle that has run once."""
    cycle = cycle_over(queue, policy, folder, **settings)
    cycle.run()
    queue.written.clear()
    return cycle


class LastFirst(ScorePolicy):
    """The later a job came, the sooner it is to start."""

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        self.scores = snapshot.pending.jobs.job_id.astype(np.float64).tolist()
        return super().decide(snapshot, memory)


FOUR = [5, 4, 3, 2]


@pytest.fixture
def queue() -> WaitingQueue:
    return WaitingQueue(pending_jobs([5, 4, 3]))


@pytest.fixture
def cycle(queue: WaitingQueue, tmp_path: Path) -> Cycle:
    return order_for(queue, LastFirst([]), tmp_path)


def test_long_writes_are_left_for_the_next_cycle(queue: WaitingQueue, tmp_path: Path) -> None:
    queue.add(list(range(3 * WRITES_AT_ONCE, 0, -1)))
    queue.now = 100.0 * NOW
    cycle = cycle_over(queue, LastFirst([]), tmp_path)
    cycle.monotonic = lambda: LONGEST_WRITING * 0.75 * len(queue.bursts)
    report = cycle.run()
    assert queue.bursts == [WRITES_AT_ONCE] * 2  # after the second it has taken too long
    assert report.writes == 2 * WRITES_AT_ONCE
    wanted = 3 * WRITES_AT_ONCE - 1  # the first that came is last already
    assert report.suppressed["write_bound"] == wanted - report.writes


SELDOM = Pace(longest=60.0, soonest=60.0)


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
    cycle = order_for(queue, policy, tmp_path)
    assert queue.order()[0] == few
    slow(cycle, queue)
    count = few + 2 * WRITES_AT_ONCE
    queue.add([1] * count)
    queue.pending.jobs.time_limit[few - 1] = 6000.0
    policy.scores = [*range(few - 1), -1, *range(few, count)]
    cycle.run(new_jobs=True)
    assert len(queue.written) == WRITES_AT_ONCE
    assert queue.written[0].job_id == few
    assert queue.written[0].new < queue.written[0].old


def test_an_unsent_place_is_decided_first_again(queue: WaitingQueue, tmp_path: Path) -> None:
    """More limits are raised than one cycle can write: all lose their places in the next ones."""
    count = 4 * WRITES_AT_ONCE
    raised = count // 2
    policy = ScorePolicy(list(range(count)))
    queue.pending, queue.now = pending_jobs([1] * count), 100.0 * NOW
    cycle = order_for(queue, policy, tmp_path)
    slow(cycle, queue)
    queue.pending.jobs.time_limit[raised:] = 6000.0
    policy.scores = [*range(count, count + raised), *range(raised)]
    for _ in range(raised // WRITES_AT_ONCE):
        cycle.run(new_jobs=True)
    assert sorted(change.job_id for change in queue.written) == list(range(raised + 1, count + 1))
    assert cycle.run(new_jobs=True).writes == 0


def test_how_long_new_jobs_were_without_unsent_places(queue: WaitingQueue, cycle: Cycle) -> None:
    slow(cycle, queue)
    cycle.run()
    queue.add([1] * (3 + 2 * WRITES_AT_ONCE))
    queue.pending.jobs.eligible[3:] = queue.now + 1.0
    queue.now += 2.0
    for passed in (1.0, 4.0):
        seconds = cycle.run(new_jobs=True).place_seconds
        assert seconds == (passed + LONGEST_WRITING,) * WRITES_AT_ONCE
        queue.now += 3.0


def test_a_queue_spaced_anew_is_written_to_the_end(queue: WaitingQueue, tmp_path: Path) -> None:
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


def test_a_refused_call_after_others_is_no_missing_right(
    queue: WaitingQueue, tmp_path: Path
) -> None:
    queue.add(list(range(WRITES_AT_ONCE + 2, 0, -1)))
    queue.now = 100.0 * NOW
    apply = queue.apply

    def refusing(changes: Sequence[FactorChange]) -> ApplyReport:
        if len(changes) < WRITES_AT_ONCE:
            raise ChangeRejected("no job took it")
        return apply(changes)

    queue.apply = refusing  # type: ignore[method-assign]
    report = cycle_over(queue, LastFirst([]), tmp_path).run()
    assert (report.failure, report.writes) == (None, WRITES_AT_ONCE)


def test_a_slow_cheap_look_is_repeated_less_often(queue: WaitingQueue, cycle: Cycle) -> None:
    clock, load = [0.0], queue.load

    def slow_load() -> SchedulerLoad:
        clock[0] += 0.4
        return load()

    queue.load = slow_load  # type: ignore[method-assign]
    stop = CountedStop(6)
    daemon_of(cycle, stop, pace=SELDOM, monotonic=lambda: clock[0])[0].run()
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
    answer, facts = getattr(queue, call), queue.facts

    def slow_answer() -> QueueSnapshot:
        if not ended:
            clock[0] += taken
            ended.append(clock[0])
        return answer()

    def first_call() -> object:
        began.extend([clock[0]] * len(ended))
        return facts()

    def between(number: int) -> None:
        clock[0] += stop.pauses[-1]
        queue.events = (number,)  # the queue changes all the time
        if call == "pending_now" and number == 1:
            queue.add(FOUR)

    setattr(queue, call, slow_answer)
    queue.facts = first_call  # type: ignore[assignment,method-assign]
    stop = CountedStop(100, between)
    pace = Pace(longest=30.0, soonest=30.0)
    daemon_of(cycle, stop, pace=pace, monotonic=lambda: clock[0])[0].run()
    assert began[0] - ended[0] == pytest.approx(pause)


def test_a_users_change_between_cycles_is_kept(
    queue: WaitingQueue, cycle: Cycle, tmp_path: Path
) -> None:
    queue.add(FOUR)
    first = int(np.argmax(queue.pending.native_priority + queue.pending.factor))
    queue.pending.nice[:3] = 1000  # as `scontrol top` leaves them
    queue.pending.nice[first] = -2000
    cycle.run(new_jobs=True)
    cycle.remember()
    assert (tmp_path / "state.json.own-nice").is_file()


def test_a_right_that_was_denied_rests_for_new_jobs_too(
    queue: WaitingQueue, cycle: Cycle, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(changes: Sequence[FactorChange]) -> NoReturn:
        asked.append(len(changes))
        raise ChangeRejected("no right")

    asked: list[int] = []
    queue.add(FOUR)
    monkeypatch.setattr(queue, "apply", denied)
    reports = [cycle.run(new_jobs=True) for _ in range(cycle.settings.breaker_rest + 2)]
    assert [each.failure for each in reports] == ["write", *[None] * (len(reports) - 1)]
    assert len(asked) == 1
    for _ in range(cycle.settings.breaker_rest - 1):  # whole cycles end the rest
        assert cycle.run().mode == "shadow"
    assert cycle.run().failure == "write"
