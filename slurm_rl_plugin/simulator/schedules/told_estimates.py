"""What our hook tells backfill of pending jobs: estimates that every head's promise bounds.

As the live hook chooses them (`hook.plan`): processors are counted, and running jobs end at their
limits. A pass plans a job by what it was told of it; the job is killed at its limit only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.simulator.kernel.chosen_by_type import chosen_by_type
from slurm_rl_plugin.simulator.kernel.cluster import IDLE, NOW, PENDING, RUNNING, Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.nodes.group_limits import GroupLimits, within_limits
from slurm_rl_plugin.simulator.scoring.plan_estimates import (
    PlannedQueue,
    bring_site_up_to_now,
    foretold,
)
from slurm_rl_plugin.units import MINUTE, FloatArray, IntArray

#: Seconds in which a job that fits is taken to start by itself.
_ABOUT_TO_START = MINUTE
#: Slurm's TimeMin is told in whole minutes.
_GRAIN = MINUTE
_NONE = -1


class ToldEstimates(NamedTuple):
    """Estimates, and space to choose who is told of.

    Attributes:
        planned: what makes the estimates, and what heads were promised.
        seconds: what backfill is told of each job, inf for nothing, shape [n].
        partition: of each job, shape [n].
        delay: seconds until the scheduler may act on what is told.
        heads: job that holds each partition's reservation, -1 for none, shape [partitions].
        start: when it fits if every job runs to its limit, seconds, the same.
        spare: processors that it then leaves to all who are told of, the same.
        ends: space for when jobs that are about to start end, in rising order, shape [n].
        wide: their processors.
    """

    planned: PlannedQueue
    seconds: FloatArray
    partition: IntArray
    delay: float
    heads: IntArray
    start: FloatArray
    spare: IntArray
    ends: FloatArray
    wide: IntArray


class NothingTold(NamedTuple):
    """Backfill plans by limits alone: a type of its own, so that its loop carries nothing."""

    seconds: FloatArray


def told_estimates(planned: PlannedQueue, partition: IntArray, delay: float) -> ToldEstimates:
    """Before the first pass; `partition` is of each job, `delay` in seconds."""
    jobs, partitions = len(partition), int(partition.max(initial=0)) + 1
    return ToldEstimates(
        planned=planned,
        seconds=np.full(jobs, np.inf),
        partition=partition,
        delay=delay,
        heads=np.full(partitions, _NONE),
        start=np.zeros(partitions),
        spare=np.zeros(partitions, dtype=np.int64),
        ends=np.zeros(jobs),
        wide=np.zeros(jobs, dtype=np.int64),
    )


def nothing_told() -> NothingTold:
    """Of no job."""
    return NothingTold(seconds=np.empty(0))


@compiled_borrowing
def _will_start(told: ToldEstimates, many: int, end: float, wide: int) -> None:
    """Put a job among the `many` that are about to start."""
    place = many
    while place > 0 and told.ends[place - 1] > end:
        told.ends[place], told.wide[place] = told.ends[place - 1], told.wide[place - 1]
        place -= 1
    told.ends[place], told.wide[place] = end, wide


@compiled_borrowing
def _start_of(
    workload: Workload, cluster: Cluster, told: ToldEstimates, many: int, wide: int, free: int
) -> tuple[float, int]:
    """When so many processors are free, and how many are left then; inf where never."""
    now, running, next_run, next_told = cluster.clock[NOW], cluster.counts[RUNNING], 0, 0
    start = now
    while next_run < running or next_told < many:
        of_running = next_told == many or (
            next_run < running and cluster.expected_end[next_run] <= told.ends[next_told]
        )
        end = cluster.expected_end[next_run] if of_running else told.ends[next_told]
        end = max(end, now)
        if free >= wide and end > start:
            break
        start = end
        if of_running:
            free += workload.processors[cluster.expected_job[next_run]]
            next_run += 1
        else:
            free += told.wide[next_told]
            next_told += 1
    return (start, free - wide) if free >= wide else (np.inf, 0)


@compiled_borrowing
def _find_heads(
    workload: Workload,
    cluster: Cluster,
    limits: GroupLimits,
    told: ToldEstimates,
    order: IntArray,
    count: int,
) -> int:
    """Fill the heads and note what they are promised; processors that nobody is about to take."""
    now, free, many = cluster.clock[NOW], cluster.counts[IDLE], 0
    for partition in range(len(told.heads)):
        told.heads[partition] = _NONE
    for place in range(count):
        job = order[place]
        partition, wide = told.partition[job], workload.processors[job]
        if told.heads[partition] != _NONE or not within_limits(limits, job):
            continue
        if wide <= free and now - workload.submit[job] < _ABOUT_TO_START:
            free -= wide
            _will_start(told, many, now + workload.estimate[job], wide)
            many += 1
            continue
        start, spare = _start_of(workload, cluster, told, many, wide, free)
        told.heads[partition], told.start[partition], told.spare[partition] = job, start, spare
        promise = told.planned.plan.promise
        if np.isnan(promise[job]) and now < start < np.inf:
            promise[job] = start  # the first one counts
    return int(free)


@compiled_borrowing
def _helps(cluster: Cluster, told: ToldEstimates, wide: int, limit: float, seconds: float) -> bool:
    """Whether an estimate lets a job start that its limit keeps waiting, within every promise."""
    acts, needed, plan = cluster.clock[NOW] + told.delay, False, told.planned.plan
    for partition in range(len(told.heads)):
        head, start = told.heads[partition], told.start[partition]
        if head == _NONE or wide <= told.spare[partition] or acts + limit <= start:
            continue
        # without a promise the comparison is false, and nobody is told of
        bounded = acts + limit <= plan.promise[head] + plan.slack[0]
        if acts + seconds > start or not bounded:
            return False
        needed = True
    return needed


@compiled_borrowing
def _take_room(cluster: Cluster, told: ToldEstimates, wide: int, limit: float) -> None:
    """Count a job that is told of: where it may outlast a head's start it needs its room."""
    acts = cluster.clock[NOW] + told.delay
    for partition in range(len(told.heads)):
        outlasts = told.heads[partition] != _NONE and acts + limit > told.start[partition]
        if outlasts and wide <= told.spare[partition]:
            told.spare[partition] -= wide


