"""The reserve and the limit made of it: bounds that hold for every queue and every wish."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.domain import Decision, JobTable, QueueSnapshot, RunningJobs
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, ResourceRequests, ResourcesNow
from slurm_rl_plugin.hook.rails.guard_rails import StarvationBound, default_guard_rails
from slurm_rl_plugin.hook.rails.reserve import (
    KEPT,
    NOBODY,
    STARVING,
    UNWANTED,
    BatchLimit,
    ReserveRail,
    ReserveSettings,
    batch_limit,
    starving_jobs,
)
from tests.unit.hook.queues import job_table, pending_jobs, snapshot_of

NOW = 100_000.0
HOUR = 3600.0
SETTINGS = ReserveSettings(
    most=6, widest_batch_job=3, change_interval=60.0, lift_after=2 * HOUR, idle_after=HOUR
)


def jobs_of(rows: list[tuple[int, bool, float]]) -> JobTable:
    """Jobs of (processors, interactive, seconds since they came)."""
    table = job_table(len(rows))
    came = np.array([NOW - ago for _, _, ago in rows])
    return replace(
        table,
        processors=np.array([each[0] for each in rows], dtype=np.int64),
        interactive=np.array([each[1] for each in rows], dtype=np.bool_),
        submit=came,
        eligible=came,
    )


def queue_of(
    waiting: list[tuple[int, bool, float]],
    running: list[tuple[int, bool, float]] = [],  # noqa: B006 - never changed
    capacity: int = 16,
    now: float = NOW,
) -> QueueSnapshot:
    pending = replace(pending_jobs([0] * len(waiting)), jobs=jobs_of(waiting))
    busy = jobs_of(running)
    return replace(
        snapshot_of(pending, now),
        running=RunningJobs(jobs=busy, start=busy.submit),
        capacity=capacity,
    )


def wish(snapshot: QueueSnapshot, reserve: int = 4) -> Decision:
    """The first submitted job first."""
    return Decision(scores=-np.arange(len(snapshot.pending), dtype=np.float64), reserve=reserve)


#: Seconds to the millisecond: a time of submission holds no more digits.
AGO = st.floats(0.0, 4 * HOUR).map(lambda seconds: round(seconds, 3))
ROW = st.tuples(st.integers(1, 12), st.booleans(), AGO)
ROWS = st.lists(ROW, max_size=8)
RESERVES = st.integers(-5, 40)
CAPACITIES = st.integers(1, 24)


class TestTheLimit:
    @given(ROWS, ROWS, RESERVES, CAPACITIES)
    def test_never_stops_the_widest_protected_job_nor_hits_running_interactive_ones(
        self,
        waiting: list[tuple[int, bool, float]],
        running: list[tuple[int, bool, float]],
        reserve: int,
        capacity: int,
    ) -> None:
        snapshot = queue_of(waiting, running, capacity)
        decision = ReserveRail(SETTINGS).check(wish(snapshot, reserve), snapshot)
        assert 0 <= decision.reserve <= min(SETTINGS.most, capacity)
        limits = batch_limit(snapshot, decision.reserve, SETTINGS)
        if limits is None:
            return
        limit = limits["cpus"]
        assert SETTINGS.widest_batch_job <= limit < capacity
        in_use = sum(each[0] for each in running if each[1])
        assert limit >= capacity - in_use - decision.reserve
        if limit > SETTINGS.widest_batch_job:  # what is kept free is free beside interactive jobs
            assert capacity - limit - in_use == decision.reserve

    def test_the_reserve_is_free_beside_what_runs(self) -> None:
        snapshot = queue_of([(1, True, 5.0)], [(3, True, 9.0), (2, False, 9.0)])
        settings = ReserveSettings(most=6)
        assert batch_limit(snapshot, 4, settings) == {"cpus": 16 - 3 - 4}
        assert batch_limit(snapshot, 0, settings) is None
        assert batch_limit(snapshot, 4, replace(settings, widest_batch_job=16)) is None

    def test_of_other_resources_the_same_part_is_kept(self) -> None:
        snapshot = with_gpus(queue_of([(1, True, 5.0)], [(3, True, 9.0), (2, False, 9.0)]))
        settings = ReserveSettings(most=6, most_resources={"gpus": 3, "memory": 1000})
        whole = {"cpus": 16 - 3 - 6, "gpus": 8 - 2 - 3, "memory": 4000 - 50 - 1000}
        assert batch_limit(snapshot, 6, settings) == whole
        # a third: one GPU of three, and of the memory 333.3 rounded up
        third = {"cpus": 16 - 3 - 2, "gpus": 8 - 2 - 1, "memory": 4000 - 50 - 334}
        assert batch_limit(snapshot, 2, settings) == third
        wide = replace(settings, widest_batch_resources={"gpus": 7, "memory": 4000})
        assert batch_limit(snapshot, 6, wide) == {"cpus": 7, "gpus": 7}
        only = replace(wide, widest_batch_job=16)
        assert batch_limit(snapshot, 6, only) == {"gpus": 7}

    def test_a_machine_on_which_nothing_but_processors_is_in_use_is_limited_too(self) -> None:
        snapshot = with_gpus(queue_of([(1, True, 5.0)]))
        nobody = RunningJobs(jobs=replace(snapshot.running.jobs, requests=None), start=np.empty(0))
        settings = ReserveSettings(most=6, most_resources={"gpus": 3})
        limit = batch_limit(replace(snapshot, running=nobody), 6, settings)
        assert limit == {"cpus": 16 - 6, "gpus": 8 - 3}

    def test_what_the_system_does_not_tell_of_is_not_limited(self) -> None:
        snapshot = queue_of([(1, True, 5.0)], [(3, True, 9.0)])
        settings = ReserveSettings(most=6, most_resources={"gpus": 3})
        assert batch_limit(snapshot, 6, settings) == {"cpus": 16 - 3 - 6}
        none = with_gpus(snapshot, gpus=0)
        assert batch_limit(none, 6, settings) == {"cpus": 16 - 3 - 6}

    def test_a_job_of_several_gpus_starves_below_a_limit_of_them(self) -> None:
        snapshot = with_gpus(queue_of([(1, False, 3 * HOUR), (1, False, 3 * HOUR)]), asks=[1, 2])
        of_gpus = replace(SETTINGS, most_resources={"gpus": 3})
        assert starving_jobs(snapshot, of_gpus).tolist() == [1]
        assert starving_jobs(snapshot, SETTINGS).tolist() == []
        of_memory = replace(SETTINGS, most_resources={"memory": 3})
        assert starving_jobs(snapshot, of_memory).tolist() == []
        fits = replace(of_memory, widest_batch_resources={"memory": 40})
        assert starving_jobs(snapshot, fits).tolist() == [0, 1]


def with_gpus(
    snapshot: QueueSnapshot, gpus: int = 8, asks: Sequence[int] | None = None
) -> QueueSnapshot:
    """A machine with GPUs and 4,000 MiB; each job uses 50 MiB and two GPUs, or as many as told."""

    def with_requests(jobs: JobTable, gpus: Sequence[int]) -> JobTable:
        total = np.array([(jobs.processors[at], 50, count) for at, count in enumerate(gpus)])
        nodes = np.ones(len(jobs), dtype=np.int64)
        total = total.astype(np.float64).reshape(-1, 3)
        return replace(jobs, requests=ResourceRequests.of_totals(total, nodes=nodes))

    pending, running = snapshot.pending, snapshot.running
    waiting = with_requests(pending.jobs, asks or [2] * len(pending))
    busy = with_requests(running.jobs, [2] * len(running))
    capacity = np.array([16.0, 4000.0, gpus])
    return replace(
        snapshot,
        pending=replace(pending, jobs=waiting),
        running=replace(running, jobs=busy),
        resources=ResourcesNow(names=BASIC_RESOURCES, capacity=capacity, free=capacity),
    )


class TestTheRail:
    def test_nothing_wanted_nothing_kept(self) -> None:
        snapshot, rail = queue_of([(1, True, 5.0)]), ReserveRail(SETTINGS)
        decision = wish(snapshot, 0)
        assert rail.check(decision, snapshot) is decision
        assert rail.reason == UNWANTED

    @pytest.mark.parametrize(
        ("wanted", "kept"), [(None, SETTINGS.most), (99, SETTINGS.most), (1, 1)]
    )
    def test_as_many_as_the_site_allows_for_a_policy_that_asks_for_no_number(
        self, wanted: int | None, kept: int
    ) -> None:
        snapshot = queue_of([(1, True, 5.0)])
        decision = replace(wish(snapshot, 0), reserve=wanted)
        assert ReserveRail(SETTINGS).check(decision, snapshot).reserve == kept

    @given(ROWS, ROWS, st.integers(1, 40))
    def test_a_starving_wide_job_lifts_it_and_goes_first(
        self,
        waiting: list[tuple[int, bool, float]],
        running: list[tuple[int, bool, float]],
        reserve: int,
    ) -> None:
        waiting = [*waiting, (5, False, 3 * HOUR), (1, True, 1.0)]
        snapshot, rail = queue_of(waiting, running), ReserveRail(SETTINGS)
        decision = rail.check(wish(snapshot, reserve), snapshot)
        assert rail.reason == STARVING
        assert decision.reserve == 0
        overdue = [
            (-ago, place)
            for place, (width, quick, ago) in enumerate(waiting)
            if width > 1 and not quick and ago > SETTINGS.lift_after
        ]
        order = np.argsort(-decision.scores, kind="stable").tolist()
        assert order[: len(overdue)] == [place for _, place in sorted(overdue)]
        assert decision.steps is not None
        assert np.flatnonzero(decision.steps).tolist() == sorted(place for _, place in overdue)

    def test_jobs_that_cannot_start_lift_nothing(self) -> None:
        held = queue_of([(5, False, 3 * HOUR), (1, True, 1.0)])
        held.pending.held[0] = True
        assert len(starving_jobs(held, SETTINGS)) == 0
        too_wide = queue_of([(17, False, 3 * HOUR), (1, True, 1.0)])
        assert len(starving_jobs(too_wide, SETTINGS)) == 0
        dependent = queue_of([(5, False, 3 * HOUR)])
        dependent.pending.jobs.eligible[0] = math.inf
        assert len(starving_jobs(dependent, SETTINGS)) == 0
        narrow = queue_of([(1, False, 3 * HOUR)])  # takes any processor that becomes free
        assert len(starving_jobs(narrow, SETTINGS)) == 0

    def test_nothing_is_kept_once_nobody_has_come_for_long(self) -> None:
        rail = ReserveRail(SETTINGS)
        nobody = queue_of([(1, False, 9.0)])
        assert rail.check(wish(nobody), nobody).reserve == 0
        assert rail.reason == NOBODY
        came = queue_of([(1, True, 9.0)])
        assert rail.check(wish(came), came).reserve == 4
        assert rail.reason == KEPT
        later = replace(nobody, now=NOW + HOUR - 10.0)  # it has come and gone
        assert rail.check(wish(later), later).reserve == 4
        much_later = replace(nobody, now=NOW + HOUR)
        assert rail.check(wish(much_later), much_later).reserve == 0
        fresh = ReserveRail(SETTINGS)
        fresh.go_on_from(rail)  # a reload forgets nobody
        assert fresh.check(wish(later), later).reserve == 4

    @given(ROWS, st.integers(1, 9))
    def test_interactive_jobs_go_first_and_nothing_else_changes(
        self, waiting: list[tuple[int, bool, float]], reserve: int
    ) -> None:
        waiting = [(width, quick, min(ago, HOUR / 2)) for width, quick, ago in waiting]
        waiting.append((1, True, 1.0))
        snapshot, rail = queue_of(waiting), ReserveRail(SETTINGS)
        decision = rail.check(wish(snapshot, reserve), snapshot)
        assert rail.reason == KEPT
        order = np.argsort(-decision.scores, kind="stable").tolist()
        quick = [place for place, each in enumerate(waiting) if each[1]]
        slow = [place for place, each in enumerate(waiting) if not each[1]]
        assert order == [*quick, *slow]
        assert decision.steps is not None
        assert (decision.steps[quick].min() > decision.steps[slow]).all()

    @given(ROWS, st.integers(1, 9))
    def test_wide_batch_jobs_go_last_where_the_site_says_so(
        self, waiting: list[tuple[int, bool, float]], reserve: int
    ) -> None:
        waiting = [(width, quick, min(ago, HOUR / 2)) for width, quick, ago in waiting]
        waiting.append((9, True, 1.0))
        snapshot = queue_of(waiting)
        rail = ReserveRail(replace(SETTINGS, narrow_first=True))
        decision = rail.check(wish(snapshot, reserve), snapshot)
        steps = [0 if quick else 1 + (width > 3) for width, quick, _ in waiting]
        expected = sorted(range(len(waiting)), key=lambda place: (steps[place], place))
        assert np.argsort(-decision.scores, kind="stable").tolist() == expected
        assert decision.steps is not None
        assert decision.steps.tolist() == [2 - step for step in steps]
        unkept = rail.check(wish(snapshot, 0), snapshot)
        assert np.argsort(-unkept.scores, kind="stable").tolist() == list(range(len(waiting)))

    def test_a_job_past_the_bound_of_all_jobs_still_goes_before_them(self) -> None:
        snapshot = queue_of([(1, False, 90 * HOUR), (1, True, 1.0)])
        rails = default_guard_rails(72 * HOUR, ReserveRail(SETTINGS))
        assert isinstance(rails[-1], StarvationBound)
        decision = wish(snapshot)
        for rail in rails:
            decision = rail.check(decision, snapshot)
        assert np.argsort(-decision.scores).tolist() == [0, 1]


STEP = st.tuples(
    st.floats(0.0, 90.0),  # seconds since the cycle before
    st.integers(0, 8),  # wanted
    st.integers(0, 6),  # processors of interactive jobs that run
    st.booleans(),  # a wide job starves
    st.booleans(),  # fallback
)


class TestFromCycleToCycle:
    @given(st.lists(STEP, min_size=1, max_size=25))
    def test_changes_keep_their_distance_and_lifts_come_at_once(
        self, steps: list[tuple[float, int, int, bool, bool]]
    ) -> None:
        clock = [0.0]
        rail = ReserveRail(SETTINGS)
        limit = BatchLimit(rail=rail, monotonic=lambda: clock[0])
        changes: list[tuple[float, bool]] = []
        for waited, wanted, in_use, starves, fallback in steps:
            clock[0] += waited
            wide = [(4, False, 3 * HOUR)] if starves else []
            snapshot = queue_of([*wide, (1, True, 1.0)], [(1, True, 1.0)] * in_use)
            reserve = rail.check(wish(snapshot, wanted), snapshot).reserve
            planned = limit.planned(snapshot, reserve, fallback=fallback)
            done = limit._remembered(planned)  # as if it were written
            assert (planned.change is None) == (planned.amounts == planned.before)
            at_once = fallback or (starves and wanted > 0)
            assert not at_once or done.processors is None
            if done.change is not None:
                changes.append((clock[0], at_once))
        for (before, _), (at, at_once) in pairwise(changes):
            assert at_once or at - before >= SETTINGS.change_interval
