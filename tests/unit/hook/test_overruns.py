"""Who loses a class that his time limits give, and for how long."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.domain import EndedJobs, QueueSnapshot
from slurm_rl_plugin.hook.memory.account_service import AccountService, Overrun, Overruns
from slurm_rl_plugin.units import DAY, HOUR
from tests.unit.hook.queues import job_table, pending_jobs, snapshot_of

BEGIN = 20_000 * DAY
USERS = ("alice", "bob")


def ended(
    now: float, timed_out: list[bool], user: int = 0, *, by_limit: bool = True
) -> QueueSnapshot:
    """Jobs of one user have ended, interactive by their limits."""
    count = len(timed_out)
    jobs = replace(
        job_table(count),
        user=np.full(count, user),
        interactive=np.ones(count, dtype=np.bool_),
        by_limit=np.full(count, by_limit),
    )
    times = np.full(count, now)
    over = EndedJobs(jobs=jobs, start=times, end=times, timed_out=np.array(timed_out, dtype=bool))
    return replace(snapshot_of(pending_jobs([]), now), ended=over, users=USERS)


def lost(overruns: Overruns, now: float) -> dict[int, Overrun]:
    return overruns.of_users(ended(now, []))


def counted(*looks: QueueSnapshot) -> Overruns:
    overruns = Overruns()
    for look in looks:
        overruns.count(look)
    return overruns


def test_more_than_three_in_a_week_cost_the_class_for_a_week() -> None:
    looks = [ended(BEGIN + day * DAY, [True, False, False]) for day in range(4)]
    assert lost(counted(*looks[:3]), BEGIN + 2 * DAY) == {}
    overruns = counted(*looks)
    now = BEGIN + 3 * DAY
    assert lost(overruns, now) == {0: Overrun(until=now + 7 * DAY, timed_out=4, runs=10)}
    assert len(overruns) == 1
    assert lost(overruns, now + 7 * DAY - 1.0).keys() == {0}
    assert lost(overruns, now + 7 * DAY) == {}


def test_a_tenth_of_the_runs_may_be_ended() -> None:
    """Four of forty are a tenth; four of thirty-nine are more."""
    assert lost(counted(ended(BEGIN, [False] * 36), ended(BEGIN, [True] * 4)), BEGIN) == {}
    assert lost(counted(ended(BEGIN, [False] * 35), ended(BEGIN, [True] * 4)), BEGIN).keys() == {0}


def test_what_is_longer_ago_than_a_week_does_not_count() -> None:
    assert lost(counted(ended(BEGIN, [True] * 3), ended(BEGIN + 7 * DAY, [True])), BEGIN) == {}
    late = BEGIN + 6 * DAY
    assert lost(counted(ended(BEGIN, [True] * 3), ended(late, [True])), late).keys() == {0}


def test_who_goes_on_loses_it_again() -> None:
    overruns = counted(ended(BEGIN, [True] * 4), ended(BEGIN + DAY, [True] * 4))
    over = BEGIN + 7 * DAY
    overruns.count(ended(over, [False]))
    assert lost(overruns, over) == {0: Overrun(until=over + 7 * DAY, timed_out=4, runs=5)}


def test_others_and_other_classes_do_not_count() -> None:
    looks = [ended(BEGIN, [True] * 3), ended(BEGIN, [True] * 3, user=1)]
    sessions = ended(BEGIN, [True] * 9, by_limit=False)
    nobody = ended(BEGIN, [True] * 9, user=-1)
    assert lost(counted(*looks, sessions, nobody), BEGIN) == {}


def test_where_nobody_tells_of_limits_nobody_loses_it() -> None:
    look = ended(BEGIN, [True] * 9)
    assert len(counted(replace(look, ended=replace(look.ended, timed_out=None)))) == 0
    jobs = replace(look.ended.jobs, by_limit=None)
    assert len(counted(replace(look, ended=replace(look.ended, jobs=jobs)))) == 0


def test_a_clock_that_was_ahead_takes_the_class_from_nobody() -> None:
    overruns = counted(ended(BEGIN + 90 * DAY, [True] * 4), ended(BEGIN, [False]))
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

    def test_without_a_reserve_nothing_is_counted(self, tmp_path: Path) -> None:
        service = self.service(tmp_path, counts=False)
        service.look(ended(BEGIN, [True] * 9))
        assert service.overruns(ended(BEGIN, [])) == {}
        assert service.overrunners == 0

    def test_a_reserve_that_was_turned_off_counts_no_users(self, tmp_path: Path) -> None:
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

    def test_a_file_of_an_earlier_release_is_read(self, tmp_path: Path) -> None:
        self.service(tmp_path).path.write_text('{"version": 1, "days": {}}')
        assert self.service(tmp_path).overruns(ended(BEGIN, [])) == {}

    @pytest.mark.parametrize(
        "overruns",
        [
            3,
            {"days": 3},
            {"days": {"1": {"7": [1]}}},
            {"days": {"1": {"7": [math.inf, 1]}}},
            {"lost": {"7": [1]}},
            {"lost": {"7": {"until": 1, "timed_out": 4, "runs": 4}}},
            {"lost": {"7": [10**400, math.inf, 1]}},
        ],
    )
    def test_a_damaged_one_is_none(self, tmp_path: Path, overruns: object) -> None:
        content = {"version": 1, "days": {}, "overruns": overruns}
        self.service(tmp_path).path.write_text(json.dumps(content))
        assert self.service(tmp_path).overruns(ended(BEGIN, [])) == {}
