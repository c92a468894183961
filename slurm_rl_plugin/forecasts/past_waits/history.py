"""What was known of a job's like at the moment it was seen: recent waits, starts and run times.

Nothing that ended or started later counts. A job that was seen before and still waits counts with
the wait that it has had so far.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.forecasts.past_waits.seen_jobs import SeenJobs, codes_of
from slurm_rl_plugin.forecasts.scores import log_waits
from slurm_rl_plugin.units import DAY, FloatArray, IntArray

#: How old a look may be to count, seconds.
_REMEMBERED = 21.0 * DAY
#: Age at which a wait counts half, seconds.
_HALF_LIFE = 3.0 * DAY
#: What counts as the last day, seconds; a poll each day comes not to the second.
_LAST_DAY = 1.5 * DAY
#: Least and most that a run time over its limit counts.
_USED = (1e-3, 1.5)


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
        jobs: any.
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
            told = _told_of(codes[memory.rows], int(codes.max()) + 1, memory)
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


def _told_of(codes: IntArray, number: int, memory: _Memory) -> dict[str, FloatArray]:
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
