"""Rollouts: a simulation that explores, and writes down every start.

One action is one job start: after each start the queue is looked at again, as long as something
fits. Jobs that do not fit now are no actions, so there is no backfilling here.
"""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.policies.echo_state import EchoStateNetwork
from slurm_rl_plugin.simulator.kernel.class_limit import reserve_in_force
from slurm_rl_plugin.simulator.kernel.cluster import (
    IDLE,
    NOW,
    PENDING,
    Cluster,
    advance,
    decision_time,
    forget_started,
    next_event,
    start_job,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled
from slurm_rl_plugin.simulator.kernel.dispatch import processors_needed
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.rollouts.experience import Experience, empty_experience, keep_start
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.scoring.compiled_echo_state import (
    CompiledEchoState,
    compile_echo_state,
)
from slurm_rl_plugin.simulator.scoring.echo_state import (
    job_score,
    queue_state,
    seen_part,
    shared_inner,
    step_memory,
)
from slurm_rl_plugin.units import FloatArray, IntArray


@compiled
def _startable(workload: Workload, cluster: Cluster, reserve: int, jobs: IntArray) -> int:
    """Fill `jobs` with the pending jobs that can start now, in order of submission."""
    count, idle = 0, cluster.counts[IDLE]
    for place in range(cluster.counts[PENDING]):
        job = cluster.pending[place]
        if processors_needed(workload, cluster, job, reserve) <= idle:
            jobs[count] = job
            count += 1
    return count


@compiled
def _by_mix(workload: Workload, jobs: IntArray, count: int, draws: FloatArray) -> int:
    """First come, anything or shortest estimate, each a third of the time."""
    if draws[1] < 1.0 / 3.0:
        return jobs[0]
    if draws[1] < 2.0 / 3.0:
        return jobs[int(draws[2] * count)]
    best = jobs[0]
    for place in range(1, count):
        if workload.estimate[jobs[place]] < workload.estimate[best]:
            best = jobs[place]
    return best


@compiled
def _by_network(
    network: CompiledEchoState, inner: FloatArray, jobs: IntArray, waits: FloatArray
) -> int:
    seen_inner = seen_part(network, inner)
    best, highest = jobs[0], -np.inf
    for place in range(len(waits)):
        score = job_score(network, seen_inner, 0.0, jobs[place], waits[place])
        if score > highest:
            best, highest = jobs[place], score
    return best


@compiled
def _collect(
    workload: Workload,
    cluster: Cluster,
    network: CompiledEchoState,
    epsilon: float,
    draws: FloatArray,
    cycle: float,
    reserve: int,
    experience: Experience,
) -> None:
    """Fill `experience`; where epsilon < 0 a mix of simple orders decides, not the network."""
    no_rank = np.empty(0, dtype=np.int64)
    jobs = np.empty(len(workload.submit) + 1, dtype=np.int64)
    memory, start = network.memory, 0
    while True:
        event = next_event(workload, cluster)
        if np.isinf(event):
            return
        advance(workload, cluster, decision_time(event, cycle), no_rank)
        in_force = reserve_in_force(workload, cluster, reserve)
        count = _startable(workload, cluster, in_force, jobs)
        while count > 0:
            state = queue_state(workload, cluster, network)
            inner = shared_inner(network, state, memory)
            if epsilon < 0.0:
                job = _by_mix(workload, jobs, count, draws[start])
            elif draws[start, 0] < epsilon:
                job = jobs[int(draws[start, 2] * count)]
            else:
                waits = cluster.clock[NOW] - workload.submit[jobs[:count]]
                job = _by_network(network, inner, jobs, waits)
            wait = cluster.clock[NOW] - workload.submit[job]
            step_memory(network, inner, job, wait, memory)
            experience.queue[start] = state
            experience.state[start] = memory
            keep_start(workload, cluster, experience, start, job, jobs, count)
            start_job(workload, cluster, job)
            forget_started(cluster)
            start += 1
            count = _startable(workload, cluster, in_force, jobs)


def collect_experience(
    workload: Workload,
    network: EchoStateNetwork,
    settings: SimulationSettings,
    *,
    epsilon: float | None,
    rng: np.random.Generator,
) -> Experience:
    """Simulate a workload from an empty memory and write down every start.

    Args:
        workload: the jobs in submit order.
        network: whose reservoir is driven, and which acts unless epsilon is None.
        settings: the batch system; backfilling is left out.
        epsilon: probability of a random start; None lets a mix of simple orders act instead,
            for the first experience.
        rng: source of randomness.

    Raises:
        SimulationError: another schema, or a job wider than the machine.
    """
    jobs = len(workload.submit)
    experience = empty_experience(jobs, len(network.schema.queue), network.memory_size)
    _collect(
        workload,
        settings.empty_cluster(workload),
        compile_echo_state(network, workload),
        -1.0 if epsilon is None else epsilon,
        rng.random((jobs, 3)),
        settings.cycle,
        settings.reserve,
        experience,
    )
    kept = experience.first_action[-1]
    return experience._replace(actions=experience.actions[:kept].copy())
