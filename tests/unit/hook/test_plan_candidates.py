"""Who gets a plan estimate: nobody who could push a head beyond its promise and the slack."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurm_rl_plugin.domain import QueueSnapshot, RunningJobs
from slurm_rl_plugin.hook.plan.candidates import PlanBounds, wanted_estimates
from slurm_rl_plugin.hook.plan.heads import WaitingQueue, waiting_queue
from tests.unit.hook.queues import NOW, job_table, pending_jobs, snapshot_of

HOUR = 3600.0


def queue_of(
    processors: list[int], limits: list[float], running: list[tuple[int, float]]
) -> QueueSnapshot:
    """Jobs 1.. wait since long; running ones have processors and seconds left to their limits."""
    pending = pending_jobs(range(len(processors), 0, -1))
    jobs = replace(
        pending.jobs, processors=np.array(processors), time_limit=np.array(limits, dtype=float)
    )
    table = job_table(len(running))
    wide = np.array([each for each, _ in running], dtype=np.int64)
    left = np.array([seconds for _, seconds in running])
    started = replace(table, job_id=table.job_id + 100, processors=wide, time_limit=left + 600.0)
    begun = RunningJobs(jobs=started, start=np.full(len(running), NOW - 600.0))
    return replace(snapshot_of(replace(pending, jobs=jobs)), running=begun)


def waiting(snapshot: QueueSnapshot) -> WaitingQueue:
    everybody = np.ones(len(snapshot.pending), dtype=np.bool_)
    return waiting_queue(snapshot, snapshot.pending.native_priority, everybody)


def wanted(
    snapshot: QueueSnapshot, run_time: list[float], promise: float, slack: float = 60.0
) -> dict[int, int]:
    bounds = PlanBounds(promises={1: NOW + promise}, slack=slack, delay=60.0)
    return wanted_estimates(snapshot, waiting(snapshot), np.array(run_time), bounds)


def test_the_head_starts_when_enough_processors_come_free_by_their_limits() -> None:
    snapshot = queue_of([3, 1], [600, 600], [(1, 500.0), (2, HOUR), (1, 2 * HOUR)])
    (head,) = waiting(snapshot).heads
    assert (head.place, head.start, head.spare) == (0, NOW + HOUR, 0)
    assert waiting(snapshot).free == 0


def test_a_candidate_gets_an_estimate_where_its_limit_keeps_it_waiting() -> None:
    snapshot = queue_of([4, 2], [600, 2 * HOUR], [(2, HOUR)])
    assert wanted(snapshot, [600, 290], promise=3 * HOUR) == {2: 300}


@pytest.mark.parametrize(
    ("what", "processors", "limits", "run_time", "promise"),
    [
        ("its limit ends after the promise", [4, 2], [600, 2 * HOUR], 290.0, 1.5 * HOUR),
        ("its estimate ends after the head's start", [4, 2], [600, 2 * HOUR], 0.99 * HOUR, 9e9),
        ("it starts by its limit already", [4, 2], [600, 0.5 * HOUR], 290.0, 9e9),
        ("it takes what the head leaves", [3, 1], [600, 2 * HOUR], 290.0, 9e9),
        ("it does not fit", [4, 3], [600, 2 * HOUR], 290.0, 9e9),
        ("it has no limit", [4, 2], [600, np.nan], 290.0, 9e9),
        ("it asks for less than the grain more", [4, 2], [600, 1.01 * HOUR], 1.005 * HOUR, 9e9),
    ],
)
def test_nobody_gets_one_where(
    what: str, processors: list[int], limits: list[float], run_time: float, promise: float
) -> None:
    snapshot = queue_of(processors, limits, [(2, HOUR)])
    assert wanted(snapshot, [600.0, run_time], promise) == {}, what


def test_the_slack_moves_the_promise() -> None:
    snapshot = queue_of([4, 2], [600, 2 * HOUR], [(2, HOUR)])
    assert wanted(snapshot, [600, 290], promise=1.5 * HOUR, slack=0.6 * HOUR) == {2: 300}


def test_a_head_that_was_promised_nothing_lets_nobody_pass() -> None:
    snapshot = queue_of([4, 2], [600, 2 * HOUR], [(2, HOUR)])
    bounds = PlanBounds(promises={}, slack=9e9, delay=60.0)
    assert wanted_estimates(snapshot, waiting(snapshot), np.full(2, 290.0), bounds) == {}


def test_a_head_that_seems_to_fit_stops_all_estimates() -> None:
    """It waits for something that is not seen, so nobody knows when it starts."""
    snapshot = queue_of([1, 2], [600, 2 * HOUR], [(2, HOUR)])
    assert waiting(snapshot).heads[0].start == NOW
    assert wanted(snapshot, [600, 290], promise=9e9) == {}


def test_a_new_job_that_fits_is_about_to_start_and_no_head() -> None:
    snapshot = queue_of([1, 4, 1], [600, 600, 2 * HOUR], [(2, HOUR)])
    snapshot.pending.jobs.eligible[0] = NOW - 5.0
    queue = waiting(snapshot)
    assert [head.place for head in queue.heads] == [1]
    assert queue.free == 1


def test_every_partition_has_a_head_and_all_of_them_count() -> None:
    snapshot = queue_of([4, 2, 3], [600, 2 * HOUR, 600], [(2, HOUR)])
    snapshot.pending.jobs.partition[2] = 1
    assert [head.place for head in waiting(snapshot).heads] == [0, 2]
    bounds = PlanBounds(promises={1: NOW + 9e9, 3: NOW + HOUR}, slack=0.0, delay=60.0)
    assert wanted_estimates(snapshot, waiting(snapshot), np.full(3, 290.0), bounds) == {}
    bounds = replace(bounds, promises={1: NOW + 9e9, 3: NOW + 9e9})
    assert wanted_estimates(snapshot, waiting(snapshot), np.full(3, 290.0), bounds) == {2: 300}


def test_what_one_head_leaves_is_there_for_all_of_them_together() -> None:
    """Two that fit beside job 1 each, told of because of job 2, would push job 1 by hours."""
    processors, limits = [10, 12, 2, 2], [600, 600, 4 * HOUR, 4 * HOUR]
    snapshot = replace(queue_of(processors, limits, [(8, HOUR)]), capacity=12)
    snapshot.pending.jobs.partition[1] = 1
    queue = waiting(snapshot)
    assert [(head.place, head.spare) for head in queue.heads] == [(0, 2), (1, 0)]
    bounds = PlanBounds(promises={1: NOW + HOUR, 2: NOW + 5 * HOUR}, slack=60.0, delay=60.0)
    assert wanted_estimates(snapshot, queue, np.full(4, 290.0), bounds) == {3: 300}
    bounds = replace(bounds, promises={1: NOW + 5 * HOUR, 2: NOW + 5 * HOUR})
    assert wanted_estimates(snapshot, queue, np.full(4, 290.0), bounds) == {3: 300, 4: 300}
