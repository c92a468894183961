"""Run a workload under an echo state network, or under whichever network a trainer gave."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.policies.echo_state import EchoStateNetwork
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.class_limit import reserve_in_force, score_by_rail
from slurm_rl_plugin.simulator.kernel.cluster import (
    DECISIONS,
    IDLE,
    Cluster,
    Workload,
    advance,
    next_event,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled
from slurm_rl_plugin.simulator.kernel.dispatch import BACKFILLING, anything_fits, dispatch_by_score
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulatedSchedule,
    SimulationSettings,
    decision_time,
    finished_schedule,
    simulate_network,
)
from slurm_rl_plugin.simulator.scoring.compiled_echo_state import (
    CompiledEchoState,
    compile_echo_state,
)
from slurm_rl_plugin.simulator.scoring.echo_state import score_pending_from_memory
from slurm_rl_plugin.units import FloatArray


@compiled
def _simulate(
    workload: Workload,
    cluster: Cluster,
    network: CompiledEchoState,
    memory: FloatArray,
    backfilling: int,
    cycle: float,
    reserve: int,
) -> None:
    no_rank = np.empty(0, dtype=np.int64)
    scores = np.empty(len(workload.submit) + 1)
    jobs = np.empty(len(workload.submit) + 1, dtype=np.int64)
    while True:
        event = next_event(workload, cluster)
        if np.isinf(event):
            return
        advance(workload, cluster, decision_time(event, cycle), no_rank)
        if cluster.counts[IDLE] == 0 or not anything_fits(workload, cluster):
            continue
        cluster.counts[DECISIONS] += 1
        score_pending_from_memory(workload, cluster, network, memory, scores, jobs)
        in_force = reserve_in_force(workload, cluster, reserve)
        score_by_rail(workload, cluster, scores, jobs)
        dispatch_by_score(workload, cluster, scores, jobs, backfilling, in_force)


def simulate_echo_state(
    workload: Workload, network: EchoStateNetwork, settings: SimulationSettings
) -> SimulatedSchedule:
    """Simulate an echo state network from an empty memory, as the head node would run it.

    The queue is scored once at each decision at which something could start; the state of the
    best job is the memory of the next decision.

    Args:
        workload: the jobs in submit order.
        network: of one of the papers' schemas.
        settings: the batch system.

    Raises:
        SimulationError: another schema, a job wider than the machine, or one that never started.
    """
    cluster = settings.empty_cluster(workload)
    _simulate(
        workload,
        cluster,
        compile_echo_state(network, workload),
        network.empty_memory(),
        BACKFILLING[settings.backfilling],
        settings.cycle,
        settings.reserve,
    )
    return finished_schedule(cluster)


def simulate_learned(
    workload: Workload, network: QNetwork | EchoStateNetwork, settings: SimulationSettings
) -> SimulatedSchedule:
    """Simulate whichever network a trainer gave; see `simulate_network`, `simulate_echo_state`."""
    if isinstance(network, EchoStateNetwork):
        return simulate_echo_state(workload, network, settings)
    return simulate_network(workload, network, settings)
