"""The queue features of the `site` schema, from the simulated cluster inside the compiled loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from slurm_rl_plugin.features.history.run_events import ARRIVAL_MEMORY, FADING_TIMES
from slurm_rl_plugin.features.site import SOON
from slurm_rl_plugin.simulator.kernel.cluster import (
    IDLE,
    NEXT_ARRIVAL,
    NOW,
    PENDING,
    PENDING_INTERACTIVE,
    PENDING_WORK,
    RUNNING,
    RUNNING_INTERACTIVE,
    Cluster,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled
from slurm_rl_plugin.simulator.kernel.compiled_features import (
    fairness,
    queue_features,
    reserve_features,
)
from slurm_rl_plugin.simulator.kernel.workload import Workload, size_of
from slurm_rl_plugin.units import FloatArray


def no_arrivals(workload: Workload) -> FloatArray:
    """Counters before the first arrival: [time, a count for each FADING_TIMES, arrivals seen]."""
    first = float(workload.submit[0]) if len(workload.submit) else 0.0
    return np.concatenate([[first], np.zeros(ARRIVAL_MEMORY)])


@compiled
def _count_arrivals(workload: Workload, cluster: Cluster, arrived: FloatArray) -> None:
    """Bring the faded counts of interactive submissions up to now (`recent_arrivals`)."""
    now, came = cluster.clock[NOW], cluster.counts[NEXT_ARRIVAL]
    for place in range(len(FADING_TIMES)):
        arrived[1 + place] *= np.exp(-(now - arrived[0]) / FADING_TIMES[place])
    arrived[0] = now
    for job in range(int(arrived[-1]), came):
        if workload.interactive[job]:
            for place in range(len(FADING_TIMES)):
                age = now - workload.submit[job]
                arrived[1 + place] += np.exp(-age / FADING_TIMES[place])
    arrived[-1] = came


@compiled
def next_release(cluster: Cluster) -> float:
    """Seconds until the next running job is expected to end; 0 if none runs."""
    if cluster.counts[RUNNING] == 0:
        return 0.0
    return max(cluster.expected_end[0] - cluster.clock[NOW], 0.0)


@compiled
def _released_soon(workload: Workload, cluster: Cluster) -> int:
    """Processors whose job is expected to end within SOON seconds, or should have ended."""
    until = cluster.clock[NOW] + SOON
    processors = 0
    for place in range(cluster.counts[RUNNING]):
        if cluster.expected_end[place] > until:
            break
        processors += workload.processors[cluster.expected_job[place]]
    return processors


@compiled
def _shortest_batch(workload: Workload, cluster: Cluster) -> float:
    """Shortest estimated run time of a waiting batch job, seconds; 0 if none waits."""
    shortest = np.inf
    for place in range(cluster.counts[PENDING]):
        job = cluster.pending[place]
        if not workload.interactive[job]:
            shortest = min(shortest, workload.estimate[job])
    return 0.0 if np.isinf(shortest) else shortest


@compiled
def _pending_size(workload: Workload, cluster: Cluster) -> float:
    """Of the waiting jobs together, processors."""
    size = 0.0
    for place in range(cluster.counts[PENDING]):
        size += size_of(workload, cluster.pending[place])
    return size


@compiled
def queue_features_now(
    workload: Workload, cluster: Cluster, usage: FloatArray, arrived: FloatArray
) -> Any:
    """The queue features of the `site` schema now, a tuple in its order.

    Args:
        workload: the jobs.
        cluster: read only.
        usage: fraction of the consumed service of each account, shape [accounts].
        arrived: brought up to now; see `no_arrivals`.
    """
    counts = cluster.counts
    _count_arrivals(workload, cluster, arrived)
    relative = queue_features(
        float(cluster.capacity[0]),
        float(counts[IDLE]),
        float(counts[PENDING]),
        float(counts[PENDING_INTERACTIVE]),
        _pending_size(workload, cluster),
        max(cluster.clock[PENDING_WORK], 0.0),
        next_release(cluster),
        float(counts[RUNNING_INTERACTIVE]),
        fairness(workload.shares, usage),
    )
    absolute = reserve_features(
        float(counts[PENDING_INTERACTIVE]),
        float(counts[PENDING] - counts[PENDING_INTERACTIVE]),
        float(counts[RUNNING_INTERACTIVE]),
        float(_released_soon(workload, cluster)),
        _shortest_batch(workload, cluster),
        arrived[1:-1],
    )
    return relative + absolute
