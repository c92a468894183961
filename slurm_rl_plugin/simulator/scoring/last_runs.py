"""The mean of a user's last two runs, as it stands when a job arrives, inside the compiled loop.

The prediction of EASY++ (Tsafrir, Etsion, Feitelson 2007), made of the simulated schedule.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.simulator.kernel.cluster import ENDED, NEXT_ARRIVAL, Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.units import FloatArray, IntArray

#: Indices into `LastRuns.seen`.
_ARRIVED, _ENDED = 0, 1


class LastRuns(NamedTuple):
    """The last two run times of each user, and what is counted.

    Attributes:
        seconds: the older and the newer, NaN where there is none, shape [users, 2].
        seen: jobs that have been predicted, and that have ended; shape [2].
    """

    seconds: FloatArray
    seen: IntArray


#: Of a plan that does not look at them.
NO_RUNS = LastRuns(seconds=np.empty((0, 2)), seen=np.zeros(2, dtype=np.int64))


def no_runs_yet(workload: Workload) -> LastRuns:
    """Before the first job.

    Raises:
        SimulationError: users are not told apart.
    """
    if len(workload.past.user) != len(workload.submit):
        raise SimulationError("a plan by users' last runs needs to know users.")
    users = len(workload.past.users)
    return LastRuns(seconds=np.full((users, 2), np.nan), seen=np.zeros(2, dtype=np.int64))


@compiled_borrowing
def predict_arrived(
    workload: Workload, cluster: Cluster, runs: LastRuns, seconds: FloatArray
) -> None:
    """Fill `seconds` of the jobs that arrived since the last call, in whole seconds.

    The mean of the two runs that ended last before the arrival, at most the request; the request
    where the user has no two runs behind him.
    """
    while runs.seen[_ARRIVED] < cluster.counts[NEXT_ARRIVAL]:
        job = runs.seen[_ARRIVED]
        _note_ended(workload, cluster, runs, workload.submit[job])
        own = runs.seconds[workload.past.user[job]]
        mean = np.floor(0.5 * (own[0] + own[1]))
        request = workload.estimate[job]
        seconds[job] = request if np.isnan(mean) else min(mean, request)
        runs.seen[_ARRIVED] += 1


@compiled_borrowing
def _note_ended(workload: Workload, cluster: Cluster, runs: LastRuns, before: float) -> None:
    """Note the runs that ended before a time, seconds."""
    while runs.seen[_ENDED] < cluster.counts[ENDED]:
        job = cluster.ended[runs.seen[_ENDED]]
        if cluster.start[job] + workload.run_time[job] >= before:
            return
        own = runs.seconds[workload.past.user[job]]
        own[0], own[1] = own[1], workload.run_time[job]
        runs.seen[_ENDED] += 1
