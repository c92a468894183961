"""What EASY backfilling plans with: other run times than those at which jobs are killed.

A *plan estimate* is what the plan assumes of a job. Pending-only: a candidate counts by its
estimate and a running job by its request; consistent: both by the estimate. Pending-only lets a
candidate run in the hole before the head that its request does not fit, so the head has a promise:
no such candidate may outlive it, even at its own limit (docs/definitions.md, "Plan estimate").
"""

# ruff: noqa: ARG001 - what stands in for a function takes all of its arguments
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.simulator.kernel.chosen_by_type import chosen_by_type
from slurm_rl_plugin.simulator.kernel.cluster import IDLE, NOW, RUNNING, Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.simulator.kernel.processors import processors_planned
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.units import HOUR, MINUTE, FloatArray

#: Codes of what the plan assumes; by name what `--plan` takes.
PENDING_ONLY, CONSISTENT = 1, 2
#: What becomes of the estimate that a running job has outlived, again and again: it is doubled, up
#: to the request or beyond it, is the request, or its first value and one of _STEPS, up to the
#: request; by name what `PlanRule` takes.
DOUBLED, DOUBLED_BEYOND, REQUESTED, STEPPED = 0, 1, 2, 3
_LONGER = 2.0
#: Seconds that are added to the first estimate, one in place of the other (Tsafrir, Etsion,
#: Feitelson 2007).
_STEPS = np.array(
    [MINUTE * each for each in (1, 5, 15, 30)]
    + [HOUR * each for each in (1, 2, 5, 10, 20, 50, 100)]
)


class ByRequest(NamedTuple):
    """The plan knows requests alone: a type of its own, so that the loop for it carries nothing."""

    kind: int


BY_REQUEST = ByRequest(kind=0)


class Plan(NamedTuple):
    """Plan estimates, and what was promised to heads.

    Attributes:
        kind: PENDING_ONLY or CONSISTENT.
        correction: of an estimate that a running job has outlived, as CONSISTENT plans.
        seconds: the plan's estimate of each job, shape [n].
        promise: when each job was to start, running jobs by their requests, as it became head
            first; NaN until then, shape [n].
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
def shadow_of(workload: Workload, cluster: Cluster, head: int, reserve: int) -> tuple[float, int]:
    """When the head job is expected to fit, and the processors it then leaves spare.

    All running jobs expected to end at the same time count as free together; a job that has
    outlived its estimate is taken to end now. A batch job fits when the reserve stays free.
    """
    now = cluster.clock[NOW]
    needed = processors_planned(workload, cluster, head, reserve)
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
def _corrected(seconds: float, age: float, request: float, correction: int) -> float:
    """The estimate of a job that still runs after `age` seconds."""
    most = np.inf if correction == DOUBLED_BEYOND else request
    first, step = seconds, 0
    while seconds <= age and seconds < most:
        if correction in (DOUBLED, DOUBLED_BEYOND):
            seconds *= _LONGER
        elif correction == STEPPED and step < len(_STEPS):
            seconds = first + _STEPS[step]
        else:
            seconds = request
        step += 1
    return min(seconds, most)


@compiled_borrowing
def _fill_ends(workload: Workload, cluster: Cluster, plan: Plan) -> None:
    """When running jobs are planned to end; who outlives an estimate gets a longer one."""
    now = cluster.clock[NOW]
    for place in range(cluster.counts[RUNNING]):
        job = cluster.expected_job[place]
        age, seconds = now - cluster.start[job], max(plan.seconds[job], 1.0)
        seconds = _corrected(seconds, age, workload.estimate[job], plan.correction)
        plan.ends[place] = max(cluster.start[job] + seconds, now)


@compiled_borrowing
def _consistent_shadow(
    workload: Workload, cluster: Cluster, plan: Plan, head: int, reserve: int
) -> tuple[float, int]:
    """As `shadow_of`, running jobs by their plan estimates."""
    running, ends = cluster.counts[RUNNING], plan.ends
    _fill_ends(workload, cluster, plan)
    needed = processors_planned(workload, cluster, head, reserve)
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


def _planned_shadow(
    workload: Workload, cluster: Cluster, plan: Plan, head: int, reserve: int
) -> tuple[float, int]:
    if plan.kind == CONSISTENT:
        return _consistent_shadow(workload, cluster, plan, head, reserve)
    shadow, spare = shadow_of(workload, cluster, head, reserve)
    if np.isnan(plan.promise[head]):
        plan.promise[head] = shadow
    return shadow, spare


@chosen_by_type("plan", {Plan: _planned_shadow})
def head_shadow(
    workload: Workload, cluster: Cluster, plan: Plan | ByRequest, head: int, reserve: int
) -> tuple[float, int]:
    """`shadow_of` the head as the plan sees it; a plan notes what is promised to it."""
    return shadow_of(workload, cluster, head, reserve)


def _planned_to_end(
    workload: Workload, cluster: Cluster, plan: Plan, job: int, head: int, shadow: float
) -> bool:
    now = cluster.clock[NOW]
    at_limit = now + workload.estimate[job]
    planned = now + min(plan.seconds[job], workload.estimate[job]) <= shadow
    if plan.kind == CONSISTENT:
        return planned
    return at_limit <= shadow or (planned and at_limit <= plan.promise[head] + plan.slack[0])


@chosen_by_type("plan", {Plan: _planned_to_end})
def ends_in_time(
    workload: Workload,
    cluster: Cluster,
    plan: Plan | ByRequest,
    job: int,
    head: int,
    shadow: float,
) -> bool:
    """Whether a candidate that starts now is planned to end before the head's start."""
    return cluster.clock[NOW] + workload.estimate[job] <= shadow


def _ended_as_planned(workload: Workload, cluster: Cluster, plan: Plan, job: int) -> bool:
    request, age = workload.estimate[job], cluster.clock[NOW] - cluster.start[job]
    if plan.kind != CONSISTENT:
        return request <= age
    just_before = np.nextafter(age, 0.0)  # nobody outlives an estimate by ending
    seconds = max(plan.seconds[job], 1.0)
    return _corrected(seconds, just_before, request, plan.correction) <= age


@chosen_by_type("plan", {Plan: _ended_as_planned})
def ends_as_planned(workload: Workload, cluster: Cluster, plan: Plan | ByRequest, job: int) -> bool:
    """Whether the plan expected a job that ends now to end by now."""
    return cluster.start[job] + workload.estimate[job] <= cluster.clock[NOW]
