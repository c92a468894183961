"""How good forecasts were, once their jobs have started: error, coverage, width, pinball loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from slurm_rl_plugin.forecasts.forecast import LEVELS, SHORTEST_WAIT, Forecasts
from slurm_rl_plugin.units import DAY, HOUR, MINUTE, BoolArray, FloatArray, IntArray

#: How far ahead a forecast looks: name -> its median wait is below so many seconds.
HORIZONS: Mapping[str, float] = {
    "within 10 minutes": 10.0 * MINUTE,
    "within an hour": HOUR,
    "within a day": DAY,
    "later than a day": np.inf,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """What forecasts were worth on jobs that have started."""

    jobs: int  #: how many
    square_error: float  #: mean square of log10(median / wait)
    median_error: float  #: median of |log10(median / wait)|
    #: Part of the jobs whose wait is within a factor of 2 of the median; bounds count.
    within_2: float
    within_3: float  #: the same, 3
    coverage_50: float  #: part whose wait lies in the 50 % band; bounds count
    coverage_90: float  #: the same, 90 %
    width_50: float  #: mean log10(high / low) of the 50 % band
    width_90: float  #: the same, 90 %
    pinball: float  #: mean over jobs and levels of the pinball loss in log10(wait)

    def as_json(self) -> dict[str, float]:
        """Each figure by its name."""
        return asdict(self)


def log_waits(seconds: FloatArray) -> FloatArray:
    """log10 of waits, none taken as shorter than SHORTEST_WAIT."""
    return np.log10(np.maximum(seconds, SHORTEST_WAIT))


def scores_of(forecasts: Forecasts, waits: FloatArray) -> Scores:
    """Score forecasts by what came true.

    Args:
        waits: seconds from the forecast to the start, float64[n].
    """
    truth = log_waits(waits)
    error = np.abs(log_waits(forecasts.median) - truth)
    spreads = {part: spread_of(forecasts, part) for part in (0.5, 0.9)}
    return Scores(
        jobs=len(forecasts),
        square_error=float(np.mean(error**2)),
        median_error=float(np.median(error)),
        within_2=float(np.mean(error <= np.log10(2.0))),
        within_3=float(np.mean(error <= np.log10(3.0))),
        coverage_50=float(np.mean(covered(forecasts, waits, 0.5))),
        coverage_90=float(np.mean(covered(forecasts, waits, 0.9))),
        width_50=float(spreads[0.5].mean()),
        width_90=float(spreads[0.9].mean()),
        pinball=float(pinball_losses(forecasts, waits).mean()),
    )


def covered(forecasts: Forecasts, waits: FloatArray, part: float) -> BoolArray:
    """Whether each wait lies in the band of its forecast, bool[n]."""
    low, high = forecasts.band(part)
    return (low <= waits) & (waits <= high)


def spread_of(forecasts: Forecasts, part: float) -> FloatArray:
    """Width of each band, log10(high / low), float64[n]."""
    low, high = forecasts.band(part)
    return log_waits(high) - log_waits(low)


def pinball_losses(forecasts: Forecasts, waits: FloatArray) -> FloatArray:
    """Mean over the levels of the pinball loss in log10(wait), float64[n]."""
    short = log_waits(waits)[:, None] - forecasts.logs
    levels = np.asarray(LEVELS)
    losses: FloatArray = np.maximum(levels * short, (levels - 1.0) * short)
    return np.asarray(losses.mean(axis=1))


def scores_by(
    labels: FloatArray | IntArray, forecasts: Forecasts, waits: FloatArray
) -> dict[str, Scores]:
    """The scores of each class, partition, horizon or day.

    Args:
        labels: whose each job is, [n].
        waits: that came true, seconds, float64[n].
    """
    return {
        str(label): scores_of(forecasts.select(labels == label), waits[labels == label])
        for label in np.unique(labels)
    }


def horizon_of(forecasts: Forecasts) -> IntArray:
    """Place in HORIZONS of each forecast, int64[n]."""
    bounds = np.array(list(HORIZONS.values()))[:-1]
    return np.searchsorted(bounds, forecasts.median, side="right").astype(np.int64)
