"""What earlier forecasts have come to: where in its band each wait fell, or has got to so far."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.forecasts.forecast import Forecasts
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: Least width of half a band that a place in it is told by, log10 of seconds: a factor of 1.26.
NARROWEST = 0.1


class Outcomes(NamedTuple):
    """Earlier forecasts and their waits; arrays of shape [n].

    Attributes:
        place: where the wait fell: 0 at the median, 1 at the upper end of the 90 % band and -1 at
            the lower, straight in log wait and beyond.
        known: whether the job has started; else its wait has got to that place so far.
        weight: how much each counts.
        kind: of what kind each is, such as its class and horizon as one number.
        user: whose each is: any labels; None where no user is known.
    """

    place: FloatArray
    known: BoolArray
    weight: FloatArray
    kind: IntArray
    user: NDArray[Any] | None = None


def places_of(forecasts: Forecasts, log_wait: FloatArray) -> FloatArray:
    """Where waits fall in the bands of their forecasts, float64[n]."""
    middle, below, above = half_bands(forecasts)
    off = log_wait - middle
    return np.where(off >= 0.0, off / above, off / below)


def half_bands(forecasts: Forecasts) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Median, and the widths of the 90 % band below and above it, log10 of seconds."""
    logs = forecasts.logs
    middle = logs[:, logs.shape[1] // 2]
    return (
        middle,
        np.maximum(middle - logs[:, 0], NARROWEST),
        np.maximum(logs[:, -1] - middle, NARROWEST),
    )


def quantiles_of(outcomes: Outcomes, weight: FloatArray, levels: FloatArray) -> FloatArray:
    """Quantiles of the places, float64[levels].

    The weight of a wait that still lasts goes to those that got further, in proportion (the
    product-limit estimate; Efron, "The two sample problem with censored data", 1967), so that
    leaving long waits out does not make bands too short.

    Args:
        outcomes: at least one.
        weight: how much each counts, float64[n], not all 0.
        levels: between 0 and 1.
    """
    order = np.lexsort((~outcomes.known, outcomes.place))
    place, known, mass = outcomes.place[order], outcomes.known[order], weight[order]
    at_risk = np.cumsum(mass[::-1])[::-1]
    share = np.divide(mass, at_risk, out=np.zeros_like(mass), where=at_risk > 0.0)
    left = np.cumprod(np.where(known, 1.0 - share, 1.0))
    reached = 1.0 - left
    at = np.searchsorted(reached, levels - 1e-12)
    return np.asarray(place[np.minimum(at, len(place) - 1)], dtype=np.float64)
