"""Which pending jobs start now: in order until the first that does not fit, then backfilling."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import (
    IDLE,
    LIMITED,
    NOW,
    PENDING,
    RUNNING,
    RUNNING_INTERACTIVE,
    Cluster,
    forget_started,
    start_job,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.units import FloatArray, IntArray

NO_BACKFILLING, EASY = 0, 1
BACKFILLING = {"none": NO_BACKFILLING, "easy": EASY}


@compiled_borrowing
def processors_needed(workload: Workload, cluster: Cluster, job: int, reserve: int) -> int:
    """Idle processors at which a job may start: its own, and for a batch job the reserve.

    Where processors are kept free, a batch job so wide that the reserve cannot stay free beside it
    needs the whole machine. Where the batch class is limited to the capacity less the reserve,
    interactive jobs run within the reserve: only what they leave of it must be idle, and a job
    wider than the limit needs more than there is.
    """
    processors = workload.processors[job]
    if workload.interactive[job]:
        return processors
    if cluster.limit[LIMITED] > 0.0:
        return processors + max(reserve - cluster.counts[RUNNING_INTERACTIVE], 0)
    return min(processors + reserve, cluster.capacity[0])


@compiled_borrowing
def _processors_planned(workload: Workload, cluster: Cluster, job: int, reserve: int) -> int:
    """Idle processors at which backfilling plans the start of a job that does not fit now.

    A batch system plans a place on its nodes whatever the limit of the class then is.
    """
    if cluster.limit[LIMITED] > 0.0:
        return workload.processors[job]
    return processors_needed(workload, cluster, job, reserve)


@compiled_borrowing
def shadow_of(workload: Workload, cluster: Cluster, head: int, reserve: int) -> tuple[float, int]:
    """When the head job is expected to fit, and the processors it then leaves spare.

    All running jobs expected to end at the same time count as free together; a job that has
    outlived its estimate is taken to end now. A batch job fits when the reserve stays free.
    """
    now = cluster.clock[NOW]
    needed = _processors_planned(workload, cluster, head, reserve)
    free = cluster.counts[IDLE]
    shadow = now
    for place in range(cluster.counts[RUNNING]):
        expected = max(cluster.expected_end[place], now)
        if free >= needed and expected > shadow:
            break
        shadow = expected
        free += workload.processors[cluster.expected_job[place]]
    return shadow, free - needed


@compiled_borrowing
def kept_back(workload: Workload, cluster: Cluster, job: int, reserve: int) -> bool:
    """Whether a job that fits into the idle processors is kept back by the reserve."""
    return processors_needed(workload, cluster, job, reserve) > cluster.counts[IDLE]


@compiled_borrowing
def _batch_must_end_by(
    workload: Workload, cluster: Cluster, job: int, backfilling: int, reserve: int, bound: float
) -> float:
    """Until when batch jobs behind a kept-back one may run: narrow ones must not starve it.

    At the limit of a class a batch system passes over jobs and plans nothing for them.
    """
    if not np.isinf(bound) or cluster.limit[LIMITED] > 0.0:
        return bound
    if backfilling == NO_BACKFILLING:
        return -np.inf
    return shadow_of(workload, cluster, job, reserve)[0]


@compiled_borrowing
def _too_long(workload: Workload, cluster: Cluster, job: int, batch_until: float) -> bool:
    """Whether a batch job would still run when the first kept-back one is expected to fit."""
    if workload.interactive[job]:
        return False
    return cluster.clock[NOW] + workload.estimate[job] > batch_until


@compiled_borrowing
def _may_backfill(
    workload: Workload, cluster: Cluster, job: int, shadow: float, spare: int
) -> bool:
    """Whether a job that fits now leaves the head its place (definitions: EASY)."""
    ends_by_then = cluster.clock[NOW] + workload.estimate[job] <= shadow
    return ends_by_then or workload.processors[job] <= spare


@compiled_borrowing
def dispatch_in_order(
    workload: Workload,
    cluster: Cluster,
    order: IntArray,
    count: int,
    backfilling: int,
    reserve: int,
) -> int:
    """Start what can start of the pending jobs in the given order.

    The first job wider than the idle processors is the head, behind which jobs start by
    backfilling only. A batch job that only the reserve keeps back does not stand in the way of
    interactive jobs; batch jobs behind it must end before it is expected to fit.

    Args:
        workload: the jobs.
        cluster: changed in place.
        order: pending job numbers, first to start first.
        count: how many of `order` there are.
        backfilling: NO_BACKFILLING or EASY.
        reserve: processors to keep from batch work, as `reserve_in_force` gave it.

    Returns:
        The number of jobs started.
    """
    counts = cluster.counts
    started = 0
    head = -1
    looked, shadow, spare = False, 0.0, 0
    batch_until = np.inf
    idle = counts[IDLE]
    for place in range(count):
        job = order[place]
        if workload.processors[job] > idle:
            if idle == 0 or (head < 0 and backfilling == NO_BACKFILLING):
                break
            if head < 0:
                head = job
            continue
        if head >= 0 and not looked:  # most often nothing behind the head fits at all
            shadow, spare = shadow_of(workload, cluster, head, reserve)
            looked = True
        if _too_long(workload, cluster, job, batch_until) or (
            head >= 0 and not _may_backfill(workload, cluster, job, shadow, spare)
        ):
            continue
        if kept_back(workload, cluster, job, reserve):
            batch_until = _batch_must_end_by(
                workload, cluster, job, backfilling, reserve, batch_until
            )
            continue
        if head >= 0 and cluster.clock[NOW] + workload.estimate[job] > shadow:
            spare -= workload.processors[job]
        start_job(workload, cluster, job)
        idle = counts[IDLE]
        started += 1
    if started:
        forget_started(cluster)
    return started


@compiled_borrowing
def anything_fits(workload: Workload, cluster: Cluster) -> bool:
    """Whether some pending job is narrow enough for the idle processors."""
    idle = cluster.counts[IDLE]
    for place in range(cluster.counts[PENDING]):
        if workload.processors[cluster.pending[place]] <= idle:
            return True
    return False


@compiled_borrowing
def _best(scores: FloatArray, jobs: IntArray, count: int) -> int:
    """Place of the highest score; ties go to the job submitted first."""
    best = 0
    for place in range(1, count):
        if scores[place] > scores[best] or (
            scores[place] == scores[best] and jobs[place] < jobs[best]
        ):
            best = place
    return best


@compiled_borrowing
def _remove(scores: FloatArray, jobs: IntArray, place: int, count: int) -> int:
    scores[place] = scores[count - 1]
    jobs[place] = jobs[count - 1]
    return count - 1


@compiled_borrowing
def dispatch_by_score(
    workload: Workload,
    cluster: Cluster,
    scores: FloatArray,
    jobs: IntArray,
    backfilling: int,
    reserve: int,
) -> int:
    """Start waiting jobs by falling score, as `dispatch_in_order` does by a given order.

    Few jobs start at one decision, so the best is picked again and again instead of sorting all.

    Args:
        workload: the jobs.
        cluster: changed in place.
        scores: score of each pending job, shape [pending]; used up.
        jobs: the pending job numbers in the order of `scores`; used up.
        backfilling: NO_BACKFILLING or EASY.
        reserve: processors to keep free of batch work.

    Returns:
        The number of jobs started.
    """
    counts = cluster.counts
    count = counts[PENDING]
    started = 0
    head = -1
    batch_until = np.inf
    while count > 0 and counts[IDLE] > 0:
        place = _best(scores, jobs, count)
        job = jobs[place]
        count = _remove(scores, jobs, place, count)
        if workload.processors[job] > counts[IDLE]:
            head = job
            break
        if _too_long(workload, cluster, job, batch_until):
            continue
        if kept_back(workload, cluster, job, reserve):
            batch_until = _batch_must_end_by(
                workload, cluster, job, backfilling, reserve, batch_until
            )
            continue
        start_job(workload, cluster, job)
        started += 1
    if head >= 0 and backfilling == EASY:
        started += _backfill_by_score(
            workload, cluster, scores[:count], jobs, head, reserve, batch_until
        )
    if started:
        forget_started(cluster)
    return started


@compiled_borrowing
def _backfill_by_score(
    workload: Workload,
    cluster: Cluster,
    scores: FloatArray,
    jobs: IntArray,
    head: int,
    reserve: int,
    batch_until: float,
) -> int:
    count = 0
    for place in range(len(scores)):
        if workload.processors[jobs[place]] <= cluster.counts[IDLE]:
            scores[count], jobs[count] = scores[place], jobs[place]
            count += 1
    started = 0
    if count == 0:
        return started
    shadow, spare = shadow_of(workload, cluster, head, reserve)
    while count > 0 and cluster.counts[IDLE] > 0:
        place = _best(scores, jobs, count)
        job = jobs[place]
        count = _remove(scores, jobs, place, count)
        if workload.processors[job] > cluster.counts[IDLE] or _too_long(
            workload, cluster, job, batch_until
        ):
            continue
        in_time = cluster.clock[NOW] + workload.estimate[job] <= shadow
        if not in_time and workload.processors[job] > spare:
            continue
        if kept_back(workload, cluster, job, reserve):
            batch_until = _batch_must_end_by(workload, cluster, job, EASY, reserve, batch_until)
            continue
        if not in_time:
            spare -= workload.processors[job]
        start_job(workload, cluster, job)
        started += 1
    return started
