"""A Q-network compiled on the features of its schema, with its past runs.

A prediction changes only with an event of a run of the job's user or class of requests, so its part
of the score is kept for each template until then.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from slurm_rl_plugin.domain.goals import AS_TRAINED, Goals
from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.features.history.run_history import BOUNDS
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
    alike_features,
    believed_rate,
    dynamic_job_features,
    expected_run,
    history_features,
    late_after,
    lateness,
    longest_wait,
    share_doublings,
)
from slurm_rl_plugin.simulator.kernel.workload import (
    ENDED_EVENT,
    NO_PAST,
    Workload,
    WorkloadHistory,
    copied,
    fill_known_hazards,
    fold_run,
    past_speaks,
)
from slurm_rl_plugin.simulator.scoring.queue_features import (
    NO_GRID,
    grid_code,
    grid_job_table,
    grid_state,
    no_arrivals,
    queue_features_now,
)
from slurm_rl_plugin.simulator.scoring.rules import current_usage
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: Features of jobs of the same template, the last ones of the schema.
_ALIKE = 1
#: The stamp of a template before its part is computed.
_NEVER = np.iinfo(np.int64).min


class HistoryPart(NamedTuple):
    """The part of a network that uses past runs, and its state."""

    weights: FloatArray  #: of the prediction's features into hidden units, shape [features, hidden]
    linear: FloatArray  #: of the same into the score, shape [features]
    alike_weights: FloatArray  #: of features of the template's jobs, shape [_ALIKE, hidden]
    alike_linear: FloatArray  #: shape [_ALIKE]
    speaks: BoolArray  #: whether past runs predict each template, as of its part, [templates]
    past: WorkloadHistory  #: rows of history
    #: Started jobs that have outlived each of BOUNDS or are known not to, ended jobs, then started
    #: and ended jobs counted in `running`; shape [ENDED_EVENT + 3].
    seen: IntArray
    since: FloatArray  #: the rows include what runs outlived before this time, seconds, shape [1]
    version: IntArray  #: how often the row of each user has changed, shape [users]
    site_version: IntArray  #: the same for each class of requests, shape [REQUEST_CLASSES]
    stamp: IntArray  #: versions at which each template's part was computed, shape [templates, 2]
    #: Added to hidden units and, last, to the score by the prediction, [templates, hidden + 1].
    part: FloatArray
    pending: IntArray  #: pending jobs of each template, shape [templates]
    running: IntArray  #: running jobs of each template, shape [templates]
    hazards: FloatArray  #: as each template's part was computed, shape [templates, len(BOUNDS)]


def history_part(workload: Workload | None, weights: FloatArray, linear: FloatArray) -> HistoryPart:
    """The part of a network that uses past runs, before the first job.

    Args:
        workload: the jobs; its rows of history are copied. None for a network that uses none.
        weights: of the history features into hidden units, shape [history features, hidden].
        linear: the same into the score, shape [history features].
    """
    past = NO_PAST if workload is None else workload.past
    if workload is not None and len(past.template) != len(workload.submit):
        raise SimulationError("a network that looks at past runs needs to know users.")
    templates = len(past.asked)
    split = max(len(linear) - _ALIKE, 0)
    return HistoryPart(
        weights=np.ascontiguousarray(weights[:split]),
        linear=np.ascontiguousarray(linear[:split]),
        alike_weights=np.ascontiguousarray(weights[split:]),
        alike_linear=np.ascontiguousarray(linear[split:]),
        speaks=np.ones(templates, dtype=np.bool_),
        past=copied(past),
        seen=np.zeros(ENDED_EVENT + 3, dtype=np.int64),
        since=np.array([-np.inf]),
        version=np.zeros(len(past.users), dtype=np.int64),
        site_version=np.zeros(len(past.site), dtype=np.int64),
        stamp=np.full((templates, 2), _NEVER, dtype=np.int64),
        part=np.zeros((templates, weights.shape[1] + 1)),
        pending=np.zeros(templates, dtype=np.int64),
        running=np.zeros(templates, dtype=np.int64),
        hazards=np.zeros((templates, len(BOUNDS))),
    )


NO_HISTORY = history_part(None, np.empty((0, 0)), np.empty(0))
_THRESHOLDS = np.array(BOUNDS)


@compiled_borrowing
def _next_outlived(cluster: Cluster, history: HistoryPart, kind: int) -> float:
    """When the next started job outlived a bound; inf if no other has by now."""
    while history.seen[kind] < cluster.state[0].started:
        job = cluster.started[history.seen[kind]]
        if cluster.jobs[job].run_time >= _THRESHOLDS[kind]:
            time = cluster.start[job] + _THRESHOLDS[kind]
            if time >= history.since[0]:
                return time if time <= cluster.state[0].now else np.inf
        history.seen[kind] += 1
    return np.inf


@compiled_borrowing
def _fold_next(cluster: Cluster, history: HistoryPart) -> bool:
    """Add the earliest new event to the history; False without one."""
    first, kind = np.inf, -1
    for each in range(ENDED_EVENT):
        time = _next_outlived(cluster, history, each)
        if time < first:
            first, kind = time, each
    if history.seen[ENDED_EVENT] < cluster.state[0].ended:
        job = cluster.ended[history.seen[ENDED_EVENT]]
        if cluster.start[job] + cluster.jobs[job].run_time < first:
            kind = ENDED_EVENT
    if kind < 0:
        return False
    list_of = cluster.ended if kind == ENDED_EVENT else cluster.started
    job = list_of[history.seen[kind]]
    user = cluster.past.user[job]
    template = cluster.past.template[job]
    fold_run(history.past, user, template, kind, cluster.jobs[job].run_time)
    history.seen[kind] += 1
    history.version[user] += 1
    history.site_version[history.past.alike[template]] += 1
    return True


@compiled_borrowing
def bring_up_to_now(cluster: Cluster, history: HistoryPart) -> None:
    """Add the events of runs since the last decision, and count the jobs of each template."""
    while _fold_next(cluster, history):
        pass
    seen, template = history.seen, cluster.past.template
    while seen[ENDED_EVENT + 1] < cluster.state[0].started:
        history.running[template[cluster.started[seen[ENDED_EVENT + 1]]]] += 1
        seen[ENDED_EVENT + 1] += 1
    while seen[ENDED_EVENT + 2] < cluster.state[0].ended:
        history.running[template[cluster.ended[seen[ENDED_EVENT + 2]]]] -= 1
        seen[ENDED_EVENT + 2] += 1
    count = cluster.state[0].pending  # two decisions at one time change the order of its starts
    for place in range(count):
        history.pending[template[cluster.pending[place]]] = 0
    for place in range(count):
        history.pending[template[cluster.pending[place]]] += 1


@compiled_borrowing
def _predict(cluster: Cluster, history: HistoryPart, job: int) -> None:
    past, user, template = history.past, cluster.past.user[job], cluster.past.template[job]
    history.speaks[template] = past_speaks(past, user, template)
    fill_known_hazards(history.hazards[template], past, user, template)
    mean, rate = expected_run(history.hazards[template], past.asked[template])
    features = history_features(mean, believed_rate(mean, rate, history.speaks[template]))
    part = history.part[template]
    hidden = len(part) - 1
    for unit in range(len(part)):
        part[unit] = 0.0
    for index in range(len(features)):
        for unit in range(hidden):
            part[unit] += features[index] * history.weights[index, unit]
        part[hidden] += features[index] * history.linear[index]


@compiled_borrowing
def bring_part_up(cluster: Cluster, history: HistoryPart, job: int) -> None:
    """Update the part of a job's template if its history has changed."""
    user, template = cluster.past.user[job], cluster.past.template[job]
    of_user, of_site = history.version[user], history.site_version[history.past.alike[template]]
    stamp = history.stamp[template]
    if stamp[0] != of_user or stamp[1] != of_site:
        _predict(cluster, history, job)
        stamp[0], stamp[1] = of_user, of_site


