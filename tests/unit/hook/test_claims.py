"""Who may use the reserve: a part of it for one account, and for one user."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.domain import JobTable, QueueSnapshot, RunningJobs, StartedJobs
from slurm_rl_plugin.hook.rails.reserve import (
    ACCOUNT,
    AS_BATCH,
    NO_RESERVE,
    OVERRUN,
    USER,
    ReserveRail,
    ReserveSettings,
    batch_limit,
    classes_without_reserve,
    counted_classes,
    newest_interactive,
)
from slurm_rl_plugin.policies.registry import rule_policy
from tests.unit.hook.queues import QueueInMemory, cycle_over, job_table, pending_jobs, snapshot_of

#: Of 12 processors an account may hold 6, a user 4.
SETTINGS = ReserveSettings(most=12, account_share=0.5, user_share=0.33)
INTERACTIVE, BATCH = True, False
#: (account, user, processors, class)
Row = tuple[int, int, int, bool]


def jobs_of(rows: list[Row]) -> JobTable:
    account, user, processors, interactive = (np.array(each) for each in zip(*rows, strict=True))
    return replace(
        job_table(len(rows)),
        account=account,
        user=user,
        processors=processors,
        interactive=interactive,
    )


def queue_of(waiting: list[Row], running: list[Row] | None = None) -> QueueSnapshot:
    """All of the same priority, so that the first submitted is the first."""
    pending = replace(pending_jobs([0] * len(waiting)), jobs=jobs_of(waiting))
    snapshot = replace(snapshot_of(pending), capacity=40, accounts=("a", "b"), shares=np.ones(2))
    if not running:
        return snapshot
    jobs = jobs_of(running)
    return replace(snapshot, running=RunningJobs(jobs=jobs, start=jobs.submit))


def reasons(snapshot: QueueSnapshot, settings: ReserveSettings = SETTINGS) -> list[str]:
    """Of each pending job why it counts as batch; "" where it counts as classed."""
    as_batch = counted_classes(snapshot, settings).pending.as_batch
    assert as_batch is not None
    return ["" if place < 0 else AS_BATCH[place] for place in as_batch.tolist()]


def test_a_user_holds_a_third_of_it_and_an_account_half() -> None:
    rows = [(0, 0, 3, INTERACTIVE), (0, 0, 2, INTERACTIVE), (0, 0, 1, INTERACTIVE)]
    rows += [(0, 1, 2, INTERACTIVE), (0, 1, 1, INTERACTIVE), (1, 2, 4, INTERACTIVE)]
    assert reasons(queue_of(rows)) == ["", USER, "", "", ACCOUNT, ""]


def test_the_class_that_a_policy_sees_is_the_one_that_counts() -> None:
    found = counted_classes(queue_of([(0, 0, 5, INTERACTIVE), (0, 0, 1, BATCH)]), SETTINGS)
    assert found.pending.jobs.interactive.tolist() == [False, False]


def test_running_jobs_hold_before_all_that_wait() -> None:
    running = [(0, 0, 3, INTERACTIVE), (0, 0, 9, BATCH)]
    waiting = [(0, 0, 2, INTERACTIVE), (0, 0, 1, INTERACTIVE)]
    assert reasons(queue_of(waiting, running)) == [USER, ""]


def test_the_first_by_priority_claims_first() -> None:
    snapshot = queue_of([(0, 0, 3, INTERACTIVE), (0, 0, 4, INTERACTIVE)])
    pending = replace(snapshot.pending, factor=np.array([5, 90]))
    assert reasons(replace(snapshot, pending=pending)) == [USER, ""]


def test_a_job_that_could_not_start_takes_nothing_from_others() -> None:
    snapshot = queue_of([(0, 0, 4, INTERACTIVE), (0, 0, 4, INTERACTIVE)])
    held = replace(snapshot.pending, held=np.array([True, False]))
    assert reasons(replace(snapshot, pending=held)) == [USER, ""]


def test_an_array_holds_what_its_tasks_ask_for() -> None:
    snapshot = queue_of([(0, 0, 1, INTERACTIVE), (1, 1, 1, INTERACTIVE)])
    pending = replace(snapshot.pending, tasks=np.array([5, 4]))
    assert reasons(replace(snapshot, pending=pending)) == [USER, ""]


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"account_share": 1.0, "user_share": 1.0}, ["", ""]),
        ({"account_share": 1.0}, ["", USER]),
        ({"user_share": 1.0}, ["", ACCOUNT]),
        ({"most": 1, "user_share": 1.0}, [ACCOUNT, ACCOUNT]),
    ],
)
def test_1_turns_a_bound_off(change: dict[str, float], found: list[str]) -> None:
    snapshot = queue_of([(0, 0, 4, INTERACTIVE), (0, 0, 4, INTERACTIVE)])
    assert reasons(snapshot, replace(SETTINGS, **change)) == found


def test_an_account_that_is_the_only_one_has_no_bound() -> None:
    """As where jobs name no account: half of the reserve would stay empty for nobody."""
    rows = [(0, user, 4, INTERACTIVE) for user in range(3)]
    assert reasons(queue_of(rows)) == ["", ACCOUNT, ACCOUNT]
    alone = replace(queue_of(rows), accounts=("",), shares=np.ones(1))
    assert reasons(alone) == ["", "", ""]


@pytest.mark.parametrize(("share", "most", "held"), [(0.07, 100, 7), (0.33, 8, 3), (0.55, 100, 55)])
def test_a_part_is_rounded_up_from_a_whole_number_on(share: float, most: int, held: int) -> None:
    assert ReserveSettings(most=most, user_share=share).user_most == held


@pytest.mark.parametrize("ended", [False, True])
def test_jobs_that_count_as_batch_do_not_keep_the_reserve_alive_when_they_start(
    ended: bool,
) -> None:
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


def test_jobs_of_an_unknown_user_are_bounded_by_their_account() -> None:
    assert reasons(queue_of([(0, -1, 5, INTERACTIVE), (0, -1, 2, INTERACTIVE)])) == ["", ACCOUNT]


def test_running_jobs_beyond_it_take_no_processors_from_batch_jobs() -> None:
    """Ten processors of one user: 4 count as interactive, so batch jobs may use 40 - 4 - 12."""
    running = [(0, 0, 1, INTERACTIVE)] * 10
    counted = counted_classes(queue_of([(1, 1, 1, INTERACTIVE)], running), SETTINGS)
    assert batch_limit(counted, 12, SETTINGS) == {"cpus": 40 - 4 - 12}


@pytest.mark.parametrize("influence", [math.inf, 0.5])
def test_a_cycle_orders_them_as_batch_jobs(tmp_path: Path, influence: float) -> None:
    """Of jobs 2 to 4, all interactive, two are one user's; batch jobs keep their order."""
    rows = [(0, 3, 1, BATCH), (0, 0, 4, INTERACTIVE), (0, 0, 4, INTERACTIVE)]
    rows += [(0, 1, 1, INTERACTIVE)]
    queue = QueueInMemory(queue_of(rows).pending)
    rail = ReserveRail(replace(SETTINGS, account_share=1.0))
    cycle = cycle_over(queue, rule_policy("reserve:2"), tmp_path, rail, influence=influence)
    report = cycle.run()
    assert report.failure is None
    assert queue.order() == [2, 4, 1, 3]
    assert report.snapshot is not None
    assert report.snapshot.pending.jobs.interactive.tolist() == [False, True, False, True]
    assert cycle.look().snapshot.pending.as_batch.tolist() == [-1, -1, AS_BATCH.index(USER), -1]


