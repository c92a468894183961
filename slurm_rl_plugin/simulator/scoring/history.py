"""What past runs and jobs alike add to a network's score, inside the compiled loop.

What a prediction says changes only when a run of the job's user tells something, so its part of
the score is kept for each template until then.
"""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.features.history.run_history import BOUNDS
from slurm_rl_plugin.features.history.run_prediction import PARTS
from slurm_rl_plugin.simulator.kernel.cluster import ENDED, NOW, PENDING, STARTED, Cluster
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
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.kernel.workload_history import (
    ENDED_EVENT,
    fill_known_hazards,
    fold_run,
    past_speaks,
)
from slurm_rl_plugin.simulator.scoring.history_part import HistoryPart
from slurm_rl_plugin.units import FloatArray

_THRESHOLDS = np.array(BOUNDS)


@compiled_borrowing
def _next_outlived(workload: Workload, cluster: Cluster, history: HistoryPart, kind: int) -> float:
    """When the next started job outlives a bound; inf where none is known to by now."""
    while history.seen[kind] < cluster.counts[STARTED]:
        job = cluster.started[history.seen[kind]]
        if workload.run_time[job] >= _THRESHOLDS[kind]:
            time = cluster.start[job] + _THRESHOLDS[kind]
            if time >= history.since[0]:
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
    if kind == ENDED_EVENT and len(history.told) > 0:
        learn_shares(history.asked_shares, history.told[job], workload.run_time[job])
    fold_run(history.past, user, template, kind, workload.run_time[job])
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
        workload: the jobs.
        history: made for quantiles, and brought up to now.
        job: its number.
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
