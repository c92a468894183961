"""Rollouts: a simulation that explores, and writes down every start.

One action is one job start: after each start the queue is looked at again, as long as something
fits. Jobs that do not fit now are no actions, so there is no backfilling here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.policies.echo_state import EchoStateNetwork
from slurm_rl_plugin.simulator.kernel.class_limit import reserve_in_force
from slurm_rl_plugin.simulator.kernel.cluster import (
    Cluster,
    advance,
    decision_time,
    forget_started,
    next_event,
    start_job,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_copy
from slurm_rl_plugin.simulator.kernel.compiled_features import fairness
from slurm_rl_plugin.simulator.kernel.dispatch import processors_needed
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.scoring.echo_state import (
    CompiledEchoState,
    compile_echo_state,
    job_score,
    queue_state,
    seen_part,
    shared_inner,
    shared_score,
    step_memory,
)
from slurm_rl_plugin.simulator.scoring.rules import current_usage
from slurm_rl_plugin.units import FloatArray, IntArray
from slurm_rl_plugin.utility import time_utility

#: Actions kept of one decision; of a longer queue evenly spaced ones stand for all.
MOST_ACTIONS = 128

_responsiveness = compiled_copy(time_utility.responsiveness)


class Experience(NamedTuple):
    """The starts of one simulation in the order in which they happened; shape [n] each."""

    queue: FloatArray  #: queue features when the job was chosen, shape [n, Fq]
    now: FloatArray  #: when, seconds
    #: Reservoir after the job was chosen, shape [n, H]; the memory of the next start.
    state: FloatArray
    job: IntArray  #: that was started
    responsiveness: FloatArray  #: of the job, known when it completes (2011)
    #: Mean responsiveness that the jobs left waiting lose while the job holds its processors, each
    #: delayed by its work over the capacity; 0 where none waits.
    lost: FloatArray
    #: Mean responsiveness that the job would have lost had one of these gone first.
    spared: FloatArray
    fairness: FloatArray  #: eq. 4 at the start.
    first_action: IntArray  #: where the actions of each start begin in `actions`, shape [n + 1]
    #: Numbers of the jobs that could have been started, the chosen one mostly included.
    actions: IntArray


def empty_experience(jobs: int, features: int, units: int) -> Experience:
    """Arrays for the starts of a number of jobs."""
    return Experience(
        queue=np.empty((jobs, features)),
        now=np.empty(jobs),
        state=np.empty((jobs, units)),
        job=np.empty(jobs, dtype=np.int64),
        responsiveness=np.empty(jobs),
        lost=np.zeros(jobs),
        spared=np.zeros(jobs),
        fairness=np.empty(jobs),
        first_action=np.zeros(jobs + 1, dtype=np.int64),
        actions=np.empty(jobs * MOST_ACTIONS, dtype=np.int64),
    )


@compiled
def _loss(workload: Workload, job: int, now: float, delay: float) -> float:
    """Responsiveness that a waiting job loses by `delay` seconds more."""
    wait, run_time = now - workload.jobs[job].submit, workload.jobs[job].run_time
    return _responsiveness(wait, run_time) - _responsiveness(wait + delay, run_time)


@compiled
def _interchange(workload: Workload, cluster: Cluster, chosen: int) -> tuple[float, float]:
    """Mean loss of the others by the chosen job, and its own by one of them in its place."""
    waiting = cluster.state[0].pending - 1
    if waiting <= 0:
        return 0.0, 0.0
    now, capacity = cluster.state[0].now, cluster.state[0].capacity
    work = workload.jobs[chosen].run_time * workload.jobs[chosen].processors
    lost, spared = 0.0, 0.0
    for place in range(waiting + 1):
        job = cluster.pending[place]
        if job != chosen:
            other = workload.jobs[job].run_time * workload.jobs[job].processors
            lost += _loss(workload, job, now, work / capacity)
            spared += _loss(workload, chosen, now, other / capacity)
    return lost / waiting, spared / waiting


@compiled
def _keep_actions(experience: Experience, start: int, jobs: IntArray, count: int) -> None:
    kept = min(count, MOST_ACTIONS)
    first = experience.first_action[start]
    for place in range(kept):
        experience.actions[first + place] = jobs[place * count // kept]
    experience.first_action[start + 1] = first + kept


@compiled
def keep_start(
    workload: Workload,
    cluster: Cluster,
    experience: Experience,
    start: int,
    job: int,
    jobs: IntArray,
    count: int,
) -> None:
    """Write down a job that starts now, all but its features; it is still pending.

    Args:
        jobs: what could be chosen, the first `count` entries.
    """
    now = cluster.state[0].now
    wait = now - workload.jobs[job].submit
    experience.now[start] = now
    experience.job[start] = job
    experience.responsiveness[start] = _responsiveness(wait, workload.jobs[job].run_time)
    lost, spared = _interchange(workload, cluster, job)
    experience.lost[start] = lost
    experience.spared[start] = spared
    experience.fairness[start] = fairness(workload.shares, current_usage(cluster))
    _keep_actions(experience, start, jobs, count)


@compiled
def best_action_values(
    network: CompiledEchoState, experience: Experience, submit: FloatArray
) -> FloatArray:
    """max_b Q(s, b) at every start, float64[n], under a network with the same reservoir.

    Args:
        experience: collected with any readout of this network's reservoir.
        submit: of every job, seconds, shape [n].
    """
    starts = len(experience.job)
    values = np.empty(starts)
    memory = np.zeros(len(network.bias))
    for start in range(starts):
        state = experience.queue[start]
        seen_inner = seen_part(network, shared_inner(network, state, memory))
        common = shared_score(network, state, memory)
        best = -np.inf
        for place in range(experience.first_action[start], experience.first_action[start + 1]):
            job = experience.actions[place]
            wait = experience.now[start] - submit[job]
            best = max(best, job_score(network, seen_inner, common, job, wait))
        values[start] = best
        memory = experience.state[start]
    return values


@compiled
def _startable(workload: Workload, cluster: Cluster, reserve: int, jobs: IntArray) -> int:
    """Fill `jobs` with the pending jobs that can start now, in order of submission."""
    count, idle = 0, cluster.state[0].idle
    for place in range(cluster.state[0].pending):
        job = cluster.pending[place]
        if processors_needed(workload.jobs, cluster, job, reserve) <= idle:
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
        if workload.jobs[jobs[place]].estimate < workload.jobs[best].estimate:
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
    jobs = np.empty(len(workload.jobs) + 1, dtype=np.int64)
    memory, start = network.memory, 0
    while True:
        event = next_event(workload.jobs, cluster)
        if np.isinf(event):
            return
        advance(workload.jobs, cluster, decision_time(event, cycle), no_rank)
        in_force = reserve_in_force(workload.jobs, cluster, reserve)
        count = _startable(workload, cluster, in_force, jobs)
        while count > 0:
            state = queue_state(workload, cluster, network)
            inner = shared_inner(network, state, memory)
            if epsilon < 0.0:
                job = _by_mix(workload, jobs, count, draws[start])
            elif draws[start, 0] < epsilon:
                job = jobs[int(draws[start, 2] * count)]
            else:
                waits = cluster.state[0].now - workload.jobs.submit[jobs[:count]]
                job = _by_network(network, inner, jobs, waits)
            wait = cluster.state[0].now - workload.jobs[job].submit
            step_memory(network, inner, job, wait, memory)
            experience.queue[start] = state
            experience.state[start] = memory
            keep_start(workload, cluster, experience, start, job, jobs, count)
            start_job(workload.jobs, cluster, job)
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
        network: whose reservoir is driven, and which acts unless epsilon is None.
        settings: the batch system; backfilling is left out.
        epsilon: probability of a random start; None lets a mix of simple orders act instead,
            for the first experience.
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
