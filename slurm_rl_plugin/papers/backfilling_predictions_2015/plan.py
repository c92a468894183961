"""What EASY backfilling plans with: other run times than those at which jobs are killed.

A *plan estimate* is what the plan assumes of a job. Pending-only: a candidate counts by its
estimate and a running job by its request. Consistent: both count by the estimate. Pending-only lets
a candidate run in the hole before the head that its request does not fit, so the head has a
promise: no such candidate may outlive the promise, even at its own limit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.papers.backfilling_predictions_2015.published_cells import (
    DOUBLED,
    REQUESTED,
    STEPPED,
)
from slurm_rl_plugin.simulator.kernel.cluster import IDLE, NOW, RUNNING, Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.simulator.kernel.dispatch import shadow_of
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.units import HOUR, MINUTE, FloatArray

#: Codes of what the plan assumes.
PENDING_ONLY, CONSISTENT = 0, 1
_DOUBLED, _REQUESTED, _STEPPED = 0, 1, 2
#: Codes of what becomes of the estimate that a running job has outlived, again and again: it is
#: doubled, also beyond the request; it is the request; or its first value and one of _STEPS, up to
#: the request.
CORRECTIONS = {DOUBLED: _DOUBLED, REQUESTED: _REQUESTED, STEPPED: _STEPPED}
_LONGER = 2.0
#: Seconds that are added to the first estimate, one in place of the other (Tsafrir, Etsion,
#: Feitelson 2007).
_STEPS = np.array(
    [MINUTE * each for each in (1, 5, 15, 30)]
    + [HOUR * each for each in (1, 2, 5, 10, 20, 50, 100)]
)


class Plan(NamedTuple):
    """Plan estimates, and the promises to heads.

    Attributes:
        kind: PENDING_ONLY or CONSISTENT.
        correction: of an estimate that a running job has outlived, for CONSISTENT.
        seconds: the plan's estimate of each job, shape [n]; inf for its request.
        promise: start of each job by the requests of running jobs, when it first became head; NaN
            until then, shape [n].
        slack: seconds by which a candidate may push the head beyond its promise, shape [1].
        ends: space for the planned end of each running job.
    """

    kind: int
    correction: int
    seconds: FloatArray
    promise: FloatArray
    slack: FloatArray
    ends: FloatArray


@compiled_borrowing
def _corrected(seconds: float, age: float, request: float, correction: int) -> float:
    """The estimate of a job that still runs after `age` seconds."""
    most = np.inf if correction == _DOUBLED else request
    first, step = seconds, 0
    while seconds <= age and seconds < most:
        if correction == _DOUBLED:
            seconds *= _LONGER
        elif correction == _STEPPED and step < len(_STEPS):
            seconds = first + _STEPS[step]
        else:
            seconds = request
        step += 1
    return min(seconds, most)


@compiled_borrowing
def _fill_ends(workload: Workload, cluster: Cluster, plan: Plan) -> None:
    """Fill when running jobs are planned to end; an estimate that is outlived is corrected."""
    now = cluster.clock[NOW]
    for place in range(cluster.counts[RUNNING]):
        job = cluster.expected_job[place]
        age, seconds = now - cluster.start[job], max(plan.seconds[job], 1.0)
        seconds = _corrected(seconds, age, workload.estimate[job], plan.correction)
        plan.ends[place] = max(cluster.start[job] + seconds, now)


@compiled_borrowing
def _consistent_shadow(
    workload: Workload, cluster: Cluster, plan: Plan, head: int
) -> tuple[float, int]:
    """As `shadow_of`, running jobs by their plan estimates."""
    running, ends = cluster.counts[RUNNING], plan.ends
    _fill_ends(workload, cluster, plan)
    needed = workload.processors[head]
    free, shadow = cluster.counts[IDLE], cluster.clock[NOW]
    while True:
        first = -1
        for place in range(running):
            if not np.isinf(ends[place]) and (first < 0 or ends[place] < ends[first]):
                first = place
        if first < 0 or (free >= needed and ends[first] > shadow):
            return shadow, free - needed
        shadow = ends[first]
        free += workload.processors[cluster.expected_job[first]]
        ends[first] = np.inf


@compiled_borrowing
def head_shadow(workload: Workload, cluster: Cluster, plan: Plan, head: int) -> tuple[float, int]:
    """`shadow_of` the head as the plan sees it; notes what is promised to the head."""
    if plan.kind == CONSISTENT:
        return _consistent_shadow(workload, cluster, plan, head)
    shadow, spare = shadow_of(workload, cluster, head, 0)
    if np.isnan(plan.promise[head]):
        plan.promise[head] = shadow
    return shadow, spare


@compiled_borrowing
def ends_in_time(
    workload: Workload, cluster: Cluster, plan: Plan, job: int, head: int, shadow: float
) -> bool:
    """Whether a candidate that starts now is planned to end before the head's start."""
    now = cluster.clock[NOW]
    at_limit = now + workload.estimate[job]
    planned = now + min(plan.seconds[job], workload.estimate[job]) <= shadow
    if plan.kind == CONSISTENT:
        return planned
    return at_limit <= shadow or (planned and at_limit <= plan.promise[head] + plan.slack[0])


@compiled_borrowing
def ends_as_planned(workload: Workload, cluster: Cluster, plan: Plan, job: int) -> bool:
    """Whether the plan expected a job that ends now to end by now."""
    request, age = workload.estimate[job], cluster.clock[NOW] - cluster.start[job]
    if plan.kind != CONSISTENT:
        return request <= age
    just_before = np.nextafter(age, 0.0)  # a job does not outlive an estimate by ending
    seconds = max(plan.seconds[job], 1.0)
    return _corrected(seconds, just_before, request, plan.correction) <= age