@compiled_inline
def add_history(cluster: Cluster, history: HistoryPart, job: int, inner: FloatArray) -> float:
    """Add the history features of a job to `inner`, [hidden]; their part of the linear term."""
    bring_part_up(cluster, history, job)
    template = cluster.past.template[job]
    part = history.part[template]
    score = part[len(inner)]
    for unit in range(len(inner)):
        inner[unit] += part[unit]
    pending, running = history.pending[template], history.running[template]
    if not history.speaks[template] or pending == 1 or running > 0:  # all features are 0
        return score
    alike = alike_features(pending, running)
    for index in range(len(alike)):
        score += alike[index] * history.alike_linear[index]
    for unit in range(len(inner)):
        for index in range(len(alike)):
            inner[unit] += alike[index] * history.alike_weights[index, unit]
    return score


class SiteSchema(NamedTuple):
    """The `site` schema."""

    code: int = NO_GRID


class JobsOnly(NamedTuple):
    """The `site` schema of a network whose queue features have no weight: none are compiled."""

    code: int = NO_GRID


class GridSchema(NamedTuple):
    """A schema with the papers' state."""

    code: int  #: as `grid_code` gives it
    places: IntArray  #: VO place of each account, shape [accounts]


class CompiledNetwork(NamedTuple):
    """A QNetwork with its scaler folded in and everything that never changes summed up."""

    queue_weights: FloatArray  #: shape [Fq, hidden]
    #: Of features that change while a job waits, shape [dynamic features, hidden]; of length 0 if
    #: all weights are 0.
    dynamic_weights: FloatArray
    dynamic_linear: FloatArray  #: the same into the score, shape [dynamic features]
    output: FloatArray  #: shape [hidden]
    static_hidden: FloatArray  #: static features, bias and scaler of each job, shape [n, hidden]
    static_score: FloatArray  #: linear part of the static features of each job, shape [n]
    activation: IntArray  #: index into ACTIVATIONS, shape [1]
    reserve_weights: FloatArray  #: shape [Fq]; all 0 for a network that holds nothing
    reserve_bias: FloatArray  #: shape [1]
    arrived: FloatArray  #: recent arrivals, see `no_arrivals`; changes
    longest: FloatArray  #: the longest recent wait, and when, seconds; shape [2]; changes
    goals: FloatArray  #: how much waits and shares count (`domain.goals`), shape [2]
    history: HistoryPart  #: what past runs add; changes
    grid: Any  #: the schema; queue features are compiled for each

    def rows(self, count: int) -> CompiledNetwork:
        """A copy with room for `count` jobs, to be filled by `write`."""
        return copied(self)._replace(
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
    """Fold the scaler and the static features of a workload into the weights.

    Args:
        network: of the `site` schema or one of the papers'.
        goals: what the site wants; for `site` only.
    """
    grid = grid_code(network.schema)
    if grid == NO_GRID and network.schema != SITE:
        raise SimulationError(
            "only networks of the site and reactive-grid schemas can be simulated."
        )
    counts = network.output != 0.0  # a unit of weight 0 adds nothing
    network = replace(
        network,
        queue_weights=network.queue_weights[:, counts],
        job_weights=network.job_weights[:, counts],
        bias=network.bias[counts],
        output=network.output[counts],
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
            static_job_features(workload.size, workload.interactive, workload.time_limit, goals)
        )
    else:
        static = grid_job_table(workload)
    known = static.shape[1]
    last = known + len(network.schema.dynamic_jobs)
    past_weights, past_linear = job_weights[last:].copy(), linear[last:].copy()
    past_weights[:1] *= goals.short_jobs
    past_linear[:1] *= goals.short_jobs
    uses_queue = bool(network.output.any()) or network.reserve_weights is not None
    schema: SiteSchema | JobsOnly | GridSchema = SiteSchema() if uses_queue else JobsOnly()
    if grid != NO_GRID:
        schema = GridSchema(grid, account_places(workload.shares))
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
        arrived=no_arrivals(workload) if uses_queue else np.empty(0),
        longest=np.array([0.0, -np.inf]),
        goals=np.array([goals.longest_wait, goals.points_a_doubling]),
        history=history_part(
            workload if network.looks_at_past else None, past_weights, past_linear
        ),
        grid=schema,
    )


