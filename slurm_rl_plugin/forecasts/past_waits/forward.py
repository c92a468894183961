"""Forecasts from past waits, one moment after the other: each knows only what had happened by then.

At each moment the sources are fitted anew, joined by what each has been worth in the forecasts that
were given before, and the bands are set by how those did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slurm_rl_plugin.forecasts.calibration import Outcomes, Tails, calibrated, places_of
from slurm_rl_plugin.forecasts.forecast import LEVELS, Forecasts, weights_by_worth
from slurm_rl_plugin.forecasts.past_waits.seen_jobs import SeenJobs, codes_of
from slurm_rl_plugin.forecasts.past_waits.sources import SourceForecasts
from slurm_rl_plugin.forecasts.past_waits.wait_forest import known_log_waits
from slurm_rl_plugin.forecasts.scores import horizon_of
from slurm_rl_plugin.units import DAY, FloatArray, IntArray

#: Age at which an outcome counts half when bands are set, seconds.
_HALF_LIFE = 14.0 * DAY
#: Moments with forecasts before bands are set.
FEWEST_MOMENTS = 5
#: Weights of the sources before anything speaks for others: the last job alike is a weak one.
_PRIOR = np.array([0.24, 0.24, 0.24, 0.24, 0.04])


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenForecasts:
    """Forecasts that were given at a moment, kept to be scored.

    Attributes:
        moment: seconds.
        rows: places of their jobs, int64[n].
        sources: what each source said, log10 of the wait, float64[sources, n].
        weights: of the sources, float64[sources].
        plain: the forecasts before their bands were set.
        forecasts: as they were given.
        tails: shares that the bands leave out.
    """

    moment: float
    rows: IntArray
    sources: FloatArray
    weights: FloatArray
    plain: Forecasts
    forecasts: Forecasts
    tails: Tails


def given_at(
    jobs: SeenJobs, asked: SourceForecasts, given: Sequence[GivenForecasts]
) -> GivenForecasts:
    """The forecasts to give at a moment, of what the sources say and what earlier ones came to.

    Args:
        jobs: those seen at the moment, and all before.
        asked: what the sources say of those seen at the moment.
        given: the forecasts of earlier moments, of the same jobs' places.
    """
    moment, jobs = float(jobs.moment[asked.rows[0]]), replace(jobs, look={})
    weights, tails = _weights(jobs, moment, given), _tails(jobs, moment, given)
    plain = _spread_about(weights @ asked.log_wait, asked)
    forecasts = plain
    if len(given) >= FEWEST_MOMENTS:
        kinds = _kinds(jobs.select(asked.rows), plain)
        forecasts = calibrated(plain, kinds, _outcomes(jobs, moment, given), tails)
    return GivenForecasts(
        moment=moment,
        rows=asked.rows,
        sources=asked.log_wait,
        weights=weights,
        plain=plain,
        forecasts=forecasts,
        tails=tails,
    )


def _weights(jobs: SeenJobs, moment: float, given: Sequence[GivenForecasts]) -> FloatArray:
    """Of the sources, by how close each was at earlier moments."""
    if not given:
        return _PRIOR
    rows = np.concatenate([each.rows for each in given])
    said = np.hstack([each.sources for each in given])
    part = jobs.select(rows)
    return weights_by_worth(said, known_log_waits(part, moment), _counts(part), _PRIOR)


def _spread_about(log_wait: FloatArray, asked: SourceForecasts) -> Forecasts:
    """The spread of the draws about another middle."""
    quantiles = np.quantile(asked.draws, LEVELS, axis=1).T
    middle = quantiles[:, [len(LEVELS) // 2]]
    return Forecasts.of_logs(log_wait[:, None] + quantiles - middle)


def _kinds(jobs: SeenJobs, forecasts: Forecasts) -> IntArray:
    """Class and horizon as one number: whether it asks for GPUs, and how far the forecast looks."""
    return 2 * horizon_of(forecasts) + (jobs.gpus > 0)


def _outcomes(jobs: SeenJobs, moment: float, given: Sequence[GivenForecasts]) -> Outcomes:
    """What the earlier forecasts have come to by a moment."""
    plain = Forecasts(np.vstack([each.plain.seconds for each in given]))
    part = jobs.select(np.concatenate([each.rows for each in given]))
    return Outcomes(
        place=places_of(plain, part.log_wait_by(moment)),
        known=part.started_by(moment),
        weight=_counts(part) * 0.5 ** ((moment - part.moment) / _HALF_LIFE),
        kind=_kinds(part, plain),
    )


def _tails(jobs: SeenJobs, moment: float, given: Sequence[GivenForecasts]) -> Tails:
    """The shares for the next bands, moved by what each earlier moment's bands missed."""
    tails = Tails()
    for each in given:
        part = jobs.select(each.rows)
        so_far, (low, high) = 10.0 ** part.log_wait_by(moment), each.forecasts.band(0.9)
        beyond = ((so_far < low) & part.started_by(moment), so_far > high)
        tails = tails.after(*(float(np.average(one, weights=_counts(part))) for one in beyond))
    return tails


def _counts(jobs: SeenJobs) -> FloatArray:
    """How much each row counts: a batch of n equal jobs as the root of n."""
    batch = codes_of(jobs.moment, jobs.template)
    return 1.0 / np.sqrt(np.bincount(batch)[batch])