def test_time_limits_of_who_overruns_them_make_no_job_interactive() -> None:
    """Of user 0 the first job is interactive by its limit, the second by its partition."""
    rows = [(0, 0, 1, INTERACTIVE), (0, 0, 4, INTERACTIVE), (0, 1, 1, INTERACTIVE)]
    snapshot = queue_of(rows, rows)
    by_limit = np.array([True, False, True])
    snapshot = replace(
        snapshot,
        pending=replace(snapshot.pending, jobs=replace(snapshot.pending.jobs, by_limit=by_limit)),
        running=replace(snapshot.running, jobs=replace(snapshot.running.jobs, by_limit=by_limit)),
    )
    free = replace(SETTINGS, account_share=1.0, user_share=1.0)
    counted = counted_classes(snapshot, free, {0})
    for jobs in (counted.pending.jobs, counted.running.jobs):
        assert jobs.interactive.tolist() == [False, True, True]
    assert counted.pending.as_batch is not None
    assert counted.pending.as_batch.tolist() == [AS_BATCH.index(OVERRUN), -1, -1]


def chosen(*by_user: bool) -> QueueSnapshot:
    """Jobs of two users that are interactive, some only because their users chose so."""
    rows = [(0, place % 2, 1, INTERACTIVE) for place in range(len(by_user))]
    snapshot = queue_of(rows, rows)
    column = np.array(by_user)
    pending, running = snapshot.pending, snapshot.running
    return replace(
        snapshot,
        pending=replace(pending, jobs=replace(pending.jobs, by_user=column)),
        running=replace(running, jobs=replace(running.jobs, by_user=column)),
    )


def test_a_class_that_users_choose_counts_for_nothing_where_no_reserve_bounds_it() -> None:
    counted = classes_without_reserve(chosen(True, False))
    assert counted.pending.jobs.interactive.tolist() == [False, True]
    assert counted.running.jobs.interactive.tolist() == [False, True]
    assert counted.pending.as_batch is not None
    assert counted.pending.as_batch.tolist() == [AS_BATCH.index(NO_RESERVE), -1]


def test_who_overran_limits_does_not_get_the_class_back_by_choosing_one() -> None:
    counted = counted_classes(chosen(True, True), SETTINGS, {0})
    assert counted.pending.jobs.interactive.tolist() == [False, True]
