"""The daemon: when cycles are due, what it notices between them, and how it leaves."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import NoReturn

import numpy as np
import pytest

from slurm_rl_plugin.batch_systems.port import ApplyReport, FactorChange, SchedulerLoad
from slurm_rl_plugin.domain import Decision, Memory, QueueSnapshot
from slurm_rl_plugin.errors import BatchSystemUnavailable, ChangeRejected
from slurm_rl_plugin.hook.cycle.cycle import LONGEST_WRITING, WRITES_AT_ONCE, Cycle
from slurm_rl_plugin.hook.cycle_report import SOONEST_POLL, CycleReport, NewJobsDue, Pace
from slurm_rl_plugin.hook.daemon.daemon import Reloaded
from slurm_rl_plugin.hook.daemon.signals import SignalRequest, sd_notify
from slurm_rl_plugin.hook.memory.disable_file import Disablement, write_disable_file
from tests.unit.hook.queues import (
    NOW,
    CountedStop,
    CountingPolicy,
    ScorePolicy,
    WaitingQueue,
    cycle_over,
    daemon_of,
    memory_of,
    pending_jobs,
    site,
)


def test_pauses_double_while_the_batch_system_is_away_and_end_with_it(tmp_path: Path) -> None:
    queue, cycle = site(tmp_path)
    daemon, _ = daemon_of(cycle, Event(), pace=Pace(longest=30.0))
    pauses = []
    for number in range(7):
        queue.away = number < 6
        pauses.append(daemon._pause(daemon.run_once()))
    assert pauses == [60.0, 120.0, 240.0, 300.0, 300.0, 300.0, 30.0]


def test_a_wish_is_noticed_within_a_fraction_of_a_second() -> None:
    slept: list[float] = []
    wish = SignalRequest(slept.append)
    assert not wish.wait(1.0)
    assert sum(slept) == pytest.approx(1.0)
    assert max(slept) <= 0.2
    wish.sleep = lambda seconds: wish.set()
    assert wish.wait(1000.0)
    wish.clear()
    assert not wish.is_set()


@pytest.mark.parametrize("faulty", [True, False])
def test_reload_takes_the_new_cycle_or_keeps_the_old(tmp_path: Path, faulty: bool) -> None:
    queue, old = site(tmp_path)
    new = cycle_over(queue, ScorePolicy([1, 2, 3], name="new"), tmp_path)
    fresh = Reloaded(new, Pace(longest=4.0, soonest=4.0), tmp_path / "OFF")
    daemon, reports = daemon_of(old, 2, reload=lambda: None if faulty else fresh)
    daemon.reload_wanted.set()
    daemon.run()
    assert [report.policy for report in reports] == ["scores" if faulty else "new"] * 2
    assert not daemon.reload_wanted.is_set()
    assert daemon.pace.longest == (5.0 if faulty else 4.0)
    assert daemon.disable_file == (None if faulty else tmp_path / "OFF")


def test_systemd_is_told_where_it_listens(tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(address)
        sd_notify("READY=1", {"NOTIFY_SOCKET": address})
        assert systemd.recv(100) == b"READY=1"
    sd_notify("READY=1", {})
    sd_notify("READY=1", {"NOTIFY_SOCKET": os.devnull})


def test_memory_is_written_before_a_reload_and_at_the_stop(tmp_path: Path) -> None:
    memory_file, policy, seen = memory_of(tmp_path), CountingPolicy([1, 2, 3]), list[float]()
    _, cycle = site(tmp_path, policy=policy)
    wanted = Event()
    stop = CountedStop(4, lambda number: wanted.set() if number == 2 else None)

    def reload() -> None:
        seen.append(float(memory_file.read()[0]))  # type: ignore[index]

    daemon, _ = daemon_of(cycle, stop, reload=reload, reload_wanted=wanted)
    assert daemon.run()
    assert seen == [2.0]
    assert memory_file.read() == [policy.asked]
    assert policy.asked > 2


def test_a_pause_restores_and_ends_by_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    queue, cycle = site(tmp_path)
    disable, seconds = tmp_path / "DISABLE", [100.0]
    factors: list[list[int]] = []

    def between(number: int) -> None:
        factors.append(queue.pending.factor.tolist())
        seconds[0] += 5.0
        if number == 1:
            write_disable_file(disable, Disablement(by="root", at=100.0, until=112.0))

    pace = Pace(longest=300.0, soonest=300.0)
    daemon, reports = daemon_of(cycle, CountedStop(4, between), disable_file=disable, pace=pace)
    daemon.clock = daemon.monotonic = lambda: seconds[0]
    with caplog.at_level("INFO", logger="slurm_rl_plugin.hook.daemon.daemon"):
        daemon.run()
    assert [report.mode for report in reports] == ["active", "disabled", "active"]
    assert [any(each) for each in factors] == [True, False, False, True]
    assert disable.exists()
    told = [each.message for each in caplog.records if each.message.startswith("disabled=")]
    assert told[0].startswith("disabled=yes by root since 1970-")
    assert "until 1970-" in told[0]
    assert told[1:] == ["disabled=no"]


def test_leaving_outlasts_an_unknown_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue, cycle = site(tmp_path)
    daemon, _ = daemon_of(cycle)
    release, faults = Cycle.release, [OverflowError("too large"), RuntimeError("a bug")]

    def broken(self: Cycle) -> object:
        if faults:
            raise faults.pop()
        return release(self)

    monkeypatch.setattr(Cycle, "release", broken)
    assert daemon.run()
    assert queue.pending.factor.tolist() == [0, 0, 0]
    faults += [OverflowError("too large")] * 3
    daemon.run_once()
    assert not daemon.leave()
    shadow = cycle_over(queue, cycle.policy, tmp_path, shadow=True)
    daemon, reports = daemon_of(shadow)
    faults += [OverflowError("too large")]
    for _ in range(2):
        daemon.run_once()
    assert len(reports) == 2
    assert queue.pending.factor.tolist() == [0, 0, 0]


def test_a_fault_of_a_report_ends_the_daemon_without_a_factor(tmp_path: Path) -> None:
    queue, cycle = site(tmp_path)

    def broken(report: CycleReport) -> NoReturn:
        assert any(queue.pending.factor)
        raise RuntimeError("a bug")

    daemon, _ = daemon_of(cycle, 9, publish=broken)
    with pytest.raises(RuntimeError, match="a bug"):
        daemon.run()
    assert queue.pending.factor.tolist() == [0, 0, 0]


def report(*, calls: float = 0.0, **more: object) -> CycleReport:
    asked = (("squeue", calls / 2), ("scontrol", calls / 2), ("sacct", 60.0))
    first = CycleReport(time=1.0, mode="active", policy="p", calls=asked, pass_interval=30.0)
    return replace(first, **more)  # type: ignore[arg-type]


QUICK = Pace(longest=30.0, soonest=2.0)


@pytest.mark.parametrize(
    ("pace", "last", "earliest"),
    [
        (Pace(longest=30.0), report(), 15.0),
        (Pace(longest=10.0), report(), 10.0),
        (QUICK, report(calls=0.1), 2.0),
        (QUICK, report(calls=1.0), 10.0),
        (QUICK, report(calls=8.0), 30.0),
        (replace(QUICK, busy_share=1.0), report(calls=8.0), 8.0),
        (Pace(longest=30.0), report(pass_interval=0.0), 0.0),
    ],
)
def test_the_earliest_time_of_the_next_cycle(
    pace: Pace, last: CycleReport, earliest: float
) -> None:
    """Accounting, which is asked at the start alone, earns no pause."""
    assert pace.earliest(last) == earliest
    assert 0.5 <= pace.poll(last) <= 5.0


def looked_at(submitted: int) -> SchedulerLoad:
    return SchedulerLoad(struggles=None, events=(9,), submitted=submitted)


def test_a_job_that_came_is_looked_for_within_half_a_second_or_what_the_last_look_cost() -> None:
    due = NewJobsDue.after(report(submitted=7), Pace(longest=30.0), 2.0)
    assert not due.may_have_come(looked_at(8), 2.4)
    assert due.may_have_come(looked_at(8), 2.5)
    due.looked(report(calls=0.3, submitted=8), 3.5)
    assert not due.may_have_come(looked_at(9), 6.4)  # 0.3 s are a tenth of 3 s
    assert due.may_have_come(looked_at(9), 6.5)
    assert not due.may_have_come(looked_at(8), 6.5)


#: Seconds between cycles.
CYCLE = 30.0


def ends_of_cycles(tmp_path: Path, back_after: float, trouble: str) -> list[float]:
    """When cycles ended of a daemon in a trouble, in seconds of its own pauses."""
    queue, cycle = site(tmp_path)
    ends: list[float] = []

    def set_trouble(number: int) -> None:
        here = sum(stop.pauses) >= back_after
        queue.away = trouble == "away" and not here
        queue.struggles = "300 calls at once" if trouble == "busy" and not here else None

    def publish(report: CycleReport) -> None:
        ends.append(sum(stop.pauses))
        if report.succeeded:
            stop.set()

    stop = CountedStop(10_000, set_trouble)
    set_trouble(0)
    pace = Pace(longest=CYCLE, soonest=CYCLE)
    daemon_of(cycle, stop, pace=pace, publish=publish)[0].run()
    return ends


@pytest.mark.parametrize("trouble", ["away", "busy"])
@pytest.mark.parametrize("back_after", [1.0, 100.0, 1000.0, 5000.0])
def test_the_first_good_cycle_comes_within_one_cycle_and_others_become_seldom(
    tmp_path: Path, back_after: float, trouble: str
) -> None:
    ends = ends_of_cycles(tmp_path, back_after, trouble)
    assert back_after <= ends[-1] <= back_after + CYCLE
    # the cheap looks between them are one call each
    assert back_after < 1000.0 or len(ends) < back_after / CYCLE / 3


def hanging(cycle: Cycle, call: str, seconds: float) -> object:
    """A call that is given up, and costs what it took."""

    def hangs() -> NoReturn:
        cycle.calls.append((call, seconds))
        raise BatchSystemUnavailable(f"{call} gave no answer within {seconds:g} s")

    return hangs


def test_an_unanswered_look_earns_no_pause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue, cycle = site(tmp_path)
    daemon, _ = daemon_of(cycle)
    with monkeypatch.context() as patch:
        patch.setattr(queue, "load", hanging(cycle, "sdiag", 10.0))
        assert not daemon._answers()
    report = daemon.run_once()
    assert report.succeeded
    assert daemon._pause(report) == daemon.pace.longest


def test_where_the_look_answers_and_the_cycle_fails_no_pause_doubles(tmp_path: Path) -> None:
    """A command that hangs or lies: what the calls cost says how long to wait, and no more."""
    queue, cycle = site(tmp_path)
    daemon, _ = daemon_of(cycle, pace=Pace(longest=CYCLE, busy_share=0.1))
    queue.snapshot = hanging(cycle, "squeue", 5.0)  # type: ignore[assignment,method-assign]
    assert [daemon._pause(daemon.run_once()) for _ in range(4)] == [50.0] * 4


def test_a_cycle_longer_than_its_pace_is_followed_by_a_pause(tmp_path: Path) -> None:
    """The cheap look answers, what a cycle asks first does not: Slurm gets its rest."""
    queue, cycle = site(tmp_path)
    hung, stop = [0.0], CountedStop(10_000)

    def hangs() -> NoReturn:
        hung[0] += 60.0
        if len(reports) == 4:
            stop.set()
        raise BatchSystemUnavailable("scontrol gave no answer within 60 s")

    queue.facts = hangs  # type: ignore[method-assign]
    pace = Pace(longest=CYCLE)
    daemon, reports = daemon_of(cycle, stop, pace=pace, monotonic=lambda: hung[0])
    daemon.run()
    assert sum(stop.pauses) >= 3 * CYCLE  # the first doubled pause is over when the cycle is


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
