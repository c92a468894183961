"""First come, first served to the head, the shortest first behind it: the order of EASY++."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import IDLE, PENDING, Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.units import FloatArray, IntArray


class ShortestBehindHead(NamedTuple):
    """What the jobs behind the head are ordered by.

    Attributes:
        seconds: how long each job is thought to run, shape [n]; a plan's estimates may change.
        arrived: nothing; networks remember recent arrivals there.
    """

    seconds: FloatArray
    arrived: FloatArray = np.empty(0)


@compiled_borrowing
def score_behind_head(
    workload: Workload,
    cluster: Cluster,
    order: ShortestBehindHead,
    scores: FloatArray,
    jobs: IntArray,
) -> int:
    """Fill `scores` and `jobs`; a reserve of 0.

    Equal scores go by submission: the jobs that start at once and the first that does not fit, the
    head, have the highest.
    """
    idle = cluster.counts[IDLE]
    for place in range(cluster.counts[PENDING]):
        job = cluster.pending[place]
        jobs[place], scores[place] = job, -order.seconds[job]
        if idle >= 0:  # no head yet
            scores[place] = np.inf
            idle -= workload.processors[job]
    return 0
