"""A Q-network evaluated inside the compiled loop, on the features of its schema."""

from __future__ import annotations

from typing import Any

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import (
    NOW,
    PENDING,
    Cluster,
)
from slurm_rl_plugin.simulator.kernel.compilation import (
    compiled,
    compiled_borrowing,
    compiled_inline,
)
from slurm_rl_plugin.simulator.kernel.compiled_features import (
    dynamic_job_features,
    log_seconds,
    longest_wait,
)
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.scoring.compiled_network import CompiledNetwork
from slurm_rl_plugin.simulator.scoring.history import (
    add_history,
    bring_up_to_now,
)
from slurm_rl_plugin.simulator.scoring.reactive_grid import (
    GRID_WAIT,
    NO_GRID,
    grid_state,
)
from slurm_rl_plugin.simulator.scoring.rules import current_usage
from slurm_rl_plugin.simulator.scoring.site_queue import queue_features_now
from slurm_rl_plugin.units import FloatArray, IntArray

#: Places in `CompiledNetwork.goals` and `.longest`.
_LONG_WAITS, _SHARES = 0, 1
_LONGEST, _SINCE = 0, 1


@compiled
def _take_queue(
    features: Any, first: int, network: CompiledNetwork, wanted: float, hidden: FloatArray
) -> float:
    """Add the part of queue features, from number `first` on, to `hidden` and to `wanted`."""
    for place in range(len(features)):
        wanted += features[place] * network.reserve_weights[first + place]
        for unit in range(len(hidden)):
            hidden[unit] += features[place] * network.queue_weights[first + place, unit]
    return wanted


@compiled_borrowing
def sees_queue(network: CompiledNetwork) -> bool:
    """Whether its arrivals are counted, since the queue features change an order or a reserve."""
    return len(network.arrived) > 0


@compiled
def queue_part(
    workload: Workload,
    cluster: Cluster,
    network: CompiledNetwork,
    usage: FloatArray,
    hidden: FloatArray,
) -> int:
    """Add the part of the queue features now to `hidden`; the processors to hold.

    Args:
        workload: the jobs.
        cluster: read only.
        network: its recent arrivals are brought up to now.
        usage: fraction of the consumed service of each account, shape [accounts].
        hidden: hidden units before activation, shape [hidden].
    """
    wanted = network.reserve_bias[0]
    if network.grid[0] == NO_GRID:
        features = queue_features_now(workload, cluster, usage, network.arrived)
        wanted = _take_queue(features, 0, network, wanted, hidden)
    else:
        state = grid_state(workload, cluster, network.places, network.grid[0])
        wanted = _take_queue(state, 0, network, wanted, hidden)
    return int(min(max(np.floor(wanted + 0.5), 0.0), float(cluster.capacity[0])))


@compiled_borrowing
def activate(value: float, activation: int) -> float:
    """Apply the activation that stands at this place of ACTIVATIONS."""
    if activation == 0:
        return max(value, 0.0)
    return 1.0 / (1.0 + np.exp(-value))


@compiled_borrowing
def looks_at_time(network: CompiledNetwork) -> bool:
    """Whether a score changes with the time that a job has waited."""
    return len(network.dynamic_linear) > 0


@compiled_borrowing
def count_longest(workload: Workload, cluster: Cluster, network: CompiledNetwork) -> None:
    """Bring the longest wait known lately up to now (`features.site.longest_wait`)."""
    now, oldest = cluster.clock[NOW], 0.0
    for place in range(cluster.counts[PENDING]):
        oldest = max(oldest, now - workload.submit[cluster.pending[place]])
    longest = network.longest
    since = now - longest[_SINCE] if longest[_SINCE] > -np.inf else 0.0
    longest[_LONGEST] = longest_wait(longest[_LONGEST], since, oldest)
    longest[_SINCE] = now