#: Places in `CompiledNetwork.goals` and `.longest`.
_LONG_WAITS, _SHARES = 0, 1
_LONGEST, _SINCE = 0, 1


def _grid_features(cluster: Cluster, network: CompiledNetwork, _: FloatArray) -> Any:
    return grid_state(cluster, network.grid.places, network.grid.code)


@chosen_by_type("network.grid", {GridSchema: _grid_features})
def _queue_features(cluster: Cluster, network: CompiledNetwork, usage: FloatArray) -> Any:
    return queue_features_now(cluster, usage, network.arrived)


def _no_queue_part(
    _cluster: Cluster, _network: CompiledNetwork, _usage: FloatArray, _hidden: FloatArray
) -> int:
    return 0


@chosen_by_type("network.grid", {JobsOnly: _no_queue_part})
def queue_part(
    cluster: Cluster, network: CompiledNetwork, usage: FloatArray, hidden: FloatArray
) -> int:
    """Add the queue features now to `hidden`, before activation; the processors to hold.

    `usage` is the fraction of the consumed service of each account, shape [accounts].
    """
    wanted = network.reserve_bias[0]
    features = _queue_features(cluster, network, usage)
    for place in range(len(features)):
        wanted += features[place] * network.reserve_weights[place]
        for unit in range(len(hidden)):
            hidden[unit] += features[place] * network.queue_weights[place, unit]
    return int(min(max(np.floor(wanted + 0.5), 0.0), float(cluster.state[0].capacity)))


