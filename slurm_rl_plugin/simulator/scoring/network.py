"""A Q-network evaluated inside the compiled loop, on the features of its schema."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from slurm_rl_plugin.domain.goals import AS_TRAINED, Goals
from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.features.reactive_grid import account_places
from slurm_rl_plugin.features.site import SITE, static_job_features
from slurm_rl_plugin.policies.network import ACTIVATIONS, QNetwork
from slurm_rl_plugin.simulator.kernel.cluster import Cluster
from slurm_rl_plugin.simulator.kernel.compilation import (
    chosen_by_type,
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
from slurm_rl_plugin.simulator.scoring.history import (
    HistoryPart,
    add_history,
    bring_up_to_now,
    history_part,
)
from slurm_rl_plugin.simulator.scoring.queue_features import (
    GRID_WAIT,
    NO_GRID,
    grid_code,
    grid_job_table,
    grid_state,
    no_arrivals,
    queue_features_now,
)
from slurm_rl_plugin.simulator.scoring.rules import current_usage
from slurm_rl_plugin.units import FloatArray, IntArray


class SiteSchema(NamedTuple):
    """The `site` schema."""

    code: int = NO_GRID


class GridSchema(NamedTuple):
    """A schema with the papers' state."""

    code: int  #: as `grid_code` gives it
    places: IntArray  #: VO place of each account, shape [accounts]


class CompiledNetwork(NamedTuple):
    """A QNetwork with its scaler folded in and everything that never changes summed up."""

    queue_weights: FloatArray  #: shape [Fq, hidden]
    #: Of what changes while a job waits, shape [dynamic features, hidden]; of length 0 where that
    #: weighs nothing.
    dynamic_weights: FloatArray
    dynamic_linear: FloatArray  #: the same into the score, shape [dynamic features]
    output: FloatArray  #: shape [hidden]
    static_hidden: FloatArray  #: static features, bias and scaler of each job, shape [n, hidden]
    static_score: FloatArray  #: linear part of the static features of each job, shape [n]
    activation: IntArray  #: index into ACTIVATIONS, shape [1]
    reserve_weights: FloatArray  #: shape [Fq]; all 0 for a network that holds nothing
    reserve_bias: FloatArray  #: shape [1]
    #: Recent arrivals, as `no_arrivals` makes them; changes while the network scores.
    arrived: FloatArray
    longest: FloatArray  #: the longest wait known lately, and when, seconds; shape [2]; changes
    goals: FloatArray  #: how much waits and shares count (`domain.goals`), shape [2]
    history: HistoryPart  #: what past runs add; changes while the network scores
    grid: Any  #: which schema it is, for each of which its queue features are compiled

    def copy(self) -> CompiledNetwork:
        """The same with a memory of its own of arrivals, waits and past runs."""
        return self._replace(
            arrived=self.arrived.copy(), longest=self.longest.copy(), history=self.history.copy()
        )

    def rows(self, count: int) -> CompiledNetwork:
        """A copy with room for `count` jobs, to be filled by `write`."""
        return self.copy()._replace(
            static_hidden=np.zeros((count, self.static_hidden.shape[1])),
            static_score=np.zeros(count),
        )

    def write(self, places: slice, jobs: IntArray, known: CompiledNetwork) -> None:
        """Fill rows of `rows` with what was compiled for these numbers of `known`."""
        self.static_hidden[places] = known.static_hidden[jobs]
        self.static_score[places] = known.static_score[jobs]


