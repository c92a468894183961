"""What is counted from cycle to cycle: who got what, who waited, whose limits ended jobs."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.domain import EndedJobs, QueueSnapshot, RunningJobs, StartedJobs
from slurm_rl_plugin.domain.goals import Goals
from slurm_rl_plugin.hook.memory.account_service import (
    AccountService,
    Lifts,
    Overrun,
    Overruns,
    ServiceSeen,
)
from slurm_rl_plugin.units import DAY, HOUR, MINUTE
from tests.unit.hook.queues import damaged, job_table, pending_jobs, snapshot_of

BEGIN = 20_000 * DAY


def snapshot(now: float, running: list[int], waiting: list[int]) -> QueueSnapshot:
    """One processor a job: accounts of those that run, and of those that wait, with long limits."""

    def columns(account: list[int]) -> dict[str, list[float]]:
        since = [BEGIN] * len(account)
        limit = [90 * DAY] * len(account)
        return {"account": account, "submit": since, "eligible": since, "time_limit": limit}

    jobs = job_table(len(running), **columns(running))
    pending = pending_jobs([0] * len(waiting), **columns(waiting))
    return replace(
        snapshot_of(pending, now),
        running=RunningJobs(jobs=jobs, start=jobs.submit),
        accounts=("a", "b"),
        shares=np.array([0.75, 0.25]),
        usage=np.zeros(2),
    )


def watched(
    service: AccountService, days: float, *, since: float = BEGIN, waiting: tuple[int, ...] = (0,)
) -> ServiceSeen | None:
    """Account a runs on one of four processors, b on three, and some wait."""
    found = None
    for step in range(round(days * DAY / (5 * MINUTE)) + 1):
        now = since + step * 5 * MINUTE
        found = service.look(snapshot(now, [0, 1, 1, 1], list(waiting)))
    return found


def test_who_got_what_is_known_after_a_week_and_lifts_follow_it(tmp_path: Path) -> None:
    service = AccountService(path=tmp_path / "s")
    assert watched(service, 6.75) is None
    assert watched(service, 0.25, since=BEGIN + 6.75 * DAY) is not None
    assert lift_of(service) == pytest.approx([0.0, 0.0], abs=0.01)
    found = watched(service, 1.0, since=BEGIN + 7 * DAY)
    assert found is not None
    np.testing.assert_allclose(found.delivered, DAY * np.array([8.0, 24.0]))
    # of 32 processor-days a is due 24, and could have used 16: one job runs, and one waits
    np.testing.assert_allclose(found.entitled, [16 * DAY, 16 * DAY])
    np.testing.assert_allclose(found.ratios, [0.5, 1.5])
    assert found.misdelivered == pytest.approx(8 / 32)
    watched(service, 1.0, since=BEGIN + 8 * DAY)
    assert lift_of(service) == pytest.approx([2 * 0.25, 0.0], abs=0.01)  # a quarter a day
    watched(service, 8.0, since=BEGIN + 9 * DAY)
    assert lift_of(service) == [2.0, 0.0]
    queue = replace(snapshot(BEGIN, [], []), usage=np.array([0.4, 0.6]))
    np.testing.assert_allclose(service.lifts(queue).seen(queue).usage, [0.4 / 4, 0.6])
    assert queue.usage.tolist() == [0.4, 0.6]
    watched(service, 1.0, since=BEGIN + 17 * DAY, waiting=())
    assert lift_of(service) == pytest.approx([2 - 0.25, 0.0], abs=0.01)
    found = watched(service, 7.0, since=BEGIN + 18 * DAY, waiting=())
    assert lift_of(service) == [0.0, 0.0]
    assert found.delivered[0] == pytest.approx(13 * DAY, abs=DAY + 1)  # of a fortnight
    service.keep(0.0)
    assert len(json.loads((tmp_path / "s").read_text())["days"]) == 14


def test_a_restarted_daemon_goes_on_and_gaps_are_not_seen(tmp_path: Path) -> None:
    first = AccountService(path=tmp_path / "s")
    watched(first, 5.0)
    first.keep(0.0)
    second = AccountService(path=tmp_path / "s")
    later = BEGIN + 5 * DAY + 2 * HOUR
    assert watched(second, 1.9, since=later) is None
    found = watched(second, 2.1, since=later + 1.9 * DAY)
    np.testing.assert_allclose(found.delivered, (9 * DAY) * np.array([1.0, 3.0]), rtol=1e-3)
    assert (tmp_path / "s").stat().st_mode & 0o007 == 0
    before = lift_of(second)
    second.look(snapshot(later + 6 * DAY, [0, 1, 1, 1], [0]))
    assert lift_of(second) == before != [0.0, 0.0]
    second.keep(0.0)
    assert lift_of(AccountService(path=tmp_path / "s")) == before
    old = json.loads((tmp_path / "s").read_text())
    del old["lifts"]  # as an earlier release left it
    (tmp_path / "s").write_text(json.dumps(old))
    earlier = AccountService(path=tmp_path / "s")
    assert lift_of(earlier) == [0.0, 0.0]
    assert earlier.served(snapshot(later + 4 * DAY, [0, 1, 1, 1], [0])) is not None


@pytest.mark.parametrize("content", damaged("service"))
def test_a_broken_file_is_no_memory(tmp_path: Path, content: str) -> None:
    path = tmp_path / "s"
    path.write_text(content)
    path.chmod(0o600)
    service = AccountService(path=path, counts_overruns=True)
    assert service.look(snapshot(BEGIN, [0], [])) is None
    assert service.overruns(ended(BEGIN, [])) == {}
    service.keep(0.0)
    assert json.loads(path.read_text())["days"] == {}


def test_a_file_with_impossible_amounts_is_bounded(tmp_path: Path) -> None:
    yesterday = {"seen": 0, "service": {}, "site_seen": 5.0}
    lifts = {"accounts": {"a": 5000.0}, "groups": {"half or more": 1e9}}
    path = tmp_path / "s"
    content = {"version": 1, "days": {str(int(BEGIN // DAY) - 1): yesterday}, "lifts": lifts}
    path.write_text(json.dumps(content))
    path.chmod(0o600)
    service = AccountService(path=path, wait_targets={"half or more": HOUR})
    assert (lift_of(service), groups(service)) == ([2.0, 0.0], {"half or more": 2.0})
    for now in (BEGIN, BEGIN + MINUTE):
        assert service.look(snapshot(now, [0], []), sites_turn=True) is None


def lift_of(service: AccountService, shares: tuple[float, float] = (0.75, 0.25)) -> list[float]:
    """Lifts of a and b."""
    queue = replace(snapshot(BEGIN, [], []), shares=np.array(shares))
    return service.lifts(queue).accounts.tolist()


def test_jobs_that_may_not_start_lift_nobody(tmp_path: Path) -> None:
    service = AccountService(path=tmp_path / "s")
    watched(service, 8.0)
    before = lift_of(service)[0]
    held = snapshot(BEGIN + 8 * DAY + 5 * MINUTE, [0, 1, 1, 1], [0])
    held = replace(held, pending=replace(held.pending, held=np.array([True])))
    service.look(held)
    assert lift_of(service)[0] < before


@pytest.mark.parametrize(
    ("goals", "shares", "lifted"),
    [
        (Goals(), (0.75, 0.25), True),
        (Goals(), (0.5, 0.5), False),
        (Goals(shares=12.0), (0.5, 0.5), True),
        (Goals(shares=0.0), (0.75, 0.25), False),
    ],
)
def test_nobody_is_lifted_where_shares_do_not_count(
    tmp_path: Path, goals: Goals, shares: tuple[float, float], lifted: bool
) -> None:
    service = AccountService(path=tmp_path / "s", goals=goals)
    for step in range(9 * 288):
        queue = snapshot(BEGIN + step * 5 * MINUTE, [0, 1, 1, 1], [0])
        service.look(replace(queue, shares=np.array(shares)))
    assert bool(sum(lift_of(service, shares))) == lifted


@pytest.mark.parametrize(("hours", "lifted"), [(1.0, True), (10.0, False)])
def test_a_small_account_is_lifted_where_more_is_lacking_than_jobs_by_chance(
    tmp_path: Path, hours: float, lifted: bool
) -> None:
    # 1 % of 32 processor-days are 7.7 hours: of jobs of 1 h so much is never lacking by chance
    service = AccountService(path=tmp_path / "s")
    for step in range(9 * 288):
        now = BEGIN + step * 5 * MINUTE
        queue = snapshot(now, [1, 1, 1, 1], [0] * 20)
        queue.pending.jobs.time_limit[:] = hours * HOUR
        found = service.look(replace(queue, shares=np.array([0.01, 0.99])))
    assert math.isnan(found.ratios[0])
    assert (lift_of(service, (0.01, 0.99))[0] > 0.0) == lifted


def started(now: float, waits: list[float], processors: int = 2) -> QueueSnapshot:
    """Jobs that ask for half an hour and have just started, on a machine of four processors."""
    jobs = job_table(
        len(waits),
        eligible=[now - HOUR * each for each in waits],
        processors=[processors] * len(waits),
        time_limit=[HOUR / 2] * len(waits),
    )
    start = np.full(len(waits), now)
    return replace(snapshot(now, [], []), started=StartedJobs(jobs=jobs, start=start))


def waited(service: AccountService, days: float, *, since: float = BEGIN) -> None:
    """Nothing starts."""
    for step in range(1, round(days * DAY / (10 * MINUTE)) + 1):
        service.look(snapshot(since + step * 10 * MINUTE, [], []))


def groups(service: AccountService) -> dict[str, float]:
    return dict(service.lifts(snapshot(BEGIN, [], [])).groups)


def test_the_mean_wait_of_a_group_is_known_from_a_hundred_starts(tmp_path: Path) -> None:
    service = AccountService(path=tmp_path / "s")
    service.look(started(BEGIN, [1.0] * 60 + [math.nan]))
    service.look(started(BEGIN + DAY, [4.0] * 39))
    assert service.lifts(started(BEGIN, [])).group_waits == {}
    service.look(started(BEGIN + DAY, [84.0], processors=1))
    # 60 * 1 h + 39 * 4 h + 84 h by limit; by width one is lacking
    assert service.lifts(started(BEGIN, [])).group_waits == {"up to 1 h": 3 * HOUR}
    service.look(started(BEGIN + DAY, [84.0]))
    assert service.lifts(started(BEGIN, [])).group_waits["half or more"] == 3 * HOUR


def test_starts_before_the_fortnight_do_not_count(tmp_path: Path) -> None:
    service = AccountService(path=tmp_path / "s")
    for day, wait, mean in ((0, 1.0, 1.0), (13, 3.0, 2.0), (14, None, 3.0)):
        service.look(started(BEGIN + day * DAY, [] if wait is None else [wait] * 100))
        assert service.lifts(started(BEGIN, [])).group_waits["up to 1 h"] == mean * HOUR


@pytest.mark.parametrize(("hours", "lift"), [(1.19, 0.0), (1.21, 0.5)])
def test_a_group_is_lifted_above_1_2_targets(tmp_path: Path, hours: float, lift: float) -> None:
    service = AccountService(path=tmp_path / "s", wait_targets={"half or more": HOUR})
    service.look(started(BEGIN, [hours] * 100))
    waited(service, 2.0)
    assert groups(service) == pytest.approx({"half or more": lift})


def test_a_lift_of_a_group_is_bounded_kept_and_ends_with_the_waits(tmp_path: Path) -> None:
    service = AccountService(path=tmp_path / "s", wait_targets={"half or more": HOUR})
    service.look(started(BEGIN, [9.0] * 100))
    waited(service, 10.0)
    assert groups(service) == {"half or more": 2.0}
    service.keep(0.0)
    again = AccountService(path=tmp_path / "s", wait_targets={"half or more": HOUR})
    assert groups(again) == groups(service)
    assert again.lifts(started(BEGIN, [])).group_waits["half or more"] == 9 * HOUR
    assert groups(AccountService(path=tmp_path / "s")) == {}
    waited(service, 5.0, since=BEGIN + 10 * DAY)  # the starts are forgotten after day 14
    assert groups(service) == pytest.approx({"half or more": 2.0 - 0.25}, abs=0.01)


def test_the_wait_of_a_job_counts_by_the_greater_lift_of_its_groups() -> None:
    asks = {"processors": [2, 1, 2], "time_limit": [600.0, 600.0, 7200.0]}
    queue = snapshot_of(pending_jobs([0, 0, 0], accrued=[100.0] * 3, **asks))  # four processors
    lifts = Lifts(groups={"half or more": 1.0, "up to 15 min": 2.0})
    assert lifts.seen(queue).counted_wait.tolist() == [400.0, 400.0, 200.0]
    assert lifts.seen(queue).accrued_wait.tolist() == [100.0, 100.0, 100.0]
    assert Lifts(groups={"half or more": 0.0}).seen(queue) is queue


USERS = ("alice", "bob")


def ended(
    now: float, timed_out: list[bool], user: int = 0, *, by_limit: bool = True
) -> QueueSnapshot:
    """Jobs of one user have ended, interactive by their limits."""
    count = len(timed_out)
    jobs = job_table(
        count,
        user=[user] * count,
        interactive=[True] * count,
        by_limit=np.full(count, by_limit),
    )
    times = np.full(count, now)
    over = EndedJobs(jobs=jobs, start=times, end=times, timed_out=np.array(timed_out, dtype=bool))
    return replace(snapshot_of(pending_jobs([]), now), ended=over, users=USERS)


def lost(overruns: Overruns, now: float) -> dict[int, Overrun]:
    return overruns.of_users(ended(now, []))


TIMED_OUT, DONE = [True], [False]


@pytest.mark.parametrize(
    ("looks", "at", "found"),
    [
        # more than three in a week cost the class for a week
        ([(day, [True, False, False]) for day in range(3)], 2, None),
        ([(day, [True, False, False]) for day in range(4)], 3, (10, 4, 10)),
        ([(day, [True, False, False]) for day in range(4)], 9.99, (10, 4, 10)),
        ([(day, [True, False, False]) for day in range(4)], 10, None),
        # a tenth of the runs may be ended: four of forty are a tenth, four of thirty-nine more
        ([(0, DONE * 36), (0, TIMED_OUT * 4)], 0, None),
        ([(0, DONE * 35), (0, TIMED_OUT * 4)], 0, (7, 4, 39)),
        # what is longer ago than a week does not count
        ([(0, TIMED_OUT * 3), (7, TIMED_OUT)], 7, None),
        ([(0, TIMED_OUT * 3), (6, TIMED_OUT)], 6, (13, 4, 4)),
        # a user who goes on loses it again
        ([(0, TIMED_OUT * 4), (1, TIMED_OUT * 4), (7, DONE)], 7, (14, 4, 5)),
        # jobs of other users, of other classes and of no user do not count
        ([(0, TIMED_OUT * 3), (0, TIMED_OUT * 3, 1), (0, TIMED_OUT * 9, -1)], 0, None),
        ([(0, TIMED_OUT * 9, 0, False)], 0, None),
        # a clock that was ahead takes no class
        ([(90, TIMED_OUT * 4), (0, DONE)], 0, None),
    ],
)
def test_who_loses_the_class_by_limits_that_end_jobs(
    looks: list[tuple[Any, ...]], at: float, found: tuple[float, int, int] | None
) -> None:
    """Day of a look, which jobs their limits ended, user, and whether the limit made the class."""
    overruns = Overruns()
    for look in looks:
        day, timed_out, user, by_limit = (*look, *(0, 0, 0, True)[len(look) :])
        overruns.count(ended(BEGIN + day * DAY, timed_out, user, by_limit=by_limit))
    if found is not None:
        day, timed_out, runs = found
        expected = {0: Overrun(until=BEGIN + day * DAY, timed_out=timed_out, runs=runs)}
    assert lost(overruns, BEGIN + at * DAY) == ({} if found is None else expected)
    assert len(overruns) == (found is not None or at == 10)


def test_where_nobody_tells_of_limits_nobody_loses_it() -> None:
    look, overruns = ended(BEGIN, [True] * 9), Overruns()
    jobs = replace(look.ended.jobs, by_limit=None)
    for over in (replace(look.ended, timed_out=None), replace(look.ended, jobs=jobs)):
        overruns.count(replace(look, ended=over))
    assert len(overruns) == 0


class TestTheFile:
    def service(self, folder: Path, *, counts: bool = True) -> AccountService:
        return AccountService(path=folder / "state.json.service", counts_overruns=counts)

    def test_a_restart_goes_on_and_names_stand_as_hashes(self, tmp_path: Path) -> None:
        before = self.service(tmp_path)
        before.look(ended(BEGIN, [True] * 3))
        before.keep(BEGIN)
        after = self.service(tmp_path)
        after.look(ended(BEGIN + HOUR, [True]))
        after.keep(BEGIN + HOUR)
        assert "alice" not in (tmp_path / "state.json.service").read_text()
        last = self.service(tmp_path)
        found = last.overruns(ended(BEGIN + 2 * HOUR, []))
        assert found == {0: Overrun(until=BEGIN + HOUR + 7 * DAY, timed_out=4, runs=4)}
        assert last.overrunners == 1

    def test_without_a_reserve_or_once_it_is_off_nobody_is_counted(self, tmp_path: Path) -> None:
        service = self.service(tmp_path, counts=False)
        service.look(ended(BEGIN, [True] * 9))
        assert (service.overruns(ended(BEGIN, [])), service.overrunners) == ({}, 0)
        self.service(tmp_path).look(ended(BEGIN, [True] * 4))
        service = self.service(tmp_path, counts=False)
        service.look(ended(BEGIN + HOUR, []))
        assert service.overrunners == 0

    def test_who_loses_the_class_is_kept_at_once(self, tmp_path: Path) -> None:
        """`explain` reads the file: within the hour it would show another class."""
        service = self.service(tmp_path)
        service.look(ended(BEGIN, []))
        service.look(ended(BEGIN + 30.0, [True] * 4))
        assert self.service(tmp_path).overruns(ended(BEGIN + 31.0, [])).keys() == {0}
