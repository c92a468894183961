"""Conservative backfilling: every pending job has a place in the future that none may take."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import (
    IDLE,
    LIMITED,
    NOW,
    RUNNING,
    Cluster,
    forget_started,
    start_job,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled
from slurm_rl_plugin.simulator.kernel.processors import processors_needed, processors_planned
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.units import FloatArray, IntArray


@compiled
def _profile(workload: Workload, cluster: Cluster, places: int) -> tuple[FloatArray, IntArray, int]:
    """Free processors from now on, as running jobs are expected to end.

    Point 0 is what is idle now. A job that has outlived its estimate is taken to end now, at a
    point of its own: it counts for the plan, but nothing can start on its processors yet.

    Returns:
        Times and free processors of `places` points, and how many are in use.
    """
    times, free = np.empty(places), np.empty(places, dtype=np.int64)
    times[0], free[0] = cluster.clock[NOW], cluster.counts[IDLE]
    points = 1
    for place in range(cluster.counts[RUNNING]):
        expected = max(cluster.expected_end[place], times[0])
        processors = workload.processors[cluster.expected_job[place]]
        if points > 1 and times[points - 1] == expected:
            free[points - 1] += processors
        else:
            times[points], free[points] = expected, free[points - 1] + processors
            points += 1
    return times, free, points


@compiled
def _earliest(times: FloatArray, free: IntArray, points: int, needed: int, duration: float) -> int:
    """The first point from which `needed` processors stay free for `duration` seconds."""
    start = 0
    while start < points - 1:  # from the last point on everything is free
        end = times[start] + duration
        place = start
        while place < points and times[place] < end and free[place] >= needed:
            place += 1
        if place == points or times[place] >= end:
            return start
        start = place + 1
    return start


@compiled
def _take(
    times: FloatArray, free: IntArray, points: int, start: int, processors: int, duration: float
) -> int:
    """Take processors out of the profile from a point on; returns how many points there are."""
    end = times[start] + duration
    last = start
    while last < points and times[last] < end:
        last += 1
    if last == points or times[last] > end:
        for place in range(points, last, -1):
            times[place], free[place] = times[place - 1], free[place - 1]
        times[last], free[last] = end, free[last - 1]
        points += 1
    for place in range(start, last):
        free[place] -= processors
    return points


@compiled
def _passed_over(workload: Workload, cluster: Cluster, job: int, reserve: int) -> bool:
    """Whether a job that fits is at the limit of its class, for which nothing is planned."""
    idle = cluster.counts[IDLE]
    if cluster.limit[LIMITED] == 0.0 or workload.processors[job] > idle:
        return False
    return processors_needed(workload, cluster, job, reserve) > idle


@compiled
def dispatch_conservatively(
    workload: Workload, cluster: Cluster, order: IntArray, reserve: int
) -> int:
    """Give each pending job, in order, its earliest place in the plan; start those at now.

    The plan is made anew at each decision, so jobs move forward when others end early.

    Args:
        workload: the jobs.
        cluster: changed in place.
        order: pending job numbers, first to start first.
        reserve: processors to keep free of batch work.

    Returns:
        The number of jobs started.
    """
    places = cluster.counts[RUNNING] + 2 * len(order) + 2
    times, free, points = _profile(workload, cluster, places)
    started = 0
    for job in order:
        if cluster.counts[IDLE] == 0:
            break  # whatever the plan says of the others, they do not start now
        processors, duration = workload.processors[job], workload.estimate[job]
        if _passed_over(workload, cluster, job, reserve):
            continue
        needed = processors_planned(workload, cluster, job, reserve)
        start = _earliest(times, free, points, needed, duration)
        points = _take(times, free, points, start, processors, duration)
        if start == 0:
            start_job(workload, cluster, job)
            started += 1
    if started:
        forget_started(cluster)
    return started