def compile_network(
    network: QNetwork, workload: Workload, goals: Goals = AS_TRAINED
) -> CompiledNetwork:
    """Fold the scaler into the weights and the static features of a workload into offsets.

    Args:
        network: of the `site` schema or one of the papers'.
        goals: what the site wants; for `site` only.

    Raises:
        SimulationError: the network was made for another schema.
    """
    grid = grid_code(network.schema)
    if grid == NO_GRID and network.schema != SITE:
        raise SimulationError(
            "only networks of the site and reactive-grid schemas can be simulated."
        )
    job_weights = network.job_weights / network.job_scale[:, None]
    linear = network.linear / network.job_scale
    queue_weights = network.queue_weights / network.queue_scale[:, None]
    bias = network.bias - network.queue_mean @ queue_weights - network.job_mean @ job_weights
    score = network.output_bias - float(network.job_mean @ linear)
    hold = np.zeros_like(network.queue_scale)
    if network.reserve_weights is not None:
        hold = network.reserve_weights / network.queue_scale
    if grid == NO_GRID:
        static = np.column_stack(
            static_job_features(workload, workload.time_limit, goals.wide_jobs, goals.interactive)
        )
    else:
        static = grid_job_table(workload)
    known = static.shape[1]
    last = known + len(network.schema.dynamic_jobs)
    past_weights, past_linear = job_weights[last:].copy(), linear[last:].copy()
    past_weights[:1] *= goals.short_jobs
    past_linear[:1] *= goals.short_jobs
    tells = network.looks_at_past
    changes = bool(job_weights[known:last].any() or linear[known:last].any())
    changing = slice(known, last if changes else known)
    return CompiledNetwork(
        queue_weights=np.ascontiguousarray(queue_weights),
        dynamic_weights=np.ascontiguousarray(job_weights[changing]),
        dynamic_linear=np.ascontiguousarray(linear[changing]),
        output=np.ascontiguousarray(network.output),
        static_hidden=static @ job_weights[:known] + bias,
        static_score=static @ linear[:known] + score,
        activation=np.array([ACTIVATIONS.index(network.activation)], dtype=np.int64),
        reserve_weights=hold,
        reserve_bias=np.array([network.reserve_bias - float(network.queue_mean @ hold)]),
        arrived=no_arrivals(workload) if _queue_tells(network) else np.empty(0),
        longest=np.array([0.0, -np.inf]),
        goals=np.array([goals.longest_wait, goals.points_a_doubling]),
        history=history_part(workload if tells else None, past_weights, past_linear),
        grid=SiteSchema() if grid == NO_GRID else GridSchema(grid, account_places(workload.shares)),
    )


def _queue_tells(network: QNetwork) -> bool:
    """Whether the queue features can change an order or a reserve."""
    return bool(network.output.any()) or network.reserve_weights is not None


#: Places in `CompiledNetwork.goals` and `.longest`.
_LONG_WAITS, _SHARES = 0, 1
_LONGEST, _SINCE = 0, 1


def _grid_features(
    workload: Workload, cluster: Cluster, network: CompiledNetwork, _: FloatArray
) -> Any:
    return grid_state(workload, cluster, network.grid.places, network.grid.code)


@chosen_by_type("network.grid", {GridSchema: _grid_features})
def _queue_features(
    workload: Workload, cluster: Cluster, network: CompiledNetwork, usage: FloatArray
) -> Any:
    """The queue features of the network's schema now, a tuple."""
    return queue_features_now(workload, cluster, usage, network.arrived)


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
        network: its recent arrivals are brought up to now.
        usage: fraction of the consumed service of each account, shape [accounts].
        hidden: hidden units before activation, shape [hidden].
    """
    wanted = network.reserve_bias[0]
    features = _queue_features(workload, cluster, network, usage)
    for place in range(len(features)):
        wanted += features[place] * network.reserve_weights[place]
        for unit in range(len(hidden)):
            hidden[unit] += features[place] * network.queue_weights[place, unit]
    return int(min(max(np.floor(wanted + 0.5), 0.0), float(cluster.state[0].capacity)))


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
    now, oldest = cluster.state[0].now, 0.0
    for place in range(cluster.state[0].pending):
        oldest = max(oldest, now - workload.jobs[cluster.pending[place]].submit)
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
    wait = now - workload.jobs[job].submit
    if network.grid.code == GRID_WAIT:
        waited = log_seconds(wait)
        for unit in range(len(inner)):
            inner[unit] += waited * network.dynamic_weights[0, unit]
        return waited * network.dynamic_linear[0]
    account = workload.jobs[job].account
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
        network: the scorer; its past runs and waits are brought up to now.
        usage: fraction of the consumed service of each account, shape [accounts].
        from_queue: what `queue_part` made of zeros, shape [hidden].
        inner: shape [hidden].
    """
    now = cluster.state[0].now
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
    """Score every pending job now; the processors to keep free of batch work.

    Args:
        network: the scorer; its recent arrivals and its past runs are brought up to now.
        scores: filled for the first `pending` places.
        jobs: filled with the pending job numbers in the order of `scores`.
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
    now = cluster.state[0].now
    waiting_tells = looks_at_time(network)
    past_tells = len(network.history.stamp) > 0
    for place in range(cluster.state[0].pending):
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
