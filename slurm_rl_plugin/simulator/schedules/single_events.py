"""Each arrival and each end decided on by itself, where several fall on one instant.

The kernel lets all that happens at an instant happen before it decides. Other simulators decide
after each event, on which schedules of long logs depend: at one instant the arrivals come first, in
turn, then the ends, who started first. What was planned to end at the instant counts as free from
its first event on.
"""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import (
    NEXT_ARRIVAL,
    NOW,
    PENDING,
    RUNNING,
    Cluster,
    account_usage_until,
    arrive,
    end_next_job,
    next_event,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled
from slurm_rl_plugin.simulator.kernel.plan import ends_as_planned
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import OrderedQueue, decide_scored


@compiled
def run_singly(workload: Workload, cluster: Cluster, queue: OrderedQueue) -> None:
    """Let everything happen, with a decision after each event; no cycle and no class limit.

    Args:
        workload: the jobs.
        cluster: changed in place.
        queue: how decisions are made.
    """
    no_rank = np.empty(0, dtype=np.int64)
    while True:
        time = next_event(workload, cluster)
        if np.isinf(time):
            return
        account_usage_until(cluster, time)
        cluster.clock[NOW] = time
        arrival = cluster.counts[NEXT_ARRIVAL]
        if arrival < len(workload.submit) and workload.submit[arrival] <= time:
            arrive(workload, cluster, no_rank)
        else:
            _end(workload, cluster, _first_ending(workload, cluster, queue, False))
        place = _first_ending(workload, cluster, queue, True)
        while place >= 0:
            _end(workload, cluster, place)
            place = _first_ending(workload, cluster, queue, True)
        if cluster.counts[PENDING] > 0:
            decide_scored(workload, cluster, queue)


@compiled
def _first_ending(
    workload: Workload, cluster: Cluster, queue: OrderedQueue, as_planned: bool
) -> int:
    """Place in the heap of the job that started first of those that end now; -1 for none."""
    first, running = -1, cluster.counts[RUNNING]
    if running == 0 or cluster.end_time[0] > cluster.clock[NOW]:
        return first
    for place in range(running):
        job = cluster.end_job[place]
        if cluster.end_time[place] > cluster.clock[NOW]:
            continue
        if as_planned and not ends_as_planned(workload, cluster, queue.planned.plan, job):
            continue
        best = cluster.end_job[first] if first >= 0 else job
        if (cluster.start[job], job) <= (cluster.start[best], best):
            first = place
    return first


@compiled
def _end(workload: Workload, cluster: Cluster, place: int) -> None:
    """End the job at a place of the heap whose end is as early as that of the root."""
    times, jobs = cluster.end_time, cluster.end_job
    times[0], times[place] = times[place], times[0]
    jobs[0], jobs[place] = jobs[place], jobs[0]
    end_next_job(workload, cluster)
