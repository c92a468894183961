"""The papers' 11 inputs inside the compiled loop, equal to features/reactive_grid.py."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.features.reactive_grid import (
    REACTIVE_GRID_SCHEMAS,
    REACTIVE_GRID_WAIT,
    VO_PLACES,
    account_places,
    grid_job_features,
)
from slurm_rl_plugin.features.schema import FeatureSchema
from slurm_rl_plugin.simulator.kernel.cluster import (
    IDLE,
    NOW,
    PENDING,
    PENDING_WORK,
    RUNNING,
    Cluster,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled
from slurm_rl_plugin.simulator.kernel.compiled_features import (
    grid_features,
    grid_features_2011,
    paper_row,
    time_utility,
)
from slurm_rl_plugin.simulator.kernel.workload import Workload, size_of
from slurm_rl_plugin.simulator.scoring.rules import current_usage
from slurm_rl_plugin.simulator.scoring.site_queue import next_release
from slurm_rl_plugin.units import FloatArray, IntArray

#: Codes of the schemas in the compiled loop; NO_GRID is any other schema.
NO_GRID, GRID, GRID_2011, GRID_WAIT = 0, 1, 2, 3


def grid_code(schema: FeatureSchema) -> int:
    """The code of a schema with the papers' state; NO_GRID for any other."""
    digests = [each.digest for each in (*REACTIVE_GRID_SCHEMAS, REACTIVE_GRID_WAIT)]
    return digests.index(schema.digest) + 1 if schema.digest in digests else NO_GRID


def grid_job_table(workload: Workload) -> FloatArray:
    """Static job features of every job of a workload, float64[n, 3]."""
    places = account_places(workload.shares)[workload.account]
    interactive = workload.interactive.astype(np.float64)
    return np.column_stack(grid_job_features(workload.estimate, interactive, places))


@compiled
def running_utility(workload: Workload, cluster: Cluster) -> float:
    """Mean time utility of the running jobs at their expected completion; 1 if none runs."""
    running = cluster.counts[RUNNING]
    total = 0.0
    for place in range(running):
        job = cluster.expected_job[place]
        turnaround = cluster.expected_end[place] - workload.submit[job]
        row = paper_row(workload.interactive[job])
        total += time_utility(turnaround, workload.estimate[job], row)
    return total / running if running else 1.0


@compiled
def _running_work(workload: Workload, cluster: Cluster) -> float:
    now = cluster.clock[NOW]
    total = 0.0
    for place in range(cluster.counts[RUNNING]):
        remaining = max(cluster.expected_end[place] - now, 0.0)
        total += remaining * size_of(workload, cluster.expected_job[place])
    return total


@compiled
def _received(cluster: Cluster, places: IntArray) -> FloatArray:
    received = np.zeros(VO_PLACES)
    usage = current_usage(cluster)
    for account in range(len(places)):
        received[places[account]] += usage[account]
    return received


@compiled
def _queued(workload: Workload, cluster: Cluster, places: IntArray) -> FloatArray:
    queued = np.zeros(VO_PLACES)
    pending = cluster.counts[PENDING]
    for place in range(pending):
        queued[places[workload.account[cluster.pending[place]]]] += 1.0
    return queued / max(pending, 1)


@compiled
def grid_state(
    workload: Workload, cluster: Cluster, places: IntArray, code: int
) -> tuple[float, float, float, float, float, float, float, float]:
    """The 8 queue features of a papers' schema now.

    Args:
        workload: the jobs.
        cluster: read only.
        places: VO place of each account, shape [accounts].
        code: GRID, GRID_2011 or GRID_WAIT.
    """
    # a recorded log may have had more processors than it says
    capacity, idle = float(cluster.capacity[0]), float(max(cluster.counts[IDLE], 0))
    work, release = max(cluster.clock[PENDING_WORK], 0.0), next_release(cluster)
    if code != GRID_2011:
        utility = running_utility(workload, cluster)
        return grid_features(capacity, idle, work, release, utility, _received(cluster, places))
    running_work = _running_work(workload, cluster)
    queued = _queued(workload, cluster, places)
    return grid_features_2011(capacity, idle, work, release, running_work, queued)
