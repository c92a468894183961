"""The inputs of a model of waits: the request, the queue beside it, the look, the history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.forecasts.past_waits.seen_jobs import SeenJobs, codes_of
from slurm_rl_plugin.forecasts.scores import log_waits
from slurm_rl_plugin.units import DAY, BoolArray, FloatArray, IntArray

#: How old a look may be to count, seconds.
_REMEMBERED = 21.0 * DAY
#: Age at which a wait counts half, seconds.
_HALF_LIFE = 3.0 * DAY
#: What counts as the last day, seconds; a poll each day comes not to the second.
_LAST_DAY = 1.5 * DAY
#: Least and most that a run time over its limit counts.
_USED = (1e-3, 1.5)
REQUEST, QUEUE, SHARE, HISTORY = "request", "queue", "share", "history"
#: What of a look stands over what, where both are told: how long the queue above takes what runs.
_OVER = {
    "hours": ("q_{}core_hours_above", "r_{}cores_above"),
    "rest": ("r_{}core_hours_above", "r_{}cores_above"),
    "jobs": ("q_{}jobs_above", "r_{}jobs_above"),
    "cores": ("q_{}cores_above", "r_{}cores_above"),
    "GPU hours": ("q_{}gpu_hours_above", "r_{}gpus_above"),
}
#: Of everybody, of its partition, of its account, of its account in its partition.
_SCOPES = ("", "p_", "a_", "p_a_")
#: In place of an infinite number of a look.
_ENDLESS = 1e15


class _Memory(NamedTuple):
    """Earlier looks as they are known at a moment; arrays of shape [earlier]."""

    moment: float
    rows: IntArray
    seen: FloatArray
    start: FloatArray
    started: FloatArray
    wait: FloatArray
    used: FloatArray


def groups_of(jobs: SeenJobs) -> Mapping[str, IntArray]:
    """Name -> whose history each job shares, int64[n]."""
    limit = _octave(np.nan_to_num(jobs.limit, nan=DAY))
    return {
        "account": codes_of(jobs.account),
        "account in partition": codes_of(jobs.account, jobs.partition),
        "template": jobs.template,
        "partition": codes_of(jobs.partition),
        "size": codes_of(limit, _octave(jobs.cpus), np.minimum(jobs.gpus, 1.0)),
        "all": np.zeros(len(jobs), dtype=np.int64),
    }


def _octave(values: FloatArray) -> FloatArray:
    return np.asarray(np.round(np.log2(np.maximum(values, 1.0))))


def history_features(jobs: SeenJobs, at: float | None = None) -> dict[str, FloatArray]:
    """Columns for each group of `groups_of`, float64[n] each, nan where nothing is known.

    Args:
        at: the one moment whose rows are filled; None for all.
    """
    groups = groups_of(jobs)
    found: dict[str, FloatArray] = {}
    for moment in np.unique(jobs.moment) if at is None else [at]:
        memory = _memory_at(jobs, moment)
        if len(memory.rows) == 0:
            continue
        now = jobs.moment == moment
        for name, codes in groups.items():
            told = _known_of(codes[memory.rows], int(codes.max()) + 1, memory)
            for column, values in told.items():
                wanted = found.setdefault(f"{name}: {column}", np.full(len(jobs), np.nan))
                wanted[now] = values[codes[now]]
    return found


def _memory_at(jobs: SeenJobs, moment: float) -> _Memory:
    rows = np.flatnonzero((jobs.moment < moment) & (jobs.moment >= moment - _REMEMBERED))
    seen, start, end = jobs.moment[rows], jobs.start[rows], jobs.end[rows]
    started = start <= moment
    with np.errstate(invalid="ignore"):
        used = np.log10(np.clip((end - start) / jobs.limit[rows], *_USED))
    return _Memory(
        moment=moment,
        rows=rows,
        seen=seen,
        start=np.where(started, start, -np.inf),
        started=started.astype(np.float64),
        wait=log_waits(np.where(started, start, moment) - seen),
        used=np.where(end <= moment, used, np.nan),
    )


def _known_of(codes: IntArray, number: int, memory: _Memory) -> dict[str, FloatArray]:
    """What a memory tells of each group, float64[number] each."""
    age = memory.moment - memory.seen
    weight = 0.5 ** (age / _HALF_LIFE)
    lately = (age < _LAST_DAY).astype(np.float64)
    finished = np.isfinite(memory.used)
    started_lately = memory.started * (memory.start > memory.moment - DAY)
    last = np.full(number, -np.inf)
    np.maximum.at(last, codes, memory.start)

    def total(weights: FloatArray) -> FloatArray:
        return np.bincount(codes, weights, number).astype(np.float64)

    with np.errstate(invalid="ignore", divide="ignore"):
        since = np.where(np.isfinite(last), np.log10(1.0 + memory.moment - last), np.nan)
        return {
            "mean log wait": total(weight * memory.wait) / total(weight),
            "looks": np.log10(0.01 + total(weight)),
            "mean log wait of the last day": total(lately * memory.wait) / total(lately),
            "looks of the last day": np.log10(1.0 + total(lately)),
            "part that still waits": total(1.0 - memory.started) / total(np.ones(len(codes))),
            "starts of the last day": np.log10(1.0 + total(started_lately)),
            "log time since a start": since,
            "mean log part of the limit used": total(weight * np.nan_to_num(memory.used))
            / total(weight * finished),
        }


class FeatureTable(NamedTuple):
    """Inputs of a model."""

    names: tuple[str, ...]  #: of the columns
    values: FloatArray  #: float64[n, names], nan where nothing is known
    kinds: tuple[str, ...]  #: of the columns: REQUEST, QUEUE, SHARE or HISTORY

    def columns(self, *left_out: str) -> BoolArray:
        """Which columns are of no kind that is left out, bool[names]."""
        return np.array([kind not in left_out for kind in self.kinds], dtype=np.bool_)


def features_of(jobs: SeenJobs, at: float | None = None) -> FeatureTable:
    """What is known of each job at the moment that it was seen, and nothing of later.

    Args:
        at: the one moment whose rows are wanted, seconds, to spare the time for the others, whose
            history stays nan; None for all.
    """
    of_kinds = {
        REQUEST: _request(jobs),
        QUEUE: {**_above(jobs), **_beside(jobs)},
        SHARE: {name: _signed_log(each) for name, each in _told(jobs, queue=False).items()},
        HISTORY: history_features(jobs, at),
    }
    columns = {name: each for columns in of_kinds.values() for name, each in columns.items()}
    return FeatureTable(
        names=tuple(columns),
        values=np.column_stack(list(columns.values())),
        kinds=tuple(kind for kind, columns in of_kinds.items() for _ in columns),
    )


def _request(jobs: SeenJobs) -> dict[str, FloatArray]:
    """What the job asks for, and how long it has waited."""
    cpus, held = np.maximum(jobs.cpus, 1.0), ~np.isfinite(jobs.eligible)
    return {
        "limit": np.log10(np.maximum(jobs.limit, 1.0)),
        "cpus": np.log10(cpus),
        "memory": np.log10(1.0 + jobs.memory),
        "memory a cpu": np.log10(1.0 + jobs.memory / cpus),
        "gpus": jobs.gpus,
        "gpus a cpu": jobs.gpus / cpus,
        "nodes": np.log10(np.maximum(jobs.nodes, 1.0)),
        "age": np.log10(1.0 + np.maximum(jobs.moment - jobs.submit, 0.0)),
        "eligible": np.log10(1.0 + np.maximum(np.where(held, 0.0, jobs.moment - jobs.eligible), 0)),
        "held": held.astype(np.float64),
        "priority": jobs.priority,
        "partition": jobs.partition.astype(np.float64),
        "day of the week": np.floor(jobs.moment / DAY) % 7.0,
    }


def _told(jobs: SeenJobs, *, queue: bool) -> dict[str, FloatArray]:
    """What a look tells of queue and machine, or what it tells beside."""
    return {
        name: np.nan_to_num(values, nan=np.nan, posinf=_ENDLESS, neginf=-_ENDLESS)
        for name, values in jobs.look.items()
        if name.startswith(("q_", "r_")) == queue
    }


def _above(jobs: SeenJobs) -> dict[str, FloatArray]:
    """What waits above and what runs, on a logarithmic scale, and what stands over what."""
    told = _told(jobs, queue=True)
    found = {name: _signed_log(values) for name, values in told.items()}
    for scope in _SCOPES:
        for what, (above, below) in _OVER.items():
            upper, lower = above.format(scope), below.format(scope)
            if upper in told and lower in told:
                ratio = np.maximum(told[upper], 0.0) / np.maximum(told[lower], 1.0)
                found[f"{what} above over running, {scope}"] = _signed_log(ratio)
    return found


def _beside(jobs: SeenJobs) -> dict[str, FloatArray]:
    """How many of its like wait beside it, and which place it has among them."""
    found = {}
    groups = groups_of(jobs)
    age = jobs.moment - jobs.submit
    priority = np.nan_to_num(jobs.priority)
    for name in ("account", "account in partition", "template", "partition"):
        codes = codes_of(groups[name], jobs.moment)
        count = np.bincount(codes).astype(np.float64)
        order = np.lexsort((jobs.submit, -priority, codes))
        place = np.empty(len(jobs))
        place[order] = np.arange(len(jobs)) - (np.cumsum(count) - count)[codes[order]]
        mean_age = (np.bincount(codes, age) / np.maximum(count, 1.0))[codes]
        found[f"{name}: waiting"] = np.log10(count[codes])
        found[f"{name}: place"] = np.log10(1.0 + place)
        found[f"{name}: part before it"] = place / count[codes]
        found[f"{name}: older than its like"] = _signed_log(age - mean_age)
    return found


def _signed_log(values: FloatArray) -> FloatArray:
    return np.sign(values) * np.log10(1.0 + np.abs(values))
