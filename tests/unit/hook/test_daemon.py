"""The daemon: when cycles are due, what it notices between them, and how it leaves."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import NoReturn

import pytest

from slurm_rl_plugin.batch_systems.port import SchedulerLoad
from slurm_rl_plugin.errors import BatchSystemUnavailable
from slurm_rl_plugin.hook.cycle.cycle import Cycle
from slurm_rl_plugin.hook.cycle_report import CycleReport, NewJobsDue, Pace
from slurm_rl_plugin.hook.daemon.daemon import Reloaded
from slurm_rl_plugin.hook.daemon.signals import SignalRequest, sd_notify
from slurm_rl_plugin.hook.memory.disable_file import Disablement, write_disable_file
from tests.unit.hook.queues import (
    CountedStop,
    CountingPolicy,
    ScorePolicy,
    cycle_over,
    daemon_of,
    memory_of,
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
