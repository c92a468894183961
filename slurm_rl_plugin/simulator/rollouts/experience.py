"""Experience for batch learning: every start of a simulation with what could have been instead."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import NOW, PENDING, Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_copy
from slurm_rl_plugin.simulator.kernel.compiled_features import fairness
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.scoring.compiled_echo_state import CompiledEchoState
from slurm_rl_plugin.simulator.scoring.echo_state import (
    job_score,
    seen_part,
    shared_inner,
    shared_score,
)
from slurm_rl_plugin.simulator.scoring.rules import current_usage
from slurm_rl_plugin.units import FloatArray, IntArray
from slurm_rl_plugin.utility import time_utility

#: Actions kept of one decision; of a longer queue evenly spaced ones stand for all.
MOST_ACTIONS = 128

_responsiveness = compiled_copy(time_utility.responsiveness)


class Experience(NamedTuple):
    """The starts of one simulation in the order in which they happened; shape [n] each.

    Attributes:
        queue: queue features when the job was chosen, shape [n, Fq].
        now: when, seconds.
        state: reservoir after the job was chosen, shape [n, H]; the memory of the next start.
        job: that was started.
        responsiveness: of the job, known when it completes (2011).
        lost: mean responsiveness that the jobs left waiting lose while the job holds its
            processors, each delayed by its work over the capacity; 0 where none waits.
        spared: mean responsiveness that the job would have lost had one of these gone first.
        fairness: eq. 4 at the start.
        first_action: where the actions of each start begin in `actions`, shape [n + 1].
        actions: numbers of the jobs that could have been started, the chosen one mostly included.
    """

    queue: FloatArray
    now: FloatArray
    state: FloatArray
    job: IntArray
    responsiveness: FloatArray
    lost: FloatArray
    spared: FloatArray
    fairness: FloatArray
    first_action: IntArray
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
    wait, run_time = now - workload.submit[job], workload.run_time[job]
    return _responsiveness(wait, run_time) - _responsiveness(wait + delay, run_time)


@compiled
def _interchange(workload: Workload, cluster: Cluster, chosen: int) -> tuple[float, float]:
    """Mean loss of the others by the chosen job, and its own by one of them in its place."""
    waiting = cluster.counts[PENDING] - 1
    if waiting <= 0:
        return 0.0, 0.0
    now, capacity = cluster.clock[NOW], cluster.capacity[0]
    work = workload.run_time[chosen] * workload.processors[chosen]
    lost, spared = 0.0, 0.0
    for place in range(waiting + 1):
        job = cluster.pending[place]
        if job != chosen:
            other = workload.run_time[job] * workload.processors[job]
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
        workload: the jobs.
        cluster: read only.
        experience: changed in place.
        start: number of the start.
        job: that was chosen.
        jobs: what could be chosen, the first `count` entries.
        count: how many.
    """
    now = cluster.clock[NOW]
    wait = now - workload.submit[job]
    experience.now[start] = now
    experience.job[start] = job
    experience.responsiveness[start] = _responsiveness(wait, workload.run_time[job])
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
        network: the Q-function.
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
