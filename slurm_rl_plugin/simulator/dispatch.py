"""Which pending jobs start now: in order until the first that does not fit, then backfilling."""

from __future__ import annotations

from slurm_rl_plugin.simulator.cluster import (
    IDLE,
    NOW,
    PENDING,
    RUNNING,
    Cluster,
    Workload,
    forget_started,
    start_job,
)
from slurm_rl_plugin.simulator.compilation import compiled
from slurm_rl_plugin.units import FloatArray, IntArray

NO_BACKFILLING, EASY = 0, 1
BACKFILLING = {"none": NO_BACKFILLING, "easy": EASY}


@compiled
def kept_back(workload: Workload, cluster: Cluster, job: int, reserve: int) -> bool:
    """A batch job may start only if `reserve` processors stay free after it."""
    return (
        reserve > 0
        and not workload.interactive[job]
        and cluster.counts[IDLE] - workload.processors[job] < reserve
    )


@compiled
def shadow_of(workload: Workload, cluster: Cluster, head: int) -> tuple[float, int]:
    """When the head job is expected to fit, and the processors it then leaves spare.

    All running jobs expected to end at the same time count as free together; a job that has
    outlived its estimate is taken to end now.
    """
    now = cluster.clock[NOW]
    needed = workload.processors[head]
    free = cluster.counts[IDLE]
    shadow = now
    for place in range(cluster.counts[RUNNING]):
        expected = max(cluster.expected_end[place], now)
        if free >= needed and expected > shadow:
            break
        shadow = expected
        free += workload.processors[cluster.expected_job[place]]
    return shadow, free - needed


@compiled
def _may_backfill(
    workload: Workload, cluster: Cluster, job: int, shadow: float, spare: int
) -> bool:
    if workload.processors[job] > cluster.counts[IDLE]:
        return False
    ends_in_time = cluster.clock[NOW] + workload.estimate[job] <= shadow
    return ends_in_time or workload.processors[job] <= spare


@compiled
def dispatch_in_order(
    workload: Workload, cluster: Cluster, order: IntArray, backfilling: int, reserve: int
) -> int:
    """Start what can start of the pending jobs in the given order.

    A batch job kept back by the reserve is passed over, as a limit on its class would do; any
    other job that does not fit is the head, behind which jobs start by backfilling only.

    Args:
        workload: the jobs.
        cluster: changed in place.
        order: pending job numbers, first to start first.
        backfilling: NO_BACKFILLING or EASY.
        reserve: processors to keep free of batch work.

    Returns:
        The number of jobs started.
    """
    counts = cluster.counts
    started = 0
    head = -1
    shadow, spare = 0.0, 0
    for job in order:
        if counts[IDLE] == 0:
            break
        if kept_back(workload, cluster, job, reserve):
            continue
        if head < 0:
            if workload.processors[job] > counts[IDLE]:
                if backfilling == NO_BACKFILLING:
                    break
                head = job
                shadow, spare = shadow_of(workload, cluster, head)
                continue
        elif not _may_backfill(workload, cluster, job, shadow, spare):
            continue
        if head >= 0 and cluster.clock[NOW] + workload.estimate[job] > shadow:
            spare -= workload.processors[job]
        start_job(workload, cluster, job)
        started += 1
    if started:
        forget_started(cluster)
    return started


@compiled
def _best(scores: FloatArray, jobs: IntArray, count: int) -> int:
    """Place of the highest score; ties go to the job submitted first."""
    best = 0
    for place in range(1, count):
        if scores[place] > scores[best] or (
            scores[place] == scores[best] and jobs[place] < jobs[best]
        ):
            best = place
    return best


@compiled
def _remove(scores: FloatArray, jobs: IntArray, place: int, count: int) -> int:
    scores[place] = scores[count - 1]
    jobs[place] = jobs[count - 1]
    return count - 1


@compiled
def dispatch_by_score(
    workload: Workload,
    cluster: Cluster,
    scores: FloatArray,
    jobs: IntArray,
    backfilling: int,
    reserve: int,
) -> int:
    """As `dispatch_in_order`, for scores that were computed just now.

    Few jobs start at one decision, so the best is picked again and again instead of sorting all.

    Args:
        workload: the jobs.
        cluster: changed in place.
        scores: score of each pending job, shape [pending]; used up.
        jobs: the pending job numbers in the order of `scores`; used up.
        backfilling: NO_BACKFILLING or EASY.
        reserve: processors to keep free of batch work.
    """
    counts = cluster.counts
    count = counts[PENDING]
    started = 0
    head = -1
    while count > 0 and counts[IDLE] > 0:
        place = _best(scores, jobs, count)
        job = jobs[place]
        count = _remove(scores, jobs, place, count)
        if kept_back(workload, cluster, job, reserve):
            continue
        if workload.processors[job] > counts[IDLE]:
            head = job
            break
        start_job(workload, cluster, job)
        started += 1
    if head >= 0 and backfilling == EASY:
        started += _backfill_by_score(workload, cluster, scores[:count], jobs, head, reserve)
    if started:
        forget_started(cluster)
    return started


@compiled
def _backfill_by_score(
    workload: Workload,
    cluster: Cluster,
    scores: FloatArray,
    jobs: IntArray,
    head: int,
    reserve: int,
) -> int:
    shadow, spare = shadow_of(workload, cluster, head)
    count = 0
    for place in range(len(scores)):
        if _may_backfill(workload, cluster, jobs[place], shadow, spare):
            scores[count], jobs[count] = scores[place], jobs[place]
            count += 1
    started = 0
    while count > 0 and cluster.counts[IDLE] > 0:
        place = _best(scores, jobs, count)
        job = jobs[place]
        count = _remove(scores, jobs, place, count)
        if kept_back(workload, cluster, job, reserve):
            continue
        if not _may_backfill(workload, cluster, job, shadow, spare):
            continue
        if cluster.clock[NOW] + workload.estimate[job] > shadow:
            spare -= workload.processors[job]
        start_job(workload, cluster, job)
        started += 1
    return started
