"""A simulation that begins in the middle: jobs run already, others wait."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import (
    NOW,
    Cluster,
    advance,
    arrive,
    decision_time,
    forget_started,
    next_event,
    start_job,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import OrderedQueue, decide_scored
from slurm_rl_plugin.units import FloatArray, IntArray


@compiled
def resume(
    workload: Workload, cluster: Cluster, now: float, running: IntArray, start: FloatArray
) -> None:
    """Bring an empty cluster to an instant: who came before it waits, unless he runs.

    Args:
        workload: the jobs; `run_time` of the running ones is all that they will have run.
        cluster: as `empty_cluster` makes it; changed in place. Usage is the caller's.
        now: seconds.
        running: jobs that run, in the order of their starts.
        start: when each of them started, seconds, at most `now`.
    """
    no_rank = np.empty(0, dtype=np.int64)
    came = np.searchsorted(workload.submit, now, side="right")
    for _ in range(came):
        arrive(workload, cluster, no_rank)
    for place in range(len(running)):
        cluster.clock[NOW] = start[place]
        start_job(workload, cluster, running[place])
    forget_started(cluster)
    cluster.clock[NOW] = now
    cluster.usage_time[0] = now


@compiled
def run_until_started(
    workload: Workload, cluster: Cluster, queue: OrderedQueue, awaited: IntArray, until: float
) -> None:
    """Decide at once, then let everything happen until all awaited jobs have started.

    Args:
        workload: the jobs.
        cluster: changed in place.
        queue: how decisions are made; changed in place.
        awaited: jobs, shape [m].
        until: seconds; what has not started by then has NaN as its start.
    """
    no_rank = np.empty(0, dtype=np.int64)
    left = 0
    decide_scored(workload, cluster, queue)
    while left < len(awaited):
        if not np.isnan(cluster.start[awaited[left]]):
            left += 1
            continue
        event = next_event(workload, cluster)
        if np.isinf(event) or event > until:
            return
        advance(workload, cluster, decision_time(event, queue.cycle), no_rank)
        decide_scored(workload, cluster, queue)
