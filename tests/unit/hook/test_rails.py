"""Guard rails: finite scores, the starvation bound, the reserve and who may use it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.domain import (
    Decision,
    JobTable,
    PendingJobs,
    QueueSnapshot,
    RunningJobs,
    StartedJobs,
)
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, ResourceRequests, ResourcesNow
from slurm_rl_plugin.features.columns import site_job_features
from slurm_rl_plugin.features.site import SITE
from slurm_rl_plugin.hook.rails.guard_rails import (
    StarvationBound,
    UntouchedJobs,
)
from slurm_rl_plugin.hook.rails.reserve import (
    ACCOUNT,
    AS_BATCH,
    KEPT,
    NO_RESERVE,
    NOBODY,
    OVERRUN,
    STARVING,
    UNWANTED,
    USER,
    BatchLimit,
    ReserveRail,
    ReserveSettings,
    batch_limit,
    counted_classes,
    newest_interactive,
    starving_jobs,
)
from slurm_rl_plugin.policies.registry import rule_policy
from tests.unit.hook.queues import (
    NOW,
    job_table,
    pending_jobs,
    snapshot_of,
)


def with_array(tasks: int, last_start: float) -> PendingJobs:
    """Two jobs of one processor and ten minutes, eligible at 10 and 20; the first is an array."""
    return replace(
        pending_jobs([1, 1]),
        tasks=np.array([tasks, 1]),
        last_start=np.array([last_start, np.nan]),
    )


def test_an_array_has_waited_since_a_task_last_started_if_one_has() -> None:
    snapshot = snapshot_of(with_array(5, NOW - 30.0))
    assert snapshot.accrued_wait.tolist() == [NOW - 10.0, NOW - 20.0]
    assert snapshot.unserved_wait.tolist() == [30.0, NOW - 20.0]
    assert snapshot.counted_wait.tolist() == [30.0, NOW - 20.0]
    assert snapshot_of(with_array(5, np.nan)).unserved_wait.tolist() == [NOW - 10.0, NOW - 20.0]


@pytest.mark.parametrize(("tasks", "runs"), [(3, 1.0), (4, 1.0), (5, 1.25), (400, 100.0)])
def test_tasks_that_fill_the_machine_several_times_make_a_long_job(tasks: int, runs: float) -> None:
    snapshot = replace(snapshot_of(with_array(tasks, np.nan)), capacity=4)
    assert snapshot.each_runs.tolist() == [runs, 1.0]
    row = SITE.jobs.index("log_run_time")
    estimate = np.full(2, 600.0)
    long, short = site_job_features(snapshot, estimate)[:, row]
    assert long - short == pytest.approx(np.log(runs), abs=1e-5)
    scores = rule_policy("sjf").decide(snapshot).scores
    assert scores[0] / scores[1] == pytest.approx(runs)


def test_the_starvation_bound_passes_an_array_that_is_being_served() -> None:
    rail = StarvationBound(bound=500.0)
    decision = Decision(scores=np.array([1.0, 2.0]), reserve=0)
    served = rail.check(decision, snapshot_of(with_array(5, NOW - 30.0)))
    assert served.scores.tolist() == [1.0, 2.0]
    not_served = rail.check(decision, snapshot_of(with_array(5, np.nan)))
    assert not_served.scores.tolist() == [2.0, 1.0]


def test_each_untouched_job_has_exactly_one_reason() -> None:
    pending = pending_jobs(
        [1] * 8,
        held=[True, True, *[False] * 6],
        admin_set=[False, True, True, *[False] * 5],
        eligible=[*[0] * 3, NOW + 1, *[0] * 4],
        account=[*[0] * 4, 1, 0, 0, 0],
        partition=[*[0] * 5, 1, 0, 0],
        qos=[*[0] * 6, 1, 0],
    )
    names = dict.fromkeys(("accounts", "partitions", "qos"), ("normal", "urgent"))
    snapshot = replace(snapshot_of(pending), **names)
    untouched = UntouchedJobs(**{each: ["urgent", "other"] for each in names})
    reasons = untouched.reasons(snapshot)
    assert {reason: int(each.sum()) for reason, each in reasons.items()} == {
        "held": 2,
        "admin_set": 1,
        "not_eligible": 1,
        "shared": 0,
        "exempt_account": 1,
        "exempt_partition": 1,
        "exempt_qos": 1,
    }
    assert untouched.orderable(snapshot).tolist() == [False] * 7 + [True]
    assert untouched.exempt(snapshot).tolist() == [*[False] * 4, *[True] * 3, False]


#: Of 12 processors an account may hold 6, a user 4.
SETTINGS = ReserveSettings(most=12, account_share=0.5, user_share=0.33)
INTERACTIVE, BATCH = True, False
#: (account, user, processors, class)
Row = tuple[int, int, int, bool]


def jobs_of(rows: list[Row]) -> JobTable:
    names = ("account", "user", "processors", "interactive")
    return job_table(len(rows), **dict(zip(names, zip(*rows, strict=True), strict=True)))


def queue_of(
    waiting: list[Row], running: list[Row] | None = None, **columns: list[object]
) -> QueueSnapshot:
    """All of the same priority, so that the first submitted is the first."""
    pending = replace(pending_jobs([0] * len(waiting), **columns), jobs=jobs_of(waiting))
    snapshot = replace(snapshot_of(pending), capacity=40, accounts=("a", "b"), shares=np.ones(2))
    jobs = jobs_of(running) if running else snapshot.running.jobs
    return replace(snapshot, running=RunningJobs(jobs=jobs, start=jobs.submit))


def with_column(snapshot: QueueSnapshot, **column: np.ndarray) -> QueueSnapshot:
    """The same column for the jobs that wait and those that run."""
    pending, running = snapshot.pending, snapshot.running
    pending = replace(pending, jobs=replace(pending.jobs, **column))
    running = replace(running, jobs=replace(running.jobs, **column))
    return replace(snapshot, pending=pending, running=running)


def reasons(snapshot: QueueSnapshot, settings: ReserveSettings = SETTINGS) -> list[str]:
    """Of each pending job why it counts as batch; "" where it counts as classed."""
    as_batch = counted_classes(snapshot, settings).pending.as_batch
    assert as_batch is not None
    return ["" if place < 0 else AS_BATCH[place] for place in as_batch.tolist()]


def quick(*jobs: tuple[int, int, int]) -> list[Row]:
    """Interactive jobs of (account, user, processors)."""
    return [(*job, INTERACTIVE) for job in jobs]


RUNNING = [*quick((0, 0, 3)), (0, 0, 9, BATCH)]


@pytest.mark.parametrize(
    ("snapshot", "found"),
    [
        (
            queue_of(quick((0, 0, 3), (0, 0, 2), (0, 0, 1), (0, 1, 2), (0, 1, 1), (1, 2, 4))),
            ["", USER, "", "", ACCOUNT, ""],
        ),
        (queue_of(quick((0, 0, 2), (0, 0, 1)), RUNNING), [USER, ""]),
        (queue_of(quick((0, 0, 3), (0, 0, 4)), factor=[5, 90]), [USER, ""]),
        (queue_of(quick((0, 0, 4), (0, 0, 4)), held=[True, False]), [USER, ""]),
        (queue_of(quick((0, 0, 1), (1, 1, 1)), tasks=[5, 4]), [USER, ""]),
        (queue_of(quick((0, -1, 5), (0, -1, 2))), ["", ACCOUNT]),
    ],
    ids=[
        "a user holds a third of it and an account half",
        "running jobs hold before all that wait",
        "the first by priority claims first",
        "a job that could not start takes nothing from others",
        "an array holds what its tasks ask for",
        "jobs of an unknown user are bounded by their account",
    ],
)
def test_who_counts_as_interactive(snapshot: QueueSnapshot, found: list[str]) -> None:
    assert reasons(snapshot) == found


ALONE = replace(queue_of(quick((0, 0, 4), (0, 1, 4), (0, 2, 4))), accounts=("",), shares=np.ones(1))


@pytest.mark.parametrize(
    ("change", "snapshot", "found"),
    [
        ({"account_share": 1.0, "user_share": 1.0}, None, ["", ""]),
        ({"account_share": 1.0}, None, ["", USER]),
        ({"user_share": 1.0}, None, ["", ACCOUNT]),
        ({"most": 1, "user_share": 1.0}, None, [ACCOUNT, ACCOUNT]),
        # as if jobs name no account: half of the reserve would stay empty for no one
        ({}, ALONE, ["", "", ""]),
    ],
)
def test_1_or_an_account_that_is_the_only_one_turns_a_bound_off(
    change: dict[str, float], snapshot: QueueSnapshot | None, found: list[str]
) -> None:
    snapshot = snapshot or queue_of(quick((0, 0, 4), (0, 0, 4)))
    assert reasons(snapshot, replace(SETTINGS, **change)) == found


@pytest.mark.parametrize(("share", "most", "held"), [(0.07, 100, 7), (0.33, 8, 3), (0.55, 100, 55)])
def test_a_part_is_rounded_up_from_a_whole_number_on(share: float, most: int, held: int) -> None:
    assert ReserveSettings(most=most, user_share=share).user_most == held


@pytest.mark.parametrize("ended", [False, True])
def test_jobs_counted_as_batch_do_not_keep_the_reserve_alive(ended: bool) -> None:
    """Of three jobs that started, one is interactive by the limit of a user who lost the class."""
    jobs = replace(
        jobs_of([(0, 0, 4, INTERACTIVE), (0, 0, 4, INTERACTIVE), (1, 1, 1, INTERACTIVE)]),
        by_limit=np.array([False, False, True]),
        submit=np.array([100.0, 200.0, 300.0]),
    )
    snapshot = replace(
        queue_of([(0, 2, 1, BATCH)]), started=StartedJobs(jobs=jobs, start=jobs.submit)
    )
    if not ended:
        snapshot = replace(snapshot, running=RunningJobs(jobs=jobs, start=jobs.submit))
    newest = newest_interactive(counted_classes(snapshot, SETTINGS, {1}))
    assert newest == (200.0 if ended else 100.0)


def test_running_jobs_beyond_it_take_no_processors_from_batch_jobs() -> None:
    """Ten processors of one user: 4 count as interactive, so batch jobs may use 40 - 4 - 12."""
    running = [(0, 0, 1, INTERACTIVE)] * 10
    counted = counted_classes(queue_of([(1, 1, 1, INTERACTIVE)], running), SETTINGS)
    assert batch_limit(counted, 12, SETTINGS) == {"cpus": 40 - 4 - 12}


def test_time_limits_of_who_overruns_them_make_no_job_interactive() -> None:
    """Of user 0 the first job is interactive by its limit, the second by its partition."""
    rows = [(0, 0, 1, INTERACTIVE), (0, 0, 4, INTERACTIVE), (0, 1, 1, INTERACTIVE)]
    snapshot = with_column(queue_of(rows, rows), by_limit=np.array([True, False, True]))
    free = replace(SETTINGS, account_share=1.0, user_share=1.0)
    counted = counted_classes(snapshot, free, {0})
    for jobs in (counted.pending.jobs, counted.running.jobs):
        assert jobs.interactive.tolist() == [False, True, True]
    assert counted.pending.as_batch.tolist() == [AS_BATCH.index(OVERRUN), -1, -1]


def chosen(*by_user: bool) -> QueueSnapshot:
    """Jobs of two users that are interactive, some only because their users chose so."""
    rows = [(0, place % 2, 1, INTERACTIVE) for place in range(len(by_user))]
    return with_column(queue_of(rows, rows), by_user=np.array(by_user))


def test_a_class_that_users_choose_counts_for_nothing_where_no_reserve_bounds_it() -> None:
    counted = counted_classes(chosen(True, False), None)
    assert counted.pending.jobs.interactive.tolist() == [False, True]
    assert counted.running.jobs.interactive.tolist() == [False, True]
    assert counted.pending.as_batch.tolist() == [AS_BATCH.index(NO_RESERVE), -1]


def test_who_overran_limits_does_not_get_the_class_back_by_choosing_one() -> None:
    counted = counted_classes(chosen(True, True), SETTINGS, {0})
    assert counted.pending.jobs.interactive.tolist() == [False, True]


AT = 100_000.0
HOUR = 3600.0
RESERVE = ReserveSettings(
    most=6, widest_batch_job=3, change_interval=60.0, lift_after=2 * HOUR, idle_after=HOUR
)


def jobs_since(rows: list[tuple[int, bool, float]]) -> JobTable:
    """Jobs of (processors, interactive, seconds since they came)."""
    processors, interactive, ago = zip(*rows, strict=True) if rows else ([], [], [])
    came = [AT - each for each in ago]
    columns = {"processors": processors, "interactive": interactive}
    return job_table(len(rows), submit=came, eligible=came, **columns)


def queue_since(
    waiting: list[tuple[int, bool, float]],
    running: list[tuple[int, bool, float]] = [],  # noqa: B006 - never changed
    capacity: int = 16,
    now: float = AT,
) -> QueueSnapshot:
    pending = replace(pending_jobs([0] * len(waiting)), jobs=jobs_since(waiting))
    busy = jobs_since(running)
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
        snapshot = queue_since(waiting, running, capacity)
        decision = ReserveRail(RESERVE).check(wish(snapshot, reserve), snapshot)
        assert 0 <= decision.reserve <= min(RESERVE.most, capacity)
        limits = batch_limit(snapshot, decision.reserve, RESERVE)
        if limits is None:
            return
        limit = limits["cpus"]
        assert RESERVE.widest_batch_job <= limit < capacity
        in_use = sum(each[0] for each in running if each[1])
        assert limit >= capacity - in_use - decision.reserve
        if limit > RESERVE.widest_batch_job:  # the reserve is free in addition to interactive jobs
            assert capacity - limit - in_use == decision.reserve

    def test_the_reserve_is_free_beside_what_runs(self) -> None:
        snapshot = queue_since([(1, True, 5.0)], [(3, True, 9.0), (2, False, 9.0)])
        settings = ReserveSettings(most=6)
        assert batch_limit(snapshot, 4, settings) == {"cpus": 16 - 3 - 4}
        assert batch_limit(snapshot, 0, settings) is None
        assert batch_limit(snapshot, 4, replace(settings, widest_batch_job=16)) is None

    def test_of_other_resources_the_same_part_is_kept(self) -> None:
        snapshot = with_gpus(queue_since([(1, True, 5.0)], [(3, True, 9.0), (2, False, 9.0)]))
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
        snapshot = with_gpus(queue_since([(1, True, 5.0)]))
        nobody = RunningJobs(jobs=replace(snapshot.running.jobs, requests=None), start=np.empty(0))
        settings = ReserveSettings(most=6, most_resources={"gpus": 3})
        limit = batch_limit(replace(snapshot, running=nobody), 6, settings)
        assert limit == {"cpus": 16 - 6, "gpus": 8 - 3}

    def test_what_the_system_does_not_tell_of_is_not_limited(self) -> None:
        snapshot = queue_since([(1, True, 5.0)], [(3, True, 9.0)])
        settings = ReserveSettings(most=6, most_resources={"gpus": 3})
        assert batch_limit(snapshot, 6, settings) == {"cpus": 16 - 3 - 6}
        none = with_gpus(snapshot, gpus=0)
        assert batch_limit(none, 6, settings) == {"cpus": 16 - 3 - 6}

    def test_a_job_of_several_gpus_starves_below_a_limit_of_them(self) -> None:
        snapshot = with_gpus(queue_since([(1, False, 3 * HOUR), (1, False, 3 * HOUR)]), asks=[1, 2])
        of_gpus = replace(RESERVE, most_resources={"gpus": 3})
        assert starving_jobs(snapshot, of_gpus).tolist() == [1]
        assert starving_jobs(snapshot, RESERVE).tolist() == []
        of_memory = replace(RESERVE, most_resources={"memory": 3})
        assert starving_jobs(snapshot, of_memory).tolist() == []
        fits = replace(of_memory, widest_batch_resources={"memory": 40})
        assert starving_jobs(snapshot, fits).tolist() == [0, 1]


def with_gpus(
    snapshot: QueueSnapshot, gpus: int = 8, asks: Sequence[int] | None = None
) -> QueueSnapshot:
    """A machine with GPUs and 4,000 MiB; each job uses 50 MiB and `gpus` GPUs."""

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
        snapshot, rail = queue_since([(1, True, 5.0)]), ReserveRail(RESERVE)
        decision = wish(snapshot, 0)
        assert rail.check(decision, snapshot) is decision
        assert rail.reason == UNWANTED

    @pytest.mark.parametrize(("wanted", "kept"), [(None, RESERVE.most), (99, RESERVE.most), (1, 1)])
    def test_without_a_number_the_site_keeps_its_most(self, wanted: int | None, kept: int) -> None:
        snapshot = queue_since([(1, True, 5.0)])
        decision = replace(wish(snapshot, 0), reserve=wanted)
        assert ReserveRail(RESERVE).check(decision, snapshot).reserve == kept

    @given(ROWS, ROWS, st.integers(1, 40))
    def test_a_starving_wide_job_lifts_it_and_goes_first(
        self,
        waiting: list[tuple[int, bool, float]],
        running: list[tuple[int, bool, float]],
        reserve: int,
    ) -> None:
        waiting = [*waiting, (5, False, 3 * HOUR), (1, True, 1.0)]
        snapshot, rail = queue_since(waiting, running), ReserveRail(RESERVE)
        decision = rail.check(wish(snapshot, reserve), snapshot)
        assert rail.reason == STARVING
        assert decision.reserve == 0
        overdue = [
            (-ago, place)
            for place, (width, quick, ago) in enumerate(waiting)
            if width > 1 and not quick and ago > RESERVE.lift_after
        ]
        order = np.argsort(-decision.scores, kind="stable").tolist()
        assert order[: len(overdue)] == [place for _, place in sorted(overdue)]
        assert decision.steps is not None
        assert np.flatnonzero(decision.steps).tolist() == sorted(place for _, place in overdue)

    def test_jobs_that_cannot_start_lift_nothing(self) -> None:
        held = queue_since([(5, False, 3 * HOUR), (1, True, 1.0)])
        held.pending.held[0] = True
        assert len(starving_jobs(held, RESERVE)) == 0
        too_wide = queue_since([(17, False, 3 * HOUR), (1, True, 1.0)])
        assert len(starving_jobs(too_wide, RESERVE)) == 0
        dependent = queue_since([(5, False, 3 * HOUR)])
        dependent.pending.jobs.eligible[0] = math.inf
        assert len(starving_jobs(dependent, RESERVE)) == 0
        narrow = queue_since([(1, False, 3 * HOUR)])  # takes any processor that becomes free
        assert len(starving_jobs(narrow, RESERVE)) == 0

    def test_nothing_is_kept_once_nobody_has_come_for_long(self) -> None:
        rail = ReserveRail(RESERVE)
        nobody = queue_since([(1, False, 9.0)])
        assert rail.check(wish(nobody), nobody).reserve == 0
        assert rail.reason == NOBODY
        came = queue_since([(1, True, 9.0)])
        assert rail.check(wish(came), came).reserve == 4
        assert rail.reason == KEPT
        later = replace(nobody, now=AT + HOUR - 10.0)  # it has come and gone
        assert rail.check(wish(later), later).reserve == 4
        much_later = replace(nobody, now=AT + HOUR)
        assert rail.check(wish(much_later), much_later).reserve == 0
        fresh = ReserveRail(RESERVE)
        fresh.go_on_from(rail)  # a reload forgets no job
        assert fresh.check(wish(later), later).reserve == 4

    @given(ROWS, st.integers(1, 9), st.booleans())
    def test_interactive_jobs_go_first_and_wide_batch_jobs_last_where_the_site_says_so(
        self, waiting: list[tuple[int, bool, float]], reserve: int, narrow_first: bool
    ) -> None:
        waiting = [(width, quick, min(ago, HOUR / 2)) for width, quick, ago in waiting]
        waiting.append((9, True, 1.0))
        snapshot = queue_since(waiting)
        rail = ReserveRail(replace(RESERVE, narrow_first=narrow_first))
        decision = rail.check(wish(snapshot, reserve), snapshot)
        assert rail.reason == KEPT
        steps = [2 if quick else int(narrow_first and width <= 3) for width, quick, _ in waiting]
        expected = sorted(range(len(waiting)), key=lambda place: (-steps[place], place))
        assert np.argsort(-decision.scores, kind="stable").tolist() == expected
        assert decision.steps is not None
        assert decision.steps.tolist() == steps
        unkept = rail.check(wish(snapshot, 0), snapshot)
        assert np.argsort(-unkept.scores, kind="stable").tolist() == list(range(len(waiting)))


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
        rail = ReserveRail(RESERVE)
        limit = BatchLimit(rail=rail, monotonic=lambda: clock[0])
        changes: list[tuple[float, bool]] = []
        for waited, wanted, in_use, starves, fallback in steps:
            clock[0] += waited
            wide = [(4, False, 3 * HOUR)] if starves else []
            snapshot = queue_since([*wide, (1, True, 1.0)], [(1, True, 1.0)] * in_use)
            reserve = rail.check(wish(snapshot, wanted), snapshot).reserve
            planned = limit.planned(snapshot, reserve, fallback=fallback)
            done = limit._remembered(planned)  # as if it were written
            assert (planned.change is None) == (planned.amounts == planned.before)
            at_once = fallback or (starves and wanted > 0)
            assert not at_once or done.processors is None
            if done.change is not None:
                changes.append((clock[0], at_once))
        for (before, _), (at, at_once) in pairwise(changes):
            assert at_once or at - before >= RESERVE.change_interval