@compiled_borrowing
def _longest_wait(workload: Workload, cluster: Cluster, limits: GroupLimits) -> float:
    """Of the jobs that wait for the machine and for no limit, seconds."""
    for place in range(cluster.counts[PENDING]):
        if within_limits(limits, cluster.pending[place]):
            return float(cluster.clock[NOW] - workload.submit[cluster.pending[place]])
    return 0.0


@compiled_borrowing
def _choose(
    workload: Workload,
    cluster: Cluster,
    limits: GroupLimits,
    told: ToldEstimates,
    order: IntArray,
    count: int,
) -> None:
    """Tell of those of the first `count` of an order whose effect every promise bounds."""
    bring_site_up_to_now(workload, cluster, told.planned, _longest_wait(workload, cluster, limits))
    free = _find_heads(workload, cluster, limits, told, order, count)
    for place in range(count):
        job = order[place]
        told.seconds[job] = np.inf
        limit, wide = workload.estimate[job], workload.processors[job]
        is_head = told.heads[told.partition[job]] == job
        if is_head or wide > free or not 0.0 < limit < np.inf or not within_limits(limits, job):
            continue
        seconds = _GRAIN * np.ceil(foretold(workload, told.planned, job) / _GRAIN)
        if seconds + _GRAIN <= limit and _helps(cluster, told, wide, limit, seconds):
            told.seconds[job] = seconds
            _take_room(cluster, told, wide, limit)


def _tell_estimates(
    workload: Workload,
    cluster: Cluster,
    limits: GroupLimits,
    told: ToldEstimates,
    order: IntArray,
    count: int,
) -> None:
    _choose(workload, cluster, limits, told, order, count)


@chosen_by_type("told", {ToldEstimates: _tell_estimates})
def tell(
    workload: Workload,
    cluster: Cluster,
    limits: GroupLimits,
    told: ToldEstimates | NothingTold,
    order: IntArray,
    count: int,
) -> None:
    """Say anew what backfill is to plan the first `count` jobs of an order with, if anybody does.

    Args:
        workload: the jobs; `estimate` is their time limit.
        cluster: read only.
        limits: of groups; who is over one waits for no processors.
        told: changed in place.
        order: job numbers by priority.
        count: how many there are.
    """
