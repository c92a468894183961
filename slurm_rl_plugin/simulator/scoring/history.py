"""What past runs and jobs alike add to a network's score, inside the compiled loop.

What a prediction says changes only when a run of the job's user tells something, so its part of
the score is kept for each template until then.
"""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.features.history.run_history import SHORT_RUN_TIMES
from slurm_rl_plugin.features.history.run_prediction import (
    ROW_FACTS,
    TEMPLATE_FACTS,
    TEMPLATE_KNOWN,
    USER_FACTS,
    USER_KNOWN,
)
from slurm_rl_plugin.features.history.run_spread import PARTS
from slurm_rl_plugin.simulator.kernel.cluster import ENDED, NOW, PENDING, STARTED, Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing, compiled_inline
from slurm_rl_plugin.simulator.kernel.compiled_features import (
    alike_features,
    at_its_word,
    fill_row_facts,
    fill_shares,
    history_features,
    learn_shares,
    run_time_at,
)
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.kernel.workload_history import (
    ENDED_EVENT,
    fold_run,
    past_speaks,
)
from slurm_rl_plugin.simulator.scoring.history_part import HistoryPart
from slurm_rl_plugin.units import FloatArray

_THRESHOLDS = np.array(SHORT_RUN_TIMES)


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
    if kind == ENDED_EVENT and len(history.told) > 0:
        learn_shares(history.asked_shares, history.told[job], workload.run_time[job])
    fold_run(history.past, user, template, kind, workload.run_time[job], processors)
    history.seen[kind] += 1
    history.user_changed[user] = True
    history.template_changed[template] = True
    history.version[user] += 1
    history.version[-1] += 1
    return True


@compiled_borrowing
def _foretell(workload: Workload, history: HistoryPart, job: int) -> None:
    """Remember what is foretold of a job that has started and still runs (`ForetoldRuns`)."""
    _bring_part_up(workload, history, job)
    if history.speaks[workload.past.template[job]]:
        for part in range(len(PARTS)):
            history.told[job, part] = predicted_quantile(workload, history, job, part)


@compiled_borrowing
def bring_up_to_now(workload: Workload, cluster: Cluster, history: HistoryPart) -> None:
    """Fold what runs have told since the last decision and count jobs alike."""
    while _fold_next(workload, cluster, history):
        pass
    seen, template, now = history.seen, workload.past.template, cluster.clock[NOW]
    while seen[ENDED_EVENT + 1] < cluster.counts[STARTED]:
        job = cluster.started[seen[ENDED_EVENT + 1]]
        history.running[template[job]] += 1
        if len(history.told) > 0 and cluster.start[job] + workload.run_time[job] > now:
            _foretell(workload, history, job)
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
    asked = history.asked[template, output]
    return _weighed(history, user, template, history.prediction[output], asked)


@compiled_borrowing
def _fill_spread(history: HistoryPart, user: int, template: int) -> None:
    for bound in range(len(history.log_odds)):
        asked = history.asked_spread[template, bound]
        weights = history.spread[bound]
        history.log_odds[bound] = _weighed(history, user, template, weights, asked)
    fill_shares(history.shares[template], history.log_odds)


@compiled_borrowing
def _weighed(
    history: HistoryPart, user: int, template: int, weights: FloatArray, asked: float
) -> float:
    total = weights[0] + asked
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
    if len(history.spread) > 0:
        _fill_spread(history, user, template)
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


@compiled_borrowing
def _bring_part_up(workload: Workload, history: HistoryPart, job: int) -> None:
    """Compute what is kept of a job's template anew where a run of its user has told something."""
    user, template = workload.past.user[job], workload.past.template[job]
    stamp = history.version[user]
    if not history.past.user_known[user]:
        stamp = -1 - history.version[-1]
    if history.stamp[template] != stamp:
        _predict(workload, history, job)
        history.stamp[template] = stamp


@compiled_borrowing
def predicted_quantile(workload: Workload, history: HistoryPart, job: int, part: int) -> float:
    """Seconds below which one of `run_spread.PARTS` of such runs end; the request at most.

    Args:
        workload: the jobs.
        history: made with a spread, and brought up to now.
        job: its number.
        part: place in PARTS.
    """
    _bring_part_up(workload, history, job)
    template = workload.past.template[job]
    if not history.speaks[template]:
        return history.past.asked[template]
    return run_time_at(history.shares[template], history.asked_shares[part])


@compiled_inline
def add_history(workload: Workload, history: HistoryPart, job: int, inner: FloatArray) -> float:
    """Add what past runs and jobs alike tell of a job to `inner`; their part of the linear term.

    Args:
        workload: the jobs.
        history: brought up to now.
        job: its number.
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
