"""Which pending jobs start now: in order until the first that does not fit, then backfilling."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import Cluster, forget_started, start_job
from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_borrowing
from slurm_rl_plugin.units import FloatArray, IntArray


@compiled
def best_first(scores: FloatArray | IntArray, count: int) -> IntArray:
    """Places of the first `count` scores, none NaN, the best first, equals in order; [count]."""
    return np.argsort(-scores[:count], kind="mergesort")


NO_BACKFILLING, EASY = 0, 1
BACKFILLING = {"none": NO_BACKFILLING, "easy": EASY}


@compiled_borrowing
def processors_needed(cluster: Cluster, job: int, reserve: int) -> int:
    """Idle processors at which a job may start: its own, and for a batch job the reserve.

    Where processors are kept free, a batch job that is too wide to leave the reserve free needs the
    whole machine. Where the batch class is limited to the capacity less the reserve, interactive
    jobs run within the reserve: only the rest of it must be idle, and a job wider than the limit
    needs more processors than there are.
    """
    processors = cluster.jobs[job].processors
    if cluster.jobs[job].interactive:
        return processors
    if cluster.state[0].limited > 0.0:
        return processors + max(reserve - cluster.state[0].running_interactive, 0)
    return min(processors + reserve, cluster.state[0].capacity)


@compiled_borrowing
def shadow_of(cluster: Cluster, head: int, reserve: int) -> tuple[float, int]:
    """When the head job is expected to fit, and the processors it then leaves spare.

    All running jobs expected to end at the same time count as free together; a job that has
    outlived its estimate is taken to end now. A batch job fits when the reserve stays free. A limit
    on the class is ignored, as a batch system plans starts.
    """
    now, needed = cluster.state[0].now, cluster.jobs[head].processors
    if cluster.state[0].limited == 0.0:
        needed = processors_needed(cluster, head, reserve)
    free = cluster.state[0].idle
    shadow = now
    for place in range(cluster.state[0].running):
        expected = max(cluster.running[place].expected_end, now)
        if free >= needed and expected > shadow:
            break
        shadow = expected
        free += cluster.jobs[cluster.running[place].expected_job].processors
    return shadow, free - needed


@compiled_borrowing
def _batch_must_end_by(
    cluster: Cluster, job: int, backfilling: int, reserve: int, bound: float
) -> float:
    """When batch jobs behind a kept-back one must end, since narrow jobs must not starve it.

    At the limit of a class, a batch system passes over jobs and plans nothing for them.
    """
    if not np.isinf(bound) or cluster.state[0].limited > 0.0:
        return bound
    if backfilling == NO_BACKFILLING:
        return -np.inf
    return shadow_of(cluster, job, reserve)[0]


@compiled_borrowing
def _delays(
    cluster: Cluster, job: int, batch_until: float, is_behind: bool, shadow: float, spare: int
) -> bool:
    """Whether a job that fits now delays the head (definitions: EASY) or a kept-back batch job."""
    end = cluster.state[0].now + cluster.jobs[job].estimate
    if end > batch_until and not cluster.jobs[job].interactive:
        return True
    return is_behind and end > shadow and cluster.jobs[job].processors > spare


@compiled_borrowing
def dispatch_in_order(
    cluster: Cluster, order: IntArray, count: int, backfilling: int, reserve: int
) -> int:
    """Start what can start of the pending jobs in the given order; how many.

    The first job wider than the idle processors is the head; jobs behind it start by backfilling
    only. A batch job that only the reserve keeps back does not delay interactive jobs; batch jobs
    behind it must end before it is expected to fit.

    Args:
        order: `count` pending job numbers.
        reserve: processors to keep from batch work, of `reserve_in_force`.
    """
    jobs = cluster.jobs
    state = cluster.state[0]
    started = 0
    head = -1
    looked, shadow, spare = False, 0.0, 0
    batch_until = np.inf
    idle = state.idle
    for place in range(count):
        job = order[place]
        if jobs[job].processors > idle:
            if idle == 0 or (head < 0 and backfilling == NO_BACKFILLING):
                break
            if head < 0:
                head = job
            continue
        if head >= 0 and not looked:  # most often nothing behind the head fits at all
            shadow, spare = shadow_of(cluster, head, reserve)
            looked = True
        if _delays(cluster, job, batch_until, head >= 0, shadow, spare):
            continue
        if processors_needed(cluster, job, reserve) > idle:
            batch_until = _batch_must_end_by(cluster, job, backfilling, reserve, batch_until)
            continue
        if head >= 0 and state.now + jobs[job].estimate > shadow:
            spare -= jobs[job].processors
        start_job(cluster, job)
        idle = state.idle
        started += 1
    if started:
        forget_started(cluster)
    return started


@compiled_borrowing
def anything_fits(cluster: Cluster) -> bool:
    """Whether some pending job is narrow enough for the idle processors."""
    idle = cluster.state[0].idle
    for place in range(cluster.state[0].pending):
        if cluster.jobs[cluster.pending[place]].processors <= idle:
            return True
    return False


@compiled
def dispatch_by_score(
    cluster: Cluster, scores: FloatArray, numbers: IntArray, backfilling: int, reserve: int
) -> int:
    """Start jobs by falling score, as `dispatch_in_order` by an order; how many.

    Of the jobs that do not fit now, only the first delays others. `scores`, of `numbers`, the
    pending jobs, are used up.
    """
    state = cluster.state[0]
    head, kept = -1, 0
    for place in range(state.pending):
        too_wide = cluster.jobs[numbers[place]].processors > state.idle
        if too_wide and (head < 0 or scores[place] > scores[head]):
            head = place
    for place in range(state.pending):
        if place == head or cluster.jobs[numbers[place]].processors <= state.idle:
            scores[kept], numbers[kept] = scores[place], numbers[place]
            kept += 1
    order = best_first(scores, kept)
    for place in range(kept):
        order[place] = numbers[order[place]]
    return dispatch_in_order(cluster, order, kept, backfilling, reserve)