@compiled_borrowing
def activate(value: float, activation: int) -> float:
    """Apply the activation at this place of ACTIVATIONS."""
    if activation == 0:
        return max(value, 0.0)
    return 1.0 / (1.0 + np.exp(-value))


@compiled_borrowing
def uses_waits(network: CompiledNetwork) -> bool:
    """Whether a score changes with the time that a job has waited."""
    return len(network.dynamic_linear) > 0


@compiled_borrowing
def count_longest(cluster: Cluster, network: CompiledNetwork) -> None:
    """Update the longest recent wait (`features.site.longest_wait`)."""
    now, oldest = cluster.state[0].now, 0.0
    if cluster.state[0].pending > 0:  # the first has waited longest
        oldest = now - cluster.jobs[cluster.pending[0]].submit
    longest = network.longest
    since = now - longest[_SINCE] if longest[_SINCE] > -np.inf else 0.0
    longest[_LONGEST] = longest_wait(longest[_LONGEST], since, oldest)
    longest[_SINCE] = now


@compiled_inline
def _waiting_part(
    cluster: Cluster,
    network: CompiledNetwork,
    job: int,
    now: float,
    usage: FloatArray,
    doublings: FloatArray,
    inner: FloatArray,
) -> float:
    """Add the features that change while a job waits to `inner`; their part of the linear term."""
    account = cluster.jobs[job].account
    wait, late = now - cluster.jobs[job].submit, late_after(network.longest[_LONGEST])
    if np.isnan(doublings[account]):
        doublings[account] = share_doublings(cluster.shares[account], usage[account])
    features = dynamic_job_features(
        wait,
        lateness(wait, late) if wait > late else 0.0,
        doublings[account],
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


@compiled_inline
def job_part(
    cluster: Cluster,
    network: CompiledNetwork,
    job: int,
    usage: FloatArray,
    doublings: FloatArray,
    from_queue: FloatArray,
    inner: FloatArray,
) -> float:
    """Fill `inner` with hidden units before activation for a waiting job; its linear term.

    The network is up to date; `from_queue` is `queue_part` of zeros, shape [hidden], and
    `doublings` those of each account now, NaN until a job asks, shape [accounts].
    """
    score = network.static_score[job]
    static = network.static_hidden[job]
    for unit in range(len(inner)):
        inner[unit] = from_queue[unit] + static[unit]
    if len(network.history.stamp) > 0:
        score += add_history(cluster, network.history, job, inner)
    if uses_waits(network):
        score += _waiting_part(cluster, network, job, cluster.state[0].now, usage, doublings, inner)
    return score


@compiled
def score_pending(
    cluster: Cluster, network: CompiledNetwork, scores: FloatArray, jobs: IntArray
) -> int:
    """Fill `scores` and `jobs` for each pending job now; the processors to keep free of batch work.

    The recent arrivals and past runs of the network are brought up to date.
    """
    usage = current_usage(cluster)
    from_queue = np.zeros(len(network.output))
    reserve = 0
    if len(network.arrived) > 0:  # the queue features change an order or a reserve
        reserve = queue_part(cluster, network, usage, from_queue)
    inner = np.empty_like(from_queue)
    if len(network.history.stamp) > 0:
        bring_up_to_now(cluster, network.history)
    if uses_waits(network):
        count_longest(cluster, network)
    doublings = np.full(len(usage), np.nan)
    _fill_scores(cluster, network, usage, doublings, from_queue, inner, scores, jobs)
    return reserve


@compiled_borrowing
def _fill_scores(
    cluster: Cluster,
    network: CompiledNetwork,
    usage: FloatArray,
    doublings: FloatArray,
    from_queue: FloatArray,
    inner: FloatArray,
    scores: FloatArray,
    jobs: IntArray,
) -> None:
    activation = network.activation[0]
    for place in range(cluster.state[0].pending):
        job = cluster.pending[place]
        score = job_part(cluster, network, job, usage, doublings, from_queue, inner)
        for unit in range(len(inner)):
            score += network.output[unit] * activate(inner[unit], activation)
        scores[place] = score
        jobs[place] = job
