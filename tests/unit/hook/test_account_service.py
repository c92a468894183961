"""Who got what on the cluster: counted from cycle to cycle, kept across restarts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.domain import PendingJobs, QueueSnapshot, RunningJobs
from slurm_rl_plugin.domain.goals import Goals
from slurm_rl_plugin.hook.memory.account_service import AccountService, ServiceSeen
from slurm_rl_plugin.units import DAY, HOUR, MINUTE
from tests.unit.hook.queues import job_table, pending_jobs, snapshot_of

BEGIN = 20_000 * DAY


def snapshot(now: float, running: list[int], waiting: list[int]) -> QueueSnapshot:
    """One processor a job: accounts of those that run, and of those that wait, with long limits."""
    jobs = replace(
        job_table(len(running)),
        account=np.array(running, dtype=np.int64),
        submit=np.full(len(running), BEGIN),
        eligible=np.full(len(running), BEGIN),
        time_limit=np.full(len(running), 90 * DAY),
    )
    queue = pending_jobs([0] * len(waiting))
    wants = replace(
        queue.jobs,
        account=np.array(waiting, dtype=np.int64),
        submit=np.full(len(waiting), BEGIN),
        eligible=np.full(len(waiting), BEGIN),
        time_limit=np.full(len(waiting), 90 * DAY),
    )
    pending: PendingJobs = replace(queue, jobs=wants)
    return replace(
        snapshot_of(pending, now),
        running=RunningJobs(jobs=jobs, start=np.full(len(running), BEGIN)),
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


def test_nothing_is_said_before_a_week_was_seen(tmp_path: Path) -> None:
    service = AccountService(path=tmp_path / "s")
    assert watched(service, 6.9) is None
    assert watched(service, 0.2, since=BEGIN + 6.9 * DAY) is not None


def test_service_of_a_fortnight_over_the_entitlement(tmp_path: Path) -> None:
    found = watched(AccountService(path=tmp_path / "s"), 8.0)
    assert found is not None
    day = DAY * np.array([8.0, 24.0])
    np.testing.assert_allclose(found.delivered, day)
    # of 32 processor-days a is due 24, and could have used 16: one job runs, and one waits
    np.testing.assert_allclose(found.entitled, [16 * DAY, 16 * DAY])
    np.testing.assert_allclose(found.ratios, [0.5, 1.5])
    assert found.misdelivered == pytest.approx(8 / 32)


def test_who_wants_no_more_is_short_of_nothing(tmp_path: Path) -> None:
    found = watched(AccountService(path=tmp_path / "s"), 8.0, waiting=())
    assert found is not None
    np.testing.assert_allclose(found.ratios[0], 1.0)
    assert found.misdelivered == pytest.approx(0.0)


def test_a_restarted_daemon_goes_on_and_gaps_are_not_seen(tmp_path: Path) -> None:
    first = AccountService(path=tmp_path / "s")
    watched(first, 5.0)
    first.keep(0.0)
    second = AccountService(path=tmp_path / "s")
    later = BEGIN + 5 * DAY + 2 * HOUR
    assert watched(second, 1.9, since=later) is None
    found = watched(second, 0.2, since=later + 1.9 * DAY)
    assert found is not None
    np.testing.assert_allclose(found.delivered, (7.1 * DAY) * np.array([1.0, 3.0]), rtol=1e-3)
    assert (tmp_path / "s").stat().st_mode & 0o007 == 0


def test_a_fortnight_is_remembered_and_no_more(tmp_path: Path) -> None:
    service = AccountService(path=tmp_path / "s")
    found = watched(service, 20.0)
    assert found is not None
    assert found.delivered[0] == pytest.approx(13 * DAY, abs=DAY + 1)
    service.keep(0.0)
    assert len(json.loads((tmp_path / "s").read_text())["days"]) == 14


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"version": 2, "days": {}}',
        '{"version": 1, "days": {"x": {}}}',
        '{"version": 1, "days": {"20000": {"seen": 1e9, "service": {"a": -1}}}}',
        '{"version": 1, "days": {"20000": {"seen": NaN, "service": {}}}}',
        '{"version": 1, "days": {}, "lifts": {"accounts": {"a": -1}}}',
        '{"version": 1, "days": {}, "lifts": []}',
    ],
)
def test_a_broken_file_is_no_memory(tmp_path: Path, content: str) -> None:
    path = tmp_path / "s"
    path.write_text(content)
    path.chmod(0o600)
    service = AccountService(path=path)
    assert service.look(snapshot(BEGIN, [0], [])) is None
    service.keep(0.0)
    assert json.loads(path.read_text())["days"] == {}


def test_a_cycle_goes_on_where_nothing_can_be_written(tmp_path: Path) -> None:
    service = AccountService(path=tmp_path / "no" / "s")
    assert service.look(snapshot(BEGIN, [0], [])) is None


def lift_of(service: AccountService, shares: tuple[float, float] = (0.75, 0.25)) -> list[float]:
    """Lifts of a and b."""
    queue = replace(snapshot(BEGIN, [], []), shares=np.array(shares))
    return service.lifts(queue).accounts.tolist()


def test_an_account_short_of_its_share_is_lifted_by_a_quarter_a_day(tmp_path: Path) -> None:
    service = AccountService(path=tmp_path / "s")
    watched(service, 7.0)
    assert lift_of(service) == pytest.approx([0.0, 0.0], abs=0.01)
    watched(service, 2.0, since=BEGIN + 7 * DAY)
    assert lift_of(service) == pytest.approx([2 * 0.25, 0.0], abs=0.01)
    watched(service, 8.0, since=BEGIN + 9 * DAY)
    assert lift_of(service) == [2.0, 0.0]


def test_a_lift_falls_as_fast_once_nobody_waits(tmp_path: Path) -> None:
    service = AccountService(path=tmp_path / "s")
    watched(service, 9.0)
    watched(service, 1.0, since=BEGIN + 9 * DAY, waiting=())
    assert lift_of(service) == pytest.approx([(2 - 1) * 0.25, 0.0], abs=0.01)
    watched(service, 1.5, since=BEGIN + 10 * DAY, waiting=())
    assert lift_of(service) == [0.0, 0.0]


def test_a_gap_moves_no_lift(tmp_path: Path) -> None:
    service = AccountService(path=tmp_path / "s")
    watched(service, 9.0)
    before = lift_of(service)
    service.look(snapshot(BEGIN + 11 * DAY, [0, 1, 1, 1], [0]))
    assert lift_of(service) == before != [0.0, 0.0]


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


def test_the_policy_sees_less_usage_of_a_lifted_account(tmp_path: Path) -> None:
    service = AccountService(path=tmp_path / "s")
    watched(service, 17.0)
    queue = replace(snapshot(BEGIN, [], []), usage=np.array([0.4, 0.6]))
    np.testing.assert_allclose(service.lifts(queue).seen(queue).usage, [0.4 / 4, 0.6])
    assert queue.usage.tolist() == [0.4, 0.6]


def test_lifts_are_kept_with_the_service(tmp_path: Path) -> None:
    service = AccountService(path=tmp_path / "s")
    watched(service, 9.0)
    service.keep(0.0)
    again = AccountService(path=tmp_path / "s")
    assert lift_of(again) == lift_of(service) != [0.0, 0.0]
    old = json.loads((tmp_path / "s").read_text())
    del old["lifts"]
    (tmp_path / "s").write_text(json.dumps(old))
    earlier = AccountService(path=tmp_path / "s")
    assert lift_of(earlier) == [0.0, 0.0]
    assert earlier.served(snapshot(BEGIN + 9 * DAY, [0, 1, 1, 1], [0])) is not None
