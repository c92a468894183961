"""Logs made of one log: denser arrivals, redrawn weeks; and intervals of ratios.

Weeks keep the pattern of arrivals at a site (days, nights, week-ends, bursts of a user). Users do
not react to the waits of a policy; see Feitelson, "Resampling with feedback" (2016).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.measure.intervals import ENDS
from slurm_rl_plugin.units import DAY, FloatArray, IntArray

WEEK = 7 * DAY
#: A single week drawn again and again is always the same log.
FEWEST_WEEKS = 2


def scale_load(log: JobLog, factor: float) -> JobLog:
    """The same jobs arriving `factor` times as fast: the gaps between submits divided by it.

    Run times, processors and requested times are untouched, so that the offered load is multiplied
    by the factor. Recorded starts belong to the old arrivals and become NaN.
    """
    if not (np.isfinite(factor) and factor > 0):
        raise ConfigurationError(f"a load cannot be multiplied by {factor:g}: give a number > 0.")
    _check_not_empty(log)
    if factor == 1.0:
        return log
    submit = log.submit[0] + (log.submit - log.submit[0]) / factor
    return replace(
        log,
        submit=submit,
        eligible=submit + (log.eligible - log.submit),
        start=np.full(len(log), np.nan),
    )


def resample_weeks(log: JobLog, rng: np.random.Generator) -> JobLog:
    """A log of the same span made of weeks of this one, drawn with replacement.

    Weeks count from the first submit, so that a job keeps its weekday and its hour. What follows
    the last whole week is drawn from the beginnings of all weeks. Jobs are numbered from 1;
    eligible times and recorded starts move with the submit.
    """
    index, shift = _draw(log, rng)
    return replace(
        log.select(index),
        job_id=np.arange(1, len(index) + 1),
        submit=log.submit[index] + shift,
        eligible=log.eligible[index] + shift,
        start=log.start[index] + shift,
    )


def whole_weeks(log: JobLog) -> int:
    """Whole weeks between the first and the last submit."""
    return int((log.submit[-1] - log.submit[0]) // WEEK) if len(log) else 0


def _draw(log: JobLog, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """Places of the drawn jobs in the log, and by how many seconds each moves."""
    _check_not_empty(log)
    known = whole_weeks(log)
    if known < FEWEST_WEEKS:
        days = (log.submit[-1] - log.submit[0]) / DAY
        raise ConfigurationError(
            f"the log spans {days:.1f} days: resampling draws whole weeks and needs two at least."
        )
    since = log.submit - log.submit[0]
    week_of = (since // WEEK).astype(np.int64)
    drawn = rng.integers(known, size=known)
    parts = [np.flatnonzero(week_of == week) for week in drawn]
    week = int(rng.integers(known + 1))
    begun = since - week * WEEK
    parts.append(np.flatnonzero((week_of == week) & (begun <= since[-1] - known * WEEK)))
    drawn = np.append(drawn, week)
    index = np.concatenate(parts)
    if len(index) == 0:
        raise ConfigurationError("the weeks drawn hold no job: the log is too thin to resample.")
    moved_by = WEEK * (np.arange(len(drawn)) - drawn)
    return index, np.repeat(moved_by, [len(part) for part in parts])


def _check_not_empty(log: JobLog) -> None:
    if len(log) == 0:
        raise ConfigurationError("the log has no job.")


def resampled_ratio(
    numerators: FloatArray, denominators: FloatArray
) -> tuple[float, tuple[float, float]]:
    """Ratio of the means over resampled logs, and the 95 % interval of their own ratios.

    Each log already is a draw of the log's blocks, its weeks: the middle 95 % of the ratios is the
    bootstrap interval over weeks. More draws make it smoother, never narrower than the weeks allow.
    Both figures are of the same logs, shape [samples > 1], >= 0; the denominators are not all 0.
    """
    # over 0 infinite; 0 over 0 is 1, since the policies do not differ
    over_nothing = np.where(numerators > 0, np.inf, 1.0)
    ratios = np.divide(numerators, denominators, out=over_nothing, where=denominators > 0)
    # the outer of the two neighbours: no interpolation between a number and infinity
    ordered, last = np.sort(ratios), len(ratios) - 1
    low, high = ordered[int(ENDS[0] * last)], ordered[int(np.ceil(ENDS[1] * last))]
    return float(np.mean(numerators) / np.mean(denominators)), (float(low), float(high))
