"""What past runs and jobs alike add to a network's score, inside the compiled loop.

What a prediction says changes only when a run of the job's user tells something, so its part of
the score is kept for each template until then.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.features.history.run_history import SHORT_RUN_TIMES
from slurm_rl_plugin.features.history.run_prediction import (
    KNOWN_FACTS,
    PREDICTED,
    ROW_FACTS,
    TEMPLATE_FACTS,
    TEMPLATE_KNOWN,
    USER_FACTS,
    USER_KNOWN,
    RunTimePrediction,
    request_facts,
)
from slurm_rl_plugin.simulator.kernel.cluster import ENDED, NOW, PENDING, STARTED, Cluster, Workload
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing, compiled_inline
from slurm_rl_plugin.simulator.kernel.compiled_features import (
    alike_features,
    at_its_word,
    fill_row_facts,
    history_features,
)
from slurm_rl_plugin.simulator.kernel.workload_history import (
    ENDED_EVENT,
    NO_PAST,
    WorkloadHistory,
    fold_run,
    past_speaks,
)
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: Features of jobs alike, the last ones of the schema.
_ALIKE = 2
#: Of a template whose part was never computed.
_NEVER = np.iinfo(np.int64).min
_THRESHOLDS = np.array(SHORT_RUN_TIMES)


class HistoryPart(NamedTuple):
    """The part of a network that looks at past runs, and what it has seen.

    Attributes:
        prediction: weights of the run-time prediction, shape [PREDICTED, KNOWN_FACTS].
        weights: of the prediction's features into hidden units, shape [features, hidden].
        linear: of the same into the score, shape [features].
        alike_weights: of the features of jobs alike, shape [_ALIKE, hidden].
        alike_linear: shape [_ALIKE].
        asked: what the request adds to each output of the prediction, shape [templates, PREDICTED].
        processors: of the jobs of each template, shape [templates].
        speaks: whether past runs spoke for each template when its part was computed, [templates].
        past: rows of history.
        user_facts: what the rows of users tell, shape [users, ROW_FACTS].
        user_changed: whose row has changed since, shape [users].
        template_facts: the same for templates, shape [templates, ROW_FACTS].
        template_changed: shape [templates].
        seen: started jobs that have outlived each of SHORT_RUN_TIMES or are known not to, ended
            jobs, then started and ended jobs counted in `running`; shape [ENDED_EVENT + 3].
        version: how often each user's row has changed, last the site's, shape [users + 1].
        stamp: version at which each template's part was computed, shape [templates].
        part: what the prediction adds to hidden units and, last, to the score, shape [templates,
            hidden + 1].
        pending: pending jobs of each template, shape [templates].
        running: running jobs of each template, shape [templates].
    """

    prediction: FloatArray
    weights: FloatArray
    linear: FloatArray
    alike_weights: FloatArray
    alike_linear: FloatArray
    asked: FloatArray
    processors: FloatArray
    speaks: BoolArray
    past: WorkloadHistory
    user_facts: FloatArray
    user_changed: BoolArray
    template_facts: FloatArray
    template_changed: BoolArray
    seen: IntArray
    version: IntArray
    stamp: IntArray
    part: FloatArray
    pending: IntArray
    running: IntArray


def history_part(
    prediction: RunTimePrediction | None,
    workload: Workload | None,
    weights: FloatArray,
    linear: FloatArray,
) -> HistoryPart:
    """The part of a network that looks at past runs.

    Args:
        prediction: None for a network that does not look at them.
        workload: the jobs; its rows of history are copied.
        weights: of the history features into hidden units, shape [history features, hidden].
        linear: the same into the score, shape [history features].

    Raises:
        SimulationError: history features count, but nothing predicts run times.
    """
    if prediction is None or workload is None:
        if weights.any() or linear.any():
            raise SimulationError("a network that looks at past runs needs a run-time prediction.")
        nothing = np.zeros((PREDICTED, KNOWN_FACTS))
        none = np.empty((0, PREDICTED))
        return _part_of(nothing, NO_PAST, none, np.empty(0), weights, linear)
    past = workload.past
    if len(past.template) != len(workload.submit):
        raise SimulationError("a network that looks at past runs needs to know users.")
    processors = np.ones(len(past.templates))
    processors[past.template] = workload.processors
    request = np.column_stack(request_facts(past.asked, processors))
    asked = request @ prediction.weights[:, 1:USER_FACTS].T
    return _part_of(prediction.weights, past.copy(), asked, processors, weights, linear)


def _part_of(
    prediction: FloatArray,
    past: WorkloadHistory,
    asked: FloatArray,
    processors: FloatArray,
    weights: FloatArray,
    linear: FloatArray,
) -> HistoryPart:
    users, templates = len(past.users), len(past.templates)
    split = max(len(linear) - _ALIKE, 0)
    return HistoryPart(
        prediction=np.ascontiguousarray(prediction),
        weights=np.ascontiguousarray(weights[:split]),
        linear=np.ascontiguousarray(linear[:split]),
        alike_weights=np.ascontiguousarray(weights[split:]),
        alike_linear=np.ascontiguousarray(linear[split:]),
        asked=asked,
        processors=processors,
        speaks=np.ones(templates, dtype=np.bool_),
        past=past,
        user_facts=np.zeros((users, ROW_FACTS)),
        user_changed=np.ones(users, dtype=np.bool_),
        template_facts=np.zeros((templates, ROW_FACTS)),
        template_changed=np.ones(templates, dtype=np.bool_),
        seen=np.zeros(ENDED_EVENT + 3, dtype=np.int64),
        version=np.zeros(users + 1, dtype=np.int64),
        stamp=np.full(templates, _NEVER, dtype=np.int64),
        part=np.zeros((templates, weights.shape[1] + 1)),
        pending=np.zeros(templates, dtype=np.int64),
        running=np.zeros(templates, dtype=np.int64),
    )


NO_HISTORY = history_part(None, None, np.empty((0, 0)), np.empty(0))


@compiled_borrowing
def _next_outlived(workload: Workload, cluster: Cluster, history: HistoryPart, kind: int) -> float:
    """When the next started job outlives a bound; inf where none is known to by now."""
    while history.seen[kind] < cluster.counts[STARTED]:
        job = cluster.started[history.seen[kind]]
        if workload.run_time[job] >= _THRESHOLDS[kind]:
            time = cluster.start[job] + _THRESHOLDS[kind]
            return time if time <= cluster.clock[NOW] else np.inf
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
    if history.seen[ENDED_EVENT] < cluster.counts[ENDED]:
        job = cluster.ended[history.seen[ENDED_EVENT]]
        if cluster.start[job] + workload.run_time[job] < first:
            kind = ENDED_EVENT
    if kind < 0:
        return False
    list_of = cluster.ended if kind == ENDED_EVENT else cluster.started
    job = list_of[history.seen[kind]]
    user = workload.past.user[job]
    template = workload.past.template[job]
    processors = history.processors[template]
    fold_run(history.past, user, template, kind, workload.run_time[job], processors)
    history.seen[kind] += 1
    history.user_changed[user] = True
    history.template_changed[template] = True
    history.version[user] += 1
    history.version[-1] += 1
    return True


@compiled_borrowing
def bring_up_to_now(workload: Workload, cluster: Cluster, history: HistoryPart) -> None:
    """Fold what runs have told since the last decision and count jobs alike."""
    while _fold_next(workload, cluster, history):
        pass
    seen, template = history.seen, workload.past.template
    while seen[ENDED_EVENT + 1] < cluster.counts[STARTED]:
        history.running[template[cluster.started[seen[ENDED_EVENT + 1]]]] += 1
        seen[ENDED_EVENT + 1] += 1
    while seen[ENDED_EVENT + 2] < cluster.counts[ENDED]:
        history.running[template[cluster.ended[seen[ENDED_EVENT + 2]]]] -= 1
        seen[ENDED_EVENT + 2] += 1
    count = cluster.counts[PENDING]
    for place in range(count):
        history.pending[template[cluster.pending[place]]] = 0
    for place in range(count):
        history.pending[template[cluster.pending[place]]] += 1


@compiled_borrowing
def _bring_facts_up(history: HistoryPart, user: int, template: int) -> None:
    """Rows change more seldom than predictions are made: what they tell is kept until then."""
    past = history.past
    if not past.user_known[user]:
        fill_row_facts(history.user_facts[user], past.site)
    elif history.user_changed[user]:
        fill_row_facts(history.user_facts[user], past.users[user])
        history.user_changed[user] = False
    if not past.template_known[template]:
        for fact in range(ROW_FACTS):
            history.template_facts[template, fact] = history.user_facts[user, fact]
    elif history.template_changed[template]:
        fill_row_facts(history.template_facts[template], past.templates[template])
        history.template_changed[template] = False


@compiled_borrowing
def _predicted(workload: Workload, history: HistoryPart, job: int, output: int) -> float:
    """One output of the prediction: the terms of `fill_known_facts` times their weights."""
    user, template = workload.past.user[job], workload.past.template[job]
    weights = history.prediction[output]
    total = weights[0] + history.asked[template, output]
    of_user, of_template = history.user_facts[user], history.template_facts[template]
    for fact in range(ROW_FACTS):
        total += weights[USER_FACTS + fact] * of_user[fact]
        total += weights[TEMPLATE_FACTS + fact] * of_template[fact]
    total += weights[USER_KNOWN] * history.past.user_known[user]
    return total + weights[TEMPLATE_KNOWN] * history.past.template_known[template]


@compiled_borrowing
def _predict(workload: Workload, history: HistoryPart, job: int) -> None:
    """Compute the part of a job's template anew."""
    user, template = workload.past.user[job], workload.past.template[job]
    _bring_facts_up(history, user, template)
    speaks = past_speaks(history.past, user, template, history.processors[template])
    history.speaks[template] = speaks
    very_short, short, hours, log_run = at_its_word(history.past.asked[template])
    if speaks:
        very_short = _predicted(workload, history, job, 0)
        short = _predicted(workload, history, job, 1)
        hours = _predicted(workload, history, job, 2)
        log_run = _predicted(workload, history, job, 3)
    features = history_features(
        very_short,
        short,
        hours,
        log_run,
        history.past.asked[template],
        1.0 * (speaks and history.past.template_known[template]),
    )
    part = history.part[template]
    hidden = len(part) - 1
    for unit in range(len(part)):
        part[unit] = 0.0
    for index in range(len(features)):
        for unit in range(hidden):
            part[unit] += features[index] * history.weights[index, unit]
        part[hidden] += features[index] * history.linear[index]


@compiled_inline
def add_history(workload: Workload, history: HistoryPart, job: int, inner: FloatArray) -> float:
    """Add what past runs and jobs alike tell of a job to `inner`; their part of the linear term.

    Args:
        workload: the jobs.
        history: brought up to now.
        job: its number.
        inner: hidden units before activation, shape [hidden].
    """
    user, template = workload.past.user[job], workload.past.template[job]
    stamp = history.version[user]
    if not history.past.user_known[user]:
        stamp = -1 - history.version[-1]
    if history.stamp[template] != stamp:
        _predict(workload, history, job)
        history.stamp[template] = stamp
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
