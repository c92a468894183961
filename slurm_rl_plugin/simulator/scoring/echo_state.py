"""An echo state network inside the compiled loop; its memory is carried from decision to decision.

Scores need only the units that the output sees. The whole reservoir is stepped once for each start,
with the job that started.
"""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import NOW, PENDING, STARTED, Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_inline
from slurm_rl_plugin.simulator.kernel.compiled_features import log_seconds
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.scoring.compiled_echo_state import CompiledEchoState
from slurm_rl_plugin.simulator.scoring.reactive_grid import GRID_WAIT, grid_state
from slurm_rl_plugin.units import FloatArray, IntArray


@compiled_inline
def queue_state(workload: Workload, cluster: Cluster, network: CompiledEchoState) -> FloatArray:
    """The queue features now, float64[Fq]."""
    features = grid_state(workload, cluster, network.places, network.grid[0])
    state = np.empty(len(features))
    for place in range(len(features)):
        state[place] = features[place]
    return state


@compiled_inline
def shared_inner(network: CompiledEchoState, state: FloatArray, memory: FloatArray) -> FloatArray:
    """What every unit sums up before a job is looked at: links, queue and bias; float64[H]."""
    inner = network.bias.copy()
    for place in range(len(state)):
        for unit in range(len(inner)):
            inner[unit] += state[place] * network.queue_weights[place, unit]
    for unit in range(len(inner)):
        for link in range(network.row[unit], network.row[unit + 1]):
            inner[unit] += network.weight[link] * memory[network.column[link]]
    return inner


@compiled_inline
def shared_score(network: CompiledEchoState, state: FloatArray, memory: FloatArray) -> float:
    """The part of the score that all jobs of a decision have in common."""
    score = 0.0
    for place in range(len(state)):
        score += state[place] * network.queue_linear[place]
    kept = 1.0 - network.leak[0]
    for place in range(len(network.seen)):
        score += network.readout[place] * kept * memory[network.seen[place]]
    return score


@compiled_inline
def seen_part(network: CompiledEchoState, inner: FloatArray) -> FloatArray:
    """The entries of `shared_inner` of the units that the output sees, float64[R]."""
    part = np.empty(len(network.seen))
    for place in range(len(part)):
        part[place] = inner[network.seen[place]]
    return part


@compiled_inline
def job_score(
    network: CompiledEchoState, seen_inner: FloatArray, common: float, job: int, wait: float
) -> float:
    """Score of a job that has waited so long, seconds, from `seen_part` and `shared_score`."""
    waited = log_seconds(wait) if network.grid[0] == GRID_WAIT else 0.0
    score = 0.0
    row = network.job_inner[job]
    for place in range(len(seen_inner)):
        inner = seen_inner[place] + row[place] + waited * network.waits_seen[place]
        score += network.readout[place] / (1.0 + np.exp(-inner))
    direct = network.job_score[job] + waited * network.wait_linear[0]
    return common + direct + network.leak[0] * score


@compiled
def step_memory(
    network: CompiledEchoState, inner: FloatArray, job: int, wait: float, memory: FloatArray
) -> None:
    """Let the memory become the state of the chosen job; `inner` is used up."""
    if network.grid[0] == GRID_WAIT:
        inner += log_seconds(wait) * network.waits
    for feature in range(network.jobs.shape[1]):
        value = network.jobs[job, feature]
        for unit in range(len(inner)):
            inner[unit] += value * network.job_weights[feature, unit]
    leak = network.leak[0]
    for unit in range(len(inner)):
        memory[unit] = (1.0 - leak) * memory[unit] + leak / (1.0 + np.exp(-inner[unit]))


@compiled
def _hear_of_starts(workload: Workload, cluster: Cluster, network: CompiledEchoState) -> None:
    """Step the memory once for each job that started since the last decision, in their order."""
    count = cluster.counts[STARTED]
    if network.heard[0] >= 0:
        for place in range(network.heard[0], count):
            job = cluster.started[place]
            inner = shared_inner(network, network.asked, network.memory)
            wait = cluster.start[job] - workload.submit[job]
            step_memory(network, inner, job, wait, network.memory)
    network.heard[0] = count


@compiled
def score_pending_from_memory(
    workload: Workload,
    cluster: Cluster,
    network: CompiledEchoState,
    remembers: bool,
    scores: FloatArray,
    jobs: IntArray,
) -> None:
    """Score every pending job now, after each start since the last decision stepped the memory.

    As in the rollouts that a network learns from, the memory makes one step for each job that
    started, with the features of that job and of the queue at the decision before.

    Args:
        workload: the jobs.
        cluster: read only; some job is pending.
        network: the scorer.
        remembers: whether the hook decides now: starts are heard of, and the queue is kept.
        scores: filled for the first counts[PENDING] places.
        jobs: filled with the pending job numbers in the order of `scores`.
    """
    state = queue_state(workload, cluster, network)
    if remembers:
        _hear_of_starts(workload, cluster, network)
        network.asked[:] = state
    inner = shared_inner(network, state, network.memory)
    common = shared_score(network, state, network.memory)
    seen_inner = seen_part(network, inner)
    now = cluster.clock[NOW]
    for place in range(cluster.counts[PENDING]):
        job = cluster.pending[place]
        jobs[place] = job
        wait = now - workload.submit[job]
        scores[place] = job_score(network, seen_inner, common, job, wait)
