"""A site's own multifactor priority, with the weights of its slurm.conf, in the compiled loop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import NOW, PENDING, Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.units import FloatArray, IntArray


class SitePriority(NamedTuple):
    """Points of every job of a workload; what changes while it waits is age and fair share.

    Attributes:
        points: that never change (size, partition, QOS, resources, nice), shape [n].
        age: points of the highest age.
        highest_age: seconds.
        fairshare: points of the highest fair share.
        period: seconds between two calculations (PriorityCalcPeriod); a job has no age before the
            first that sees it.
        first: when they were calculated for the first time, seconds; only its rest over the period
            matters.
    """

    points: FloatArray
    age: float
    highest_age: float
    fairshare: float
    period: float
    first: float = 0.0


@compiled_borrowing
def _fair_share(workload: Workload, cluster: Cluster, account: int) -> float:
    """Fair Tree over accounts: the part of them that are not served better for their share.

    Slurm's priority/multifactor since 19.05: accounts rank by share over usage; equals rank alike.
    """
    usage, share = cluster.account_usage[account], workload.shares[account]
    behind = 0
    for other in range(len(workload.shares)):
        # share over usage of the other is no more than ours, without a division by nothing
        if workload.shares[other] * usage <= share * cluster.account_usage[other]:
            behind += 1
    return behind / len(workload.shares)


@compiled_borrowing
def score_by_site(
    workload: Workload,
    cluster: Cluster,
    priority: SitePriority,
    scores: FloatArray,
    jobs: IntArray,
) -> int:
    """Fill `scores` with whole points of the pending jobs, `jobs` with their numbers; reserve 0."""
    since = cluster.clock[NOW] - priority.first
    calculated = np.floor(since / priority.period) * priority.period + priority.first
    for place in range(cluster.counts[PENDING]):
        job = cluster.pending[place]
        waited = min(max(calculated - workload.submit[job], 0.0) / priority.highest_age, 1.0)
        points = priority.points[job] + priority.age * waited
        if priority.fairshare > 0.0:
            points += priority.fairshare * _fair_share(workload, cluster, workload.account[job])
        scores[place], jobs[place] = np.floor(points), job
    return 0
