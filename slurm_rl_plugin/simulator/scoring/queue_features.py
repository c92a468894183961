"""The queue features of the `site` schema, from the simulated cluster inside the compiled loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from slurm_rl_plugin.features.history.run_history import ARRIVAL_MEMORY, FADING_TIMES
from slurm_rl_plugin.features.reactive_grid import (
    REACTIVE_GRID_SCHEMAS,
    VO_PLACES,
    account_places,
    grid_job_features,
)
from slurm_rl_plugin.features.site import SOON, FeatureSchema
from slurm_rl_plugin.simulator.kernel.cluster import Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled
from slurm_rl_plugin.simulator.kernel.compiled_features import (
    fairness,
    grid_features,
    grid_features_2011,
    paper_row,
    queue_features,
    time_utility,
)
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.scoring.rules import current_usage
from slurm_rl_plugin.units import FloatArray, IntArray


def no_arrivals(workload: Workload) -> FloatArray:
    """Counters before the first arrival: [time, a count for each FADING_TIMES, arrivals seen]."""
    first = float(workload.submit[0]) if len(workload.submit) else 0.0
    return np.concatenate([[first], np.zeros(ARRIVAL_MEMORY)])


_FADING = np.array(FADING_TIMES)


@compiled
def _count_arrivals(cluster: Cluster, arrived: FloatArray) -> None:
    """Bring the faded counts of interactive submissions up to now (`recent_arrivals`)."""
    now, came = cluster.state[0].now, cluster.state[0].next_arrival
    arrived[1:-1] *= np.exp(-(now - arrived[0]) / _FADING)
    arrived[0] = now
    for job in range(int(arrived[-1]), came):
        if cluster.jobs[job].interactive:
            arrived[1:-1] += np.exp(-(now - cluster.jobs[job].submit) / _FADING)
    arrived[-1] = came


@compiled
def next_release(cluster: Cluster) -> float:
    """Seconds until the next running job is expected to end; 0 if none runs."""
    if cluster.state[0].running == 0:
        return 0.0
    return max(cluster.running[0].expected_end - cluster.state[0].now, 0.0)


@compiled
def queue_features_now(cluster: Cluster, usage: FloatArray, arrived: FloatArray) -> Any:
    """The queue features of the `site` schema now, a tuple; `arrived` of `no_arrivals` changes."""
    state = cluster.state[0]
    _count_arrivals(cluster, arrived)
    size, shortest = 0.0, np.inf
    for place in range(state.pending):
        job = cluster.pending[place]
        size += cluster.jobs[job].weighed
        if not cluster.jobs[job].interactive:
            shortest = min(shortest, cluster.jobs[job].estimate)
    until, released = state.now + SOON, 0
    for place in range(state.running):
        if cluster.running[place].expected_end > until:
            break
        released += cluster.jobs[cluster.running[place].expected_job].processors
    work = max(state.pending_work, 0.0)
    pending = (float(state.pending), float(state.pending_interactive), size, work)
    return queue_features(
        float(state.capacity),
        float(state.idle),
        pending,
        next_release(cluster),
        float(state.running_interactive),
        fairness(cluster.shares, usage),
        float(released),
        0.0 if np.isinf(shortest) else shortest,
        arrived[1:-1],
    )


#: Codes of the schemas in the compiled loop; NO_GRID is any other schema.
NO_GRID, GRID, GRID_2011 = 0, 1, 2


def grid_code(schema: FeatureSchema) -> int:
    """The code of a schema with the papers' state; NO_GRID for any other."""
    digests = [each.digest for each in REACTIVE_GRID_SCHEMAS]
    return digests.index(schema.digest) + 1 if schema.digest in digests else NO_GRID


def grid_job_table(workload: Workload) -> FloatArray:
    """Static job features of every job of a workload, float64[n, 3]."""
    places = account_places(workload.shares)[workload.account]
    interactive = workload.interactive.astype(np.float64)
    return np.column_stack(grid_job_features(workload.estimate, interactive, places))


@compiled
def running_utility(cluster: Cluster) -> float:
    """Mean time utility of the running jobs at their expected completion; 1 if none runs."""
    running = cluster.state[0].running
    total = 0.0
    for place in range(running):
        job = cluster.running[place].expected_job
        turnaround = cluster.running[place].expected_end - cluster.jobs[job].submit
        row = paper_row(cluster.jobs[job].interactive)
        total += time_utility(turnaround, cluster.jobs[job].estimate, row)
    return total / running if running else 1.0


@compiled
def grid_state(
    cluster: Cluster, places: IntArray, code: int
) -> tuple[float, float, float, float, float, float, float, float]:
    """The 8 queue features of a papers' schema now; `places`: VO place of each account."""
    # a recorded log may have had more processors than it says
    capacity, idle = float(cluster.state[0].capacity), float(max(cluster.state[0].idle, 0))
    work, release = max(cluster.state[0].pending_work, 0.0), next_release(cluster)
    of_places = np.zeros(VO_PLACES)
    if code != GRID_2011:
        usage = current_usage(cluster)
        for account in range(len(places)):
            of_places[places[account]] += usage[account]
        return grid_features(capacity, idle, work, release, running_utility(cluster), of_places)
    now, running_work, pending = cluster.state[0].now, 0.0, cluster.state[0].pending
    for place in range(cluster.state[0].running):
        remaining = max(cluster.running[place].expected_end - now, 0.0)
        running_work += remaining * cluster.jobs[cluster.running[place].expected_job].weighed
    for place in range(pending):
        of_places[places[cluster.jobs[cluster.pending[place]].account]] += 1.0
    queued = of_places / max(pending, 1)
    return grid_features_2011(capacity, idle, work, release, running_work, queued)
