"""What every batch-system adapter must do; subclass it and give the fixture `queue`.

class TestMyAdapter(BatchSystemContract):
    @pytest.fixture
    def queue(self) -> PreparedQueue: ...
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest

from slurm_rl_plugin.batch_systems.port import BatchSystem, FactorChange
from slurm_rl_plugin.domain import JobTable, PendingJobs, QueueSnapshot

UNKNOWN_JOB = 999999


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedQueue:
    """A batch system with a queue in which nothing moves by itself.

    Attributes:
        system: the adapter, fresh.
        waiting: at least three pending, eligible jobs that are not held, of any priorities.
        held: a pending job on hold; None where the system knows no hold.
        start: makes one of the waiting jobs start; None where the test cannot say so.
        start_untold: makes one of them run before the batch system shows since when; None as above.
        end: makes the job that was started end; None where the test cannot say so.
        another: a fresh adapter of the same batch system, as a reload makes one; None for none.
    """

    system: BatchSystem
    waiting: tuple[int, ...]
    held: int | None = None
    start: Callable[[int], None] | None = None
    start_untold: Callable[[int], None] | None = None
    end: Callable[[int], None] | None = None
    another: Callable[[], BatchSystem] | None = None


def row_of(snapshot: QueueSnapshot, job_id: int) -> int:
    """Index of a pending job."""
    rows = np.flatnonzero(snapshot.pending.jobs.job_id == job_id)
    assert rows.size == 1, f"job {job_id} is in {rows.size} rows"
    return int(rows[0])


def by_job(snapshot: QueueSnapshot, column: str) -> dict[int, Any]:
    """Job id -> its value in a column of pending jobs, or of their table."""
    pending = snapshot.pending
    values = getattr(pending if hasattr(pending, column) else pending.jobs, column)
    return dict(zip(pending.jobs.job_id.tolist(), values.tolist(), strict=True))


def factors(snapshot: QueueSnapshot) -> dict[int, int]:
    """Job id -> our term in its priority."""
    return by_job(snapshot, "factor")


def start_order(snapshot: QueueSnapshot, job_ids: tuple[int, ...]) -> list[int]:
    """The jobs named, by falling priority."""
    total = snapshot.pending.native_priority + snapshot.pending.factor
    return sorted(job_ids, key=lambda job_id: (-total[row_of(snapshot, job_id)], job_id))


def change(snapshot: QueueSnapshot, job_id: int, new: int) -> FactorChange:
    return FactorChange(job_id=job_id, old=factors(snapshot).get(job_id, 0), new=new)


def set_factor(job_id: int, new: int) -> FactorChange:
    """A change of a job that had none."""
    return FactorChange(job_id=job_id, old=0, new=new)


def _check_table(jobs: JobTable, snapshot: QueueSnapshot) -> None:
    for column in fields(jobs):
        values = getattr(jobs, column.name)
        assert values is not None or column.default is None, column.name
        if values is not None and column.name != "requests":
            assert values.shape == (len(jobs),), column.name
    assert jobs.requests is None or len(jobs.requests) == len(jobs)
    assert len(set(jobs.job_id.tolist())) == len(jobs)
    assert (jobs.processors >= 1).all()
    assert ((jobs.account >= 0) & (jobs.account < len(snapshot.accounts))).all()
    assert ((jobs.partition >= 0) & (jobs.partition < len(snapshot.partitions))).all()
    assert np.isfinite(jobs.submit).all()
    assert jobs.interactive.dtype == np.dtype(np.bool_)
    assert jobs.submit.dtype == np.dtype(np.float64)


class BatchSystemContract:
    """Tests common to all adapters."""

    def test_columns_fit_together(self, queue: PreparedQueue) -> None:
        snapshot = queue.system.snapshot()
        for jobs in (snapshot.pending.jobs, snapshot.running.jobs, snapshot.started.jobs):
            _check_table(jobs, snapshot)
        for column in fields(PendingJobs):
            values = getattr(snapshot.pending, column.name)
            assert values is None or len(values) == len(snapshot.pending)
        assert len(snapshot.running.start) == len(snapshot.running)
        assert len(snapshot.started.start) == len(snapshot.started)
        ended = snapshot.ended
        assert len(ended) == len(ended.jobs) == len(ended.start) == len(ended.end)
        for jobs in (snapshot.pending.jobs, snapshot.running.jobs, ended.jobs):
            assert ((jobs.user >= -1) & (jobs.user < len(snapshot.users))).all()

    def test_what_the_scheduler_goes_by_is_told(self, queue: PreparedQueue) -> None:
        facts, load = queue.system.facts(), queue.system.load()
        assert facts.release
        assert facts.lever
        assert facts.harm is None
        assert facts.in_charge
        assert facts.points_an_hour >= 0
        assert facts.pass_interval >= 0
        assert load.struggles is None
        assert load.events

    def test_a_start_shows_in_the_cheap_look(self, queue: PreparedQueue) -> None:
        if queue.start is None:
            pytest.skip("this system cannot start a job on demand")
        before = queue.system.load().events
        assert queue.system.load().events == before
        queue.start(queue.waiting[1])
        assert queue.system.load().events != before

    def test_shares_and_usage_have_one_value_for_each_account(self, queue: PreparedQueue) -> None:
        snapshot = queue.system.snapshot()
        assert snapshot.shares.shape == snapshot.usage.shape == (len(snapshot.accounts),)
        assert snapshot.shares.sum() == pytest.approx(1.0)
        assert snapshot.usage.sum() == pytest.approx(1.0) or not snapshot.usage.any()
        assert (snapshot.shares >= 0).all()
        assert (snapshot.usage >= 0).all()
        assert snapshot.capacity > 0

    def test_waiting_jobs_are_pending_and_eligible(self, queue: PreparedQueue) -> None:
        snapshot = queue.system.snapshot()
        for job_id in queue.waiting:
            row = row_of(snapshot, job_id)
            assert snapshot.pending.jobs.eligible[row] <= snapshot.now
            assert not snapshot.pending.held[row]
            assert not snapshot.pending.admin_set[row]

    def test_nothing_has_a_factor_at_first(self, queue: PreparedQueue) -> None:
        assert set(factors(queue.system.snapshot()).values()) <= {0}

    def test_apply_sets_the_order(self, queue: PreparedQueue) -> None:
        before = queue.system.snapshot()
        for wanted in (queue.waiting, queue.waiting[::-1]):
            steps = {job_id: (len(wanted) - i) * 100_000 for i, job_id in enumerate(wanted)}
            report = queue.system.apply([change(before, *step) for step in steps.items()])
            after = queue.system.snapshot()
            assert (report.applied, report.rejected) == (len(wanted), {})
            assert {job_id: factors(after)[job_id] for job_id in wanted} == steps
            assert start_order(after, wanted) == list(wanted)

    def test_apply_leaves_native_priority_and_other_jobs_alone(self, queue: PreparedQueue) -> None:
        before = queue.system.snapshot()
        first, *others = queue.waiting
        queue.system.apply([change(before, first, 5000)])
        after = queue.system.snapshot()
        for job_id in queue.waiting:
            old, new = row_of(before, job_id), row_of(after, job_id)
            # The batch system's own terms may move by themselves, age for example.
            assert after.pending.native_priority[new] == pytest.approx(
                before.pending.native_priority[old], abs=500
            )
            assert after.pending.nice[new] == before.pending.nice[old]
        assert [factors(after)[job_id] for job_id in others] == [0] * len(others)

    def test_negative_factor_is_read_back(self, queue: PreparedQueue) -> None:
        before = queue.system.snapshot()
        queue.system.apply([change(before, queue.waiting[0], -70)])
        assert factors(queue.system.snapshot())[queue.waiting[0]] == -70

    def test_applying_the_same_again_changes_nothing(self, queue: PreparedQueue) -> None:
        changes = [change(queue.system.snapshot(), queue.waiting[0], 42)]
        first, second = queue.system.apply(changes), queue.system.apply(changes)
        assert (first.applied, second.applied) == (1, 1)
        assert factors(queue.system.snapshot())[queue.waiting[0]] == 42

    def test_applying_nothing_is_fine(self, queue: PreparedQueue) -> None:
        report = queue.system.apply([])
        assert (report.applied, report.rejected) == (0, {})

    def test_unknown_job_is_reported_and_the_others_are_written(self, queue: PreparedQueue) -> None:
        first, second = queue.waiting[:2]
        report = queue.system.apply(
            [FactorChange(job_id=job, old=0, new=7) for job in (first, UNKNOWN_JOB, second)]
        )
        assert report.applied == 2
        assert set(report.rejected) == {UNKNOWN_JOB}
        assert report.rejected[UNKNOWN_JOB]
        after = factors(queue.system.snapshot())
        assert (after[first], after[second]) == (7, 7)

    def test_release_of_named_jobs(self, queue: PreparedQueue) -> None:
        before = queue.system.snapshot()
        queue.system.apply([change(before, job_id, 900) for job_id in queue.waiting])
        report = queue.system.release(np.array(queue.waiting[:1], dtype=np.int64))
        after = factors(queue.system.snapshot())
        assert report.applied == 1
        assert [after[job_id] for job_id in queue.waiting] == [0] + [900] * (len(queue.waiting) - 1)

    def test_release_of_all(self, queue: PreparedQueue) -> None:
        before = queue.system.snapshot()
        queue.system.apply([change(before, job_id, 900) for job_id in queue.waiting])
        assert queue.system.release().rejected == {}
        after = queue.system.snapshot()
        assert set(factors(after).values()) == {0}
        assert start_order(after, queue.waiting) == start_order(before, queue.waiting)

    def test_held_job_stays_held(self, queue: PreparedQueue) -> None:
        if queue.held is None:
            pytest.skip("this system knows no hold")
        before = queue.system.snapshot()
        assert before.pending.held[row_of(before, queue.held)]
        queue.system.apply([change(before, queue.held, 1000)])
        after = queue.system.snapshot()
        assert after.pending.held[row_of(after, queue.held)]
        queue.system.release()
        last = queue.system.snapshot()
        assert last.pending.held[row_of(last, queue.held)]

    def test_start_is_reported_once(self, queue: PreparedQueue) -> None:
        if queue.start is None:
            pytest.skip("this system cannot start a job on demand")
        assert len(queue.system.snapshot().started) == 0
        queue.start(queue.waiting[1])
        second, third = queue.system.snapshot(), queue.system.snapshot()
        assert second.started.jobs.job_id.tolist() == [queue.waiting[1]]
        assert queue.waiting[1] in second.running.jobs.job_id.tolist()
        assert queue.waiting[1] not in second.pending.jobs.job_id.tolist()
        assert len(third.started) == 0

    def test_who_waits_now_takes_no_start_from_the_next_snapshot(
        self, queue: PreparedQueue
    ) -> None:
        if queue.start is None or not queue.system.lists_pending:
            pytest.skip("this system lists pending jobs only by whole snapshots")
        first = queue.system.snapshot()
        queue.system.apply([set_factor(queue.waiting[0], 7)])
        queue.start(queue.waiting[1])
        now = queue.system.pending_now()
        waiting = [job for job in first.pending.jobs.job_id.tolist() if job != queue.waiting[1]]
        assert sorted(now.pending.jobs.job_id.tolist()) == sorted(waiting)
        assert factors(now)[queue.waiting[0]] == 7
        assert (len(now.started), len(now.ended.jobs)) == (0, 0)
        assert now.running.jobs.job_id.tolist() == first.running.jobs.job_id.tolist()
        started = queue.system.snapshot().started
        assert started.jobs.job_id.tolist() == [queue.waiting[1]]

    def test_a_start_that_is_not_told_yet_spoils_no_score(self, queue: PreparedQueue) -> None:
        if queue.start_untold is None:
            pytest.skip("this system shows every start")
        queue.system.snapshot()
        queue.start_untold(queue.waiting[1])
        snapshot = queue.system.snapshot()
        assert queue.waiting[1] in snapshot.running.jobs.job_id.tolist()
        assert np.isfinite(snapshot.running.start).all()
        assert snapshot.running.start.max() <= snapshot.now

    def test_an_adapter_that_goes_on_tells_starts_since_the_last_look_of_the_earlier_one(
        self, queue: PreparedQueue
    ) -> None:
        if queue.start is None or queue.another is None:
            pytest.skip("this queue cannot start jobs, or has one adapter only")
        early, late = queue.waiting[:2]
        queue.system.snapshot()
        queue.start(early)
        assert early in queue.system.snapshot().started.jobs.job_id
        queue.start(late)
        another = queue.another()
        another.go_on_from(queue.system)
        assert another.snapshot().started.jobs.job_id.tolist() == [late]

    def test_the_past_may_be_asked_for_again(self, queue: PreparedQueue) -> None:
        queue.system.snapshot()
        queue.system.tell_past(30.0)
        told = queue.system.snapshot().ended
        assert told.from_accounting or len(told.jobs) == 0  # of a system without accounting none
        assert not queue.system.snapshot().ended.from_accounting  # once

    def test_end_is_reported_once(self, queue: PreparedQueue) -> None:
        if queue.start is None or queue.end is None:
            pytest.skip("this system cannot end a job on demand")
        job_id = queue.waiting[1]
        first = queue.system.snapshot()
        reported = first.ended.jobs.job_id.tolist()
        queue.start(job_id)
        second = queue.system.snapshot()
        reported += second.ended.jobs.job_id.tolist()
        assert job_id not in reported
        queue.end(job_id)
        third = queue.system.snapshot()
        row = third.ended.jobs.job_id.tolist().index(job_id)
        assert not third.ended.from_accounting
        assert third.ended.start[row] <= third.ended.end[row] <= third.now
        _check_table(third.ended.jobs, third)
        reported += third.ended.jobs.job_id.tolist()
        for _ in range(3):
            reported += queue.system.snapshot().ended.jobs.job_id.tolist()
        assert len(reported) == len(set(reported))
        before = first.pending.jobs
        user = int(before.user[row_of(first, job_id)])
        assert third.users[third.ended.jobs.user[row]] == first.users[user]
        assert third.ended.jobs.processors[row] == before.processors[row_of(first, job_id)]
