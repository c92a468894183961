"""An echo state network inside the compiled loop; its memory is carried from decision to decision.

Scores need only the units that the output sees. The whole reservoir is stepped once for each start,
with the job that started.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.features.reactive_grid import account_places
from slurm_rl_plugin.policies.echo_state import EchoStateNetwork
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.cluster import Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_inline
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.scoring.queue_features import (
    NO_GRID,
    grid_code,
    grid_job_table,
    grid_state,
)
from slurm_rl_plugin.units import FloatArray, IntArray


class CompiledEchoState(NamedTuple):
    """An EchoStateNetwork with its scaler folded in and the part of each job summed up."""

    grid: IntArray  #: GRID or GRID_2011, shape [1]
    places: IntArray  #: VO place of each account, shape [accounts]
    row: IntArray  #: where the links into each unit begin in `column` and `weight`, shape [H + 1]
    #: column, weight: sending unit and weight of each link, shape [links].
    column: IntArray
    weight: FloatArray
    queue_weights: FloatArray  #: shape [Fq, H]
    job_weights: FloatArray  #: shape [Fx, H]
    bias: FloatArray  #: shape [H]
    jobs: FloatArray  #: static features of every job, shape [n, static features]
    seen: IntArray  #: units that the output sees, shape [R]
    readout: FloatArray  #: their output weights, shape [R]
    job_inner: FloatArray  #: static part of each job in what these units sum up, shape [n, R]
    queue_linear: FloatArray  #: direct weights of the queue features, shape [Fq]
    #: Direct static part of each job in its score, biases included, shape [n].
    job_score: FloatArray
    leak: FloatArray  #: shape [1]
    memory: FloatArray  #: empty at first, shape [H]; each start steps it
    asked: FloatArray  #: queue features of the last decision, shape [Fq]
    #: How many starts have stepped the memory, shape [1]; -1 before the first decision.
    heard: IntArray


def without_memory(network: QNetwork) -> EchoStateNetwork:
    """The same function as an echo state network whose units have no links to each other."""
    if network.activation != "sigmoid":
        raise SimulationError("only sigmoid units can stand in a reservoir.")
    hidden = network.hidden
    return EchoStateNetwork(
        schema=network.schema,
        queue_mean=network.queue_mean,
        queue_scale=network.queue_scale,
        job_mean=network.job_mean,
        job_scale=network.job_scale,
        input_weights=np.vstack([network.queue_weights, network.job_weights]),
        reservoir_weights=np.zeros((hidden, hidden)),
        bias=network.bias,
        connected=np.ones(hidden, dtype=np.bool_),
        readout=network.output,
        queue_linear=np.zeros(len(network.schema.queue)),
        job_linear=network.linear,
        output_bias=network.output_bias,
    )


def compile_echo_state(network: EchoStateNetwork, workload: Workload) -> CompiledEchoState:
    """Fold the scaler into the weights and the features of a workload into offsets."""
    grid = grid_code(network.schema)
    if grid == NO_GRID:
        raise SimulationError(
            "only echo state networks of the reactive-grid schemas can be simulated."
        )
    features = len(network.schema.queue)
    queue_weights = network.input_weights[:features] / network.queue_scale[:, None]
    job_weights = network.input_weights[features:] / network.job_scale[:, None]
    queue_linear = network.queue_linear / network.queue_scale
    job_linear = network.job_linear / network.job_scale
    bias = network.bias - network.queue_mean @ queue_weights - network.job_mean @ job_weights
    constant = network.queue_mean @ queue_linear + network.job_mean @ job_linear
    jobs = grid_job_table(workload)
    seen = np.flatnonzero(network.connected)
    unit, column = np.nonzero(network.reservoir_weights)
    return CompiledEchoState(
        grid=np.array([grid], dtype=np.int64),
        places=account_places(workload.shares),
        row=np.searchsorted(unit, np.arange(network.memory_size + 1)),
        column=column,
        weight=network.reservoir_weights[unit, column],
        queue_weights=np.ascontiguousarray(queue_weights),
        job_weights=np.ascontiguousarray(job_weights),
        bias=np.ascontiguousarray(bias),
        jobs=np.ascontiguousarray(jobs),
        seen=seen,
        readout=np.ascontiguousarray(network.readout[seen]),
        job_inner=np.ascontiguousarray(jobs @ job_weights[:, seen]),
        queue_linear=np.ascontiguousarray(queue_linear),
        job_score=jobs @ job_linear + (network.output_bias - float(constant)),
        leak=np.array([network.leak]),
        memory=network.empty_memory(),
        asked=np.zeros(features),
        heard=np.full(1, -1, dtype=np.int64),
    )


@compiled_inline
def queue_state(cluster: Cluster, network: CompiledEchoState) -> FloatArray:
    """The queue features now, float64[Fq]."""
    return np.array(grid_state(cluster, network.places, network.grid[0]))


@compiled_inline
def shared_inner(network: CompiledEchoState, state: FloatArray, memory: FloatArray) -> FloatArray:
    """What every unit sums up before a job is looked at: links, queue and bias; float64[H]."""
    inner = network.bias.copy()
    for place in range(len(state)):
        inner += state[place] * network.queue_weights[place]
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
def job_score(network: CompiledEchoState, seen_inner: FloatArray, common: float, job: int) -> float:
    """Score of a job from `shared_inner` of the units that the output sees, and `shared_score`."""
    score = 0.0
    row = network.job_inner[job]
    for place in range(len(seen_inner)):
        inner = seen_inner[place] + row[place]
        score += network.readout[place] / (1.0 + np.exp(-inner))
    return common + network.job_score[job] + network.leak[0] * score


@compiled
def step_memory(
    network: CompiledEchoState, inner: FloatArray, job: int, memory: FloatArray
) -> None:
    """Let the memory become the state of the chosen job; `inner` is used up."""
    for feature in range(network.jobs.shape[1]):
        inner += network.jobs[job, feature] * network.job_weights[feature]
    leak = network.leak[0]
    memory[:] = (1.0 - leak) * memory + leak / (1.0 + np.exp(-inner))


@compiled
def _hear_of_starts(cluster: Cluster, network: CompiledEchoState) -> None:
    """Step the memory once for each job that started since the last decision, in their order."""
    count = cluster.state[0].started
    if network.heard[0] >= 0:
        for place in range(network.heard[0], count):
            job = cluster.started[place]
            inner = shared_inner(network, network.asked, network.memory)
            step_memory(network, inner, job, network.memory)
    network.heard[0] = count


@compiled
def score_pending_from_memory(
    cluster: Cluster,
    network: CompiledEchoState,
    remembers: bool,
    scores: FloatArray,
    jobs: IntArray,
) -> None:
    """Score every pending job now, after each start since the last decision stepped the memory.

    As in the rollouts that a network learns from, the memory makes one step for each job that
    started, with the features of that job and of the queue at the decision before.

    If the hook decides now, it `remembers`: the memory sees the starts, and keeps the queue.
    """
    state = queue_state(cluster, network)
    if remembers:
        _hear_of_starts(cluster, network)
        network.asked[:] = state
    inner = shared_inner(network, state, network.memory)
    common = shared_score(network, state, network.memory)
    seen_inner = inner[network.seen]
    for place in range(cluster.state[0].pending):
        job = cluster.pending[place]
        jobs[place] = job
        scores[place] = job_score(network, seen_inner, common, job)
