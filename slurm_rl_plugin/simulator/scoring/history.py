"""What past runs and jobs alike add to a network's score, inside the compiled loop.

What a prediction says changes only when a run of the job's user tells something, so its part of
the score is kept for each template until then.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.features.history.run_history import BOUNDS
from slurm_rl_plugin.features.history.run_prediction import PARTS, SHARES, nominal_shares
from slurm_rl_plugin.simulator.kernel.cluster import Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing, compiled_inline
from slurm_rl_plugin.simulator.kernel.compiled_features import (
    alike_features,
    believed_rate,
    expected_run,
    fill_shares,
    history_features,
    learn_shares,
    run_time_at,
)
from slurm_rl_plugin.simulator.kernel.workload import (
    ENDED_EVENT,
    NO_PAST,
    Workload,
    WorkloadHistory,
    fill_known_hazards,
    fold_run,
    past_speaks,
)
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: Features of jobs alike, the last ones of the schema.
_ALIKE = 1
#: Of a template whose part was never computed.
_NEVER = np.iinfo(np.int64).min


class HistoryPart(NamedTuple):
    """The part of a network that looks at past runs, and what it has seen."""

    weights: FloatArray  #: of the prediction's features into hidden units, shape [features, hidden]
    linear: FloatArray  #: of the same into the score, shape [features]
    alike_weights: FloatArray  #: of the features of jobs alike, shape [_ALIKE, hidden]
    alike_linear: FloatArray  #: shape [_ALIKE]
    #: Whether past runs spoke for each template when its part was computed, [templates].
    speaks: BoolArray
    past: WorkloadHistory  #: rows of history
    #: Started jobs that have outlived each of BOUNDS or are known not to, ended jobs, then started
    #: and ended jobs counted in `running`; shape [ENDED_EVENT + 3].
    seen: IntArray
    #: What runs outlived before this time is in the rows already, seconds, shape [1].
    since: FloatArray
    #: How often the row of each user, and of each class of requests, has changed, shape [users] and
    #: [REQUEST_CLASSES].
    version: IntArray
    site_version: IntArray  #: see `version`
    stamp: IntArray  #: versions at which each template's part was computed, shape [templates, 2]
    #: What the prediction adds to hidden units and, last, to the score, shape [templates, hidden +
    #: 1].
    part: FloatArray
    pending: IntArray  #: pending jobs of each template, shape [templates]
    running: IntArray  #: running jobs of each template, shape [templates]
    hazards: FloatArray  #: as each template's part was computed, shape [templates, len(BOUNDS)]
    #: Of runs below each number of the grid, shape [SHARES]; of length 0 where nothing asks for
    #: quantiles.
    shares: FloatArray
    #: Quantiles of each job as it started, seconds, NaN before, shape [n, len(PARTS)].
    told: FloatArray
    #: Shares that are asked for (`run_prediction.learn_shares`), [len(PARTS)].
    asked_shares: FloatArray

    def copy(self) -> HistoryPart:
        """The same in arrays of its own, to be changed."""
        return self._replace(**{name: column.copy() for name, column in self._asdict().items()})


def history_part(
    workload: Workload | None,
    weights: FloatArray,
    linear: FloatArray,
    *,
    quantiles: bool = False,
) -> HistoryPart:
    """The part of a network that looks at past runs.

    Args:
        workload: the jobs; its rows of history are copied. None for a network that looks at none.
        weights: of the history features into hidden units, shape [history features, hidden].
        linear: the same into the score, shape [history features].
        quantiles: whether quantiles of run times are asked for.

    Raises:
        SimulationError: the workload does not tell users apart.
    """
    past = NO_PAST if workload is None else workload.past
    if workload is not None and len(past.template) != len(workload.submit):
        raise SimulationError("a network that looks at past runs needs to know users.")
    templates = len(past.asked)
    split = max(len(linear) - _ALIKE, 0)
    rows = len(past.template) if quantiles else 0
    return HistoryPart(
        weights=np.ascontiguousarray(weights[:split]),
        linear=np.ascontiguousarray(linear[:split]),
        alike_weights=np.ascontiguousarray(weights[split:]),
        alike_linear=np.ascontiguousarray(linear[split:]),
        speaks=np.ones(templates, dtype=np.bool_),
        past=past.copy(),
        seen=np.zeros(ENDED_EVENT + 3, dtype=np.int64),
        since=np.array([-np.inf]),
        version=np.zeros(len(past.users), dtype=np.int64),
        site_version=np.zeros(len(past.site), dtype=np.int64),
        stamp=np.full((templates, 2), _NEVER, dtype=np.int64),
        part=np.zeros((templates, weights.shape[1] + 1)),
        pending=np.zeros(templates, dtype=np.int64),
        running=np.zeros(templates, dtype=np.int64),
        hazards=np.zeros((templates, len(BOUNDS))),
        shares=np.zeros(SHARES if quantiles else 0),
        told=np.full((rows, len(PARTS)), np.nan),
        asked_shares=nominal_shares(),
    )


NO_HISTORY = history_part(None, np.empty((0, 0)), np.empty(0))


_THRESHOLDS = np.array(BOUNDS)


@compiled_borrowing
def _next_outlived(workload: Workload, cluster: Cluster, history: HistoryPart, kind: int) -> float:
    """When the next started job outlives a bound; inf where none is known to by now."""
    while history.seen[kind] < cluster.state[0].started:
        job = cluster.started[history.seen[kind]]
        if workload.jobs[job].run_time >= _THRESHOLDS[kind]:
            time = cluster.start[job] + _THRESHOLDS[kind]
            if time >= history.since[0]:
                return time if time <= cluster.state[0].now else np.inf
        history.seen[kind] += 1
    return np.inf


@compiled_borrowing
def _fold_next(workload: Workload, cluster: Cluster, history: HistoryPart) -> bool:
    """Fold the earliest event that is not folded yet; False where there is none."""
    first, kind = np.inf, -1
    for each in range(ENDED_EVENT):
        time = _next_outlived(workload, cluster, history, each)
        if time < first:
            first, kind = time, each
    if history.seen[ENDED_EVENT] < cluster.state[0].ended:
        job = cluster.ended[history.seen[ENDED_EVENT]]
        if cluster.start[job] + workload.jobs[job].run_time < first:
            kind = ENDED_EVENT
    if kind < 0:
        return False
    list_of = cluster.ended if kind == ENDED_EVENT else cluster.started
    job = list_of[history.seen[kind]]
    user = workload.past.user[job]
    template = workload.past.template[job]
    if kind == ENDED_EVENT and len(history.told) > 0:
        learn_shares(history.asked_shares, history.told[job], workload.jobs[job].run_time)
    fold_run(history.past, user, template, kind, workload.jobs[job].run_time)
    history.seen[kind] += 1
    history.version[user] += 1
    history.site_version[history.past.alike[template]] += 1
    return True


@compiled_borrowing
def _foretell(workload: Workload, history: HistoryPart, job: int) -> None:
    """Remember what is foretold of a job that has started and still runs (`ForetoldRuns`)."""
    _bring_part_up(workload, history, job)
    for part in range(len(PARTS)):
        history.told[job, part] = predicted_quantile(workload, history, job, part)


@compiled_borrowing
def bring_up_to_now(workload: Workload, cluster: Cluster, history: HistoryPart) -> None:
    """Fold what runs have told since the last decision and count jobs alike."""
    while _fold_next(workload, cluster, history):
        pass
    seen, template, now = history.seen, workload.past.template, cluster.state[0].now
    while seen[ENDED_EVENT + 1] < cluster.state[0].started:
        job = cluster.started[seen[ENDED_EVENT + 1]]
        history.running[template[job]] += 1
        if len(history.told) > 0 and cluster.start[job] + workload.jobs[job].run_time > now:
            _foretell(workload, history, job)
        seen[ENDED_EVENT + 1] += 1
    while seen[ENDED_EVENT + 2] < cluster.state[0].ended:
        history.running[template[cluster.ended[seen[ENDED_EVENT + 2]]]] -= 1
        seen[ENDED_EVENT + 2] += 1
    count = cluster.state[0].pending
    for place in range(count):
        history.pending[template[cluster.pending[place]]] = 0
    for place in range(count):
        history.pending[template[cluster.pending[place]]] += 1


@compiled_borrowing
def _predict(workload: Workload, history: HistoryPart, job: int) -> None:
    """Compute the part of a job's template anew."""
    past, user, template = history.past, workload.past.user[job], workload.past.template[job]
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
def _bring_part_up(workload: Workload, history: HistoryPart, job: int) -> None:
    """Compute what is kept of a job's template anew where a run has told something of it."""
    user, template = workload.past.user[job], workload.past.template[job]
    of_user, of_site = history.version[user], history.site_version[history.past.alike[template]]
    stamp = history.stamp[template]
    if stamp[0] != of_user or stamp[1] != of_site:
        _predict(workload, history, job)
        stamp[0], stamp[1] = of_user, of_site


