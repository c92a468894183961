"""What a real scheduler did, start by start, as transitions to calibrate a network on."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import (
    ENDED,
    IDLE,
    Cluster,
    advance,
    empty_cluster,
    forget_started,
    start_job,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.rollouts.sarsa import (
    GridInputs,
    SweepSettings,
    Transitions,
    input_count,
    note_start,
    scaled_state,
)
from slurm_rl_plugin.simulator.rollouts.start_rewards import COMPLETED, reward_at_next_start
from slurm_rl_plugin.units import FloatArray, IntArray


def recorded_transitions(
    workload: Workload, capacity: int, start: FloatArray, grid: GridInputs, sweep: SweepSettings
) -> Transitions:
    """The starts that a log records, as SARSA would have seen them (2008, section VII).

    The log decides when jobs start, whether or not the machine that it names has room.

    Args:
        workload: the jobs in submit order.
        capacity: processors of the machine.
        start: recorded start of each job, seconds, shape [n]; a start before its submission is
            taken to be at it.
        grid: inputs of the network.
        sweep: the reward; how to act is not used.
    """
    begin = np.maximum(start, workload.submit)
    most = int(workload.processors.sum()) if len(begin) else 1
    cluster = empty_cluster(workload, max(most, 1))  # room for whatever ran side by side
    cluster.capacity[0] = capacity
    cluster.counts[IDLE] = capacity
    order = np.lexsort((np.arange(len(begin)), begin))
    return _replay(workload, cluster, grid, sweep, begin, order)


@compiled
def _replay(
    workload: Workload,
    cluster: Cluster,
    grid: GridInputs,
    sweep: SweepSettings,
    begin: FloatArray,
    order: IntArray,
) -> Transitions:
    no_rank = np.empty(0, dtype=np.int64)
    inputs = np.empty((len(order), input_count(grid)))
    reward, ended = np.empty(len(order)), 0
    for taken in range(len(order)):
        job = order[taken]
        advance(workload, cluster, begin[job], no_rank)
        state = scaled_state(workload, cluster, grid)
        reward[taken] = note_start(workload, cluster, grid, sweep, state, job, inputs[taken])
        if sweep.reward >= COMPLETED and taken > 0:
            reward[taken - 1] = reward_at_next_start(
                workload, cluster, grid.rows, ended, sweep.utility_weight, sweep.reward
            )
        start_job(workload, cluster, job)
        forget_started(cluster)
        ended = cluster.counts[ENDED]
    return Transitions(inputs, reward)