@compiled_inline
def _waiting_part(
    workload: Workload,
    network: CompiledNetwork,
    job: int,
    now: float,
    usage: FloatArray,
    inner: FloatArray,
) -> float:
    """Add the features that change while a job waits to `inner`; their part of the linear term."""
    wait = now - workload.submit[job]
    if network.grid[0] == GRID_WAIT:
        waited = log_seconds(wait)
        for unit in range(len(inner)):
            inner[unit] += waited * network.dynamic_weights[0, unit]
        return waited * network.dynamic_linear[0]
    account = workload.account[job]
    features = dynamic_job_features(
        wait,
        network.longest[_LONGEST],
        workload.shares[account],
        usage[account],
        network.goals[_LONG_WAITS],
        network.goals[_SHARES],
    )
    linear = 0.0
    for index in range(len(features)):
        linear += features[index] * network.dynamic_linear[index]
        weights = network.dynamic_weights[index]
        for unit in range(len(inner)):  # units inside: these run side by side in hardware
            inner[unit] += features[index] * weights[unit]
    return linear


@compiled
def job_part(
    workload: Workload,
    cluster: Cluster,
    network: CompiledNetwork,
    job: int,
    usage: FloatArray,
    from_queue: FloatArray,
    inner: FloatArray,
) -> float:
    """Fill `inner` with hidden units before activation for a waiting job; its linear term.

    The loop of `score_pending` for one job. That loop keeps lines of its own: calling this one
    there, inlined, made the simulator slower by a tenth.

    Args:
        workload: the jobs.
        cluster: read only.
        network: the scorer; its past runs and waits are brought up to now.
        job: its number.
        usage: fraction of the consumed service of each account, shape [accounts].
        from_queue: what `queue_part` made of zeros, shape [hidden].
        inner: shape [hidden].
    """
    now = cluster.clock[NOW]
    score = network.static_score[job]
    static = network.static_hidden[job]
    for unit in range(len(inner)):
        inner[unit] = from_queue[unit] + static[unit]
    if len(network.history.stamp) > 0:
        score += add_history(workload, network.history, job, inner)
    if looks_at_time(network):
        score += _waiting_part(workload, network, job, now, usage, inner)
    return score


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
        cluster: read only.
        network: the scorer; its recent arrivals and its past runs are brought up to now.
        scores: filled for the first counts[PENDING] places.
        jobs: filled with the pending job numbers in the order of `scores`.

    Returns:
        Processors to keep free of batch work.
    """
    usage = current_usage(cluster)
    from_queue = np.zeros(len(network.output))
    reserve = 0
    if sees_queue(network):
        reserve = queue_part(workload, cluster, network, usage, from_queue)
    inner = np.empty_like(from_queue)
    if len(network.history.stamp) > 0:
        bring_up_to_now(workload, cluster, network.history)
    if looks_at_time(network):
        count_longest(workload, cluster, network)
    _fill_scores(workload, cluster, network, usage, from_queue, inner, scores, jobs)
    return reserve


@compiled_borrowing
def _fill_scores(
    workload: Workload,
    cluster: Cluster,
    network: CompiledNetwork,
    usage: FloatArray,
    from_queue: FloatArray,
    inner: FloatArray,
    scores: FloatArray,
    jobs: IntArray,
) -> None:
    """Fill `scores` with the network's output for each waiting job, `jobs` with its number."""
    activation = network.activation[0]
    now = cluster.clock[NOW]
    waiting_tells = looks_at_time(network)
    past_tells = len(network.history.stamp) > 0
    for place in range(cluster.counts[PENDING]):
        job = cluster.pending[place]
        score = network.static_score[job]
        static = network.static_hidden[job]
        for unit in range(len(inner)):
            inner[unit] = from_queue[unit] + static[unit]
        if past_tells:
            score += add_history(workload, network.history, job, inner)
        if waiting_tells:
            score += _waiting_part(workload, network, job, now, usage, inner)
        for unit in range(len(inner)):
            score += network.output[unit] * activate(inner[unit], activation)
        scores[place] = score
        jobs[place] = job