@compiled_borrowing
def predicted_quantile(workload: Workload, history: HistoryPart, job: int, part: int) -> float:
    """Seconds below which one of PARTS of such runs end; the limit at most.

    Args:
        history: made for quantiles, and brought up to now.
        part: place in `run_prediction.PARTS`.
    """
    _bring_part_up(workload, history, job)
    template = workload.past.template[job]
    fill_shares(history.shares, history.hazards[template])
    told = run_time_at(history.shares, history.asked_shares[part])
    return min(told, history.past.asked[template])


@compiled_inline
def add_history(workload: Workload, history: HistoryPart, job: int, inner: FloatArray) -> float:
    """Add what past runs and jobs alike tell of a job to `inner`; their part of the linear term.

    Args:
        inner: hidden units before activation, shape [hidden].
    """
    _bring_part_up(workload, history, job)
    template = workload.past.template[job]
    part = history.part[template]
    score = part[len(inner)]
    for unit in range(len(inner)):
        inner[unit] += part[unit]
    if not history.speaks[template]:
        return score
    alike = alike_features(history.pending[template], history.running[template])
    for index in range(len(alike)):
        score += alike[index] * history.alike_linear[index]
    for unit in range(len(inner)):
        for index in range(len(alike)):
            inner[unit] += alike[index] * history.alike_weights[index, unit]
    return score
