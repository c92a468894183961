"""An echo state network laid out for the compiled loop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.features.reactive_grid import account_places
from slurm_rl_plugin.policies.echo_state import EchoStateNetwork
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.scoring.reactive_grid import NO_GRID, grid_code, grid_job_table
from slurm_rl_plugin.units import FloatArray, IntArray


class CompiledEchoState(NamedTuple):
    """An EchoStateNetwork with its scaler folded in and the part of each job summed up.

    Attributes:
        grid: GRID or GRID_2011, shape [1].
        places: VO place of each account, shape [accounts].
        row: where the links into each unit begin in `column` and `weight`, shape [H + 1].
        column, weight: sending unit and weight of each link, shape [links].
        queue_weights: shape [Fq, H].
        job_weights: shape [Fx, H].
        bias: shape [H].
        jobs: static features of every job, shape [n, static features].
        waits: weights of the wait as a job feature, shape [H]; 0 in the papers' own schemas.
        seen: units that the output sees, shape [R].
        readout: their output weights, shape [R].
        job_inner: static part of each job in what these units sum up, shape [n, R].
        waits_seen: entries of `waits` for these units, shape [R].
        queue_linear: direct weights of the queue features, shape [Fq].
        job_score: direct static part of each job in its score, biases included, shape [n].
        wait_linear: direct weight of the wait, shape [1].
        leak: shape [1].
        memory: empty at first, shape [H]; each start steps it.
        asked: queue features of the last decision, shape [Fq].
        heard: how many starts have stepped the memory, shape [1]; -1 before the first decision.
    """

    grid: IntArray
    places: IntArray
    row: IntArray
    column: IntArray
    weight: FloatArray
    queue_weights: FloatArray
    job_weights: FloatArray
    bias: FloatArray
    jobs: FloatArray
    waits: FloatArray
    seen: IntArray
    readout: FloatArray
    job_inner: FloatArray
    waits_seen: FloatArray
    queue_linear: FloatArray
    job_score: FloatArray
    wait_linear: FloatArray
    leak: FloatArray
    memory: FloatArray
    asked: FloatArray
    heard: IntArray


def without_memory(network: QNetwork) -> EchoStateNetwork:
    """The same function as an echo state network whose units have no links to each other.

    Raises:
        SimulationError: its units are no sigmoids.
    """
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
    """Fold the scaler into the weights and the features of a workload into offsets.

    Raises:
        SimulationError: the network was not made for a reactive-grid schema.
    """
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
    static = jobs.shape[1]
    waits = job_weights[static:].sum(axis=0)  # one row, or none
    seen = np.flatnonzero(network.connected)
    unit, column = np.nonzero(network.reservoir_weights)
    return CompiledEchoState(
        grid=np.array([grid], dtype=np.int64),
        places=account_places(workload.shares),
        row=np.searchsorted(unit, np.arange(network.memory_size + 1)),
        column=column,
        weight=network.reservoir_weights[unit, column],
        queue_weights=np.ascontiguousarray(queue_weights),
        job_weights=np.ascontiguousarray(job_weights[:static]),
        bias=np.ascontiguousarray(bias),
        jobs=np.ascontiguousarray(jobs),
        waits=waits,
        seen=seen,
        readout=np.ascontiguousarray(network.readout[seen]),
        job_inner=np.ascontiguousarray(jobs @ job_weights[:static, seen]),
        waits_seen=waits[seen],
        queue_linear=np.ascontiguousarray(queue_linear),
        job_score=jobs @ job_linear[:static] + (network.output_bias - float(constant)),
        wait_linear=np.array([job_linear[static:].sum()]),
        leak=np.array([network.leak]),
        memory=network.empty_memory(),
        asked=np.zeros(features),
        heard=np.full(1, -1, dtype=np.int64),
    )
