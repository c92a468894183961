"""A Q-network evaluated inside the compiled loop, on the features of the `site` schema."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.features.site import SITE, static_job_features
from slurm_rl_plugin.policies.network import ACTIVATIONS, QNetwork
from slurm_rl_plugin.simulator.cluster import (
    NOW,
    PENDING,
    SCORED_JOBS,
    Cluster,
    Workload,
)
from slurm_rl_plugin.simulator.compilation import compiled
from slurm_rl_plugin.simulator.queue_state import queue_features_now
from slurm_rl_plugin.simulator.rule_scoring import current_usage
from slurm_rl_plugin.simulator.shared_functions import dynamic_job_features
from slurm_rl_plugin.units import FloatArray, IntArray

_STATIC = len(SITE.static_jobs)


class CompiledNetwork(NamedTuple):
    """A QNetwork with its scaler folded in and everything that never changes summed up.

    Attributes:
        queue_weights: shape [Fq, hidden].
        dynamic_weights: shape [dynamic features, hidden].
        dynamic_linear: shape [dynamic features].
        output: shape [hidden].
        static_hidden: static features, bias and scaler of each job, shape [n, hidden].
        static_score: linear part of the static features of each job, shape [n].
        activation: index into ACTIVATIONS, shape [1].
        reserve_weights: shape [Fq]; all 0 for a network that holds nothing.
        reserve_bias: shape [1].
    """

    queue_weights: FloatArray
    dynamic_weights: FloatArray
    dynamic_linear: FloatArray
    output: FloatArray
    static_hidden: FloatArray
    static_score: FloatArray
    activation: IntArray
    reserve_weights: FloatArray
    reserve_bias: FloatArray


def compile_network(network: QNetwork, workload: Workload) -> CompiledNetwork:
    """Fold the scaler into the weights and the static features of a workload into offsets.

    Raises:
        SimulationError: the network was made for another schema.
    """
    if network.schema.digest != SITE.digest:
        raise SimulationError("only networks of the site schema can be simulated.")
    job_weights = network.job_weights / network.job_scale[:, None]
    linear = network.linear / network.job_scale
    queue_weights = network.queue_weights / network.queue_scale[:, None]
    bias = network.bias - network.queue_mean @ queue_weights - network.job_mean @ job_weights
    hold = np.zeros_like(network.queue_scale)
    if network.reserve_weights is not None:
        hold = network.reserve_weights / network.queue_scale
    static = np.column_stack(
        static_job_features(
            workload.estimate,
            workload.time_limit,
            workload.processors.astype(np.float64),
            workload.interactive.astype(np.float64),
        )
    )
    return CompiledNetwork(
        queue_weights=np.ascontiguousarray(queue_weights),
        dynamic_weights=np.ascontiguousarray(job_weights[_STATIC:]),
        dynamic_linear=np.ascontiguousarray(linear[_STATIC:]),
        output=np.ascontiguousarray(network.output),
        static_hidden=static @ job_weights[:_STATIC] + bias,
        static_score=static @ linear[:_STATIC]
        - float(network.job_mean @ linear)
        + network.output_bias,
        activation=np.array([ACTIVATIONS.index(network.activation)], dtype=np.int64),
        reserve_weights=hold,
        reserve_bias=np.array([network.reserve_bias - float(network.queue_mean @ hold)]),
    )


def no_network() -> CompiledNetwork:
    """What stands in for a network where a rule scores."""
    empty, table = np.empty(0), np.empty((0, 0))
    return CompiledNetwork(
        queue_weights=table,
        dynamic_weights=table,
        dynamic_linear=empty,
        output=empty,
        static_hidden=table,
        static_score=empty,
        activation=np.zeros(1, dtype=np.int64),
        reserve_weights=empty,
        reserve_bias=np.zeros(1),
    )


@compiled
def _hidden_from_queue(features: Any, network: CompiledNetwork) -> FloatArray:
    hidden = np.zeros(len(network.output))
    for place in range(len(features)):
        for unit in range(len(hidden)):
            hidden[unit] += features[place] * network.queue_weights[place, unit]
    return hidden


@compiled
def _reserve(features: Any, network: CompiledNetwork, capacity: int) -> int:
    """Processors to keep free of batch work, as `QNetwork.reserve` gives them."""
    wanted = network.reserve_bias[0]
    for place in range(len(features)):
        wanted += features[place] * network.reserve_weights[place]
    return int(min(max(np.floor(wanted + 0.5), 0.0), float(capacity)))


@compiled
def _activate(value: float, activation: int) -> float:
    if activation == 0:
        return max(value, 0.0)
    if activation == 1:
        return np.tanh(value)
    return 1.0 / (1.0 + np.exp(-value))


@compiled
def score_pending(
    workload: Workload,
    cluster: Cluster,
    network: CompiledNetwork,
    scores: FloatArray,
    jobs: IntArray,
) -> int:
    """Score every pending job now.

    Args:
        workload: the jobs.
        cluster: read only, but for the count of scored jobs and the recent arrivals.
        network: the scorer.
        scores: filled for the first counts[PENDING] places.
        jobs: filled with the pending job numbers in the order of `scores`.

    Returns:
        Processors to keep free of batch work.
    """
    usage = current_usage(cluster)
    shares = workload.shares
    largest = shares.max()
    queue = queue_features_now(workload, cluster, usage)
    from_queue = _hidden_from_queue(queue, network)
    inner = np.empty_like(from_queue)
    activation = network.activation[0]
    count = cluster.counts[PENDING]
    cluster.counts[SCORED_JOBS] += count
    now = cluster.clock[NOW]
    for place in range(count):
        job = cluster.pending[place]
        account = workload.account[job]
        features = dynamic_job_features(
            now - workload.submit[job],
            workload.estimate[job],
            float(workload.processors[job]),
            workload.interactive[job],
            shares[account],
            usage[account],
            largest,
        )
        score = network.static_score[job]
        for index in range(len(features)):
            score += features[index] * network.dynamic_linear[index]
        static = network.static_hidden[job]
        for unit in range(len(inner)):
            inner[unit] = from_queue[unit] + static[unit]
        for index in range(len(features)):
            weights = network.dynamic_weights[index]
            for unit in range(len(inner)):  # units inside: these run side by side in hardware
                inner[unit] += features[index] * weights[unit]
        for unit in range(len(inner)):
            score += network.output[unit] * _activate(inner[unit], activation)
        scores[place] = score
        jobs[place] = job
    return _reserve(queue, network, cluster.capacity[0])
