"""Bands that are set anew each time by how the earlier ones did, and by nothing of later.

Each quantile is put where its share of the earlier waits fell, in units of the forecast's own band
(conformalized quantile regression; Romano, Patterson and Candès, NeurIPS 2019, its score divided
by the width), apart for each kind of job as far as its kind has been seen. The shares themselves
follow what was covered lately (adaptive conformal inference; Gibbs and Candès, "Adaptive Conformal
Inference Under Distribution Shift", NeurIPS 2021), each tail for itself. Waits that still last
count as in Candès, Lei and Ren, "Conformalized Survival Analysis", JRSS B 2023: they are known to
be at least so long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.forecasts.forecast import LEVELS, Forecasts
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray
from slurm_rl_plugin.utility.summary import one_user_capped

#: Least width of half a band that a place in it is told by, log10 of seconds: a factor of 1.26.
NARROWEST = 0.1
#: What the outcomes of all other kinds count together, at most: as much as so many rows. A kind
#: that has been seen seldom borrows from them, one that has been seen often has its own bands.
_OTHER_KINDS = 500.0
#: How fast the shares follow what was covered.
_STEP = 0.03
#: Share of waits that may lie beyond each end of the 90 % band, and its least and most.
_TAIL, _TAILS = LEVELS[0], (0.005, 0.2)


class Outcomes(NamedTuple):
    """Earlier forecasts and their waits; arrays of shape [n]."""

    #: Where the wait fell: 0 at the median, 1 at the upper end of the 90 % band and -1 at the
    #: lower, straight in log wait and beyond.
    place: FloatArray
    known: BoolArray  #: whether the job has started; else its wait has got to that place so far
    weight: FloatArray  #: how much each counts
    kind: IntArray  #: of what kind each is, such as its class and horizon as one number
    user: NDArray[Any] | None = None  #: whose each is: any labels; None where no user is known


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
        weight: how much each counts, float64[n], not all 0.
    """
    order = np.lexsort((~outcomes.known, outcomes.place))
    place, known, mass = outcomes.place[order], outcomes.known[order], weight[order]
    at_risk = np.cumsum(mass[::-1])[::-1]
    share = np.divide(mass, at_risk, out=np.zeros_like(mass), where=at_risk > 0.0)
    left = np.cumprod(np.where(known, 1.0 - share, 1.0))
    reached = 1.0 - left
    at = np.searchsorted(reached, levels - 1e-12)
    return np.asarray(place[np.minimum(at, len(place) - 1)], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Tails:
    """Shares of the earlier waits that the next band leaves out below and above."""

    below: float = _TAIL
    above: float = _TAIL

    def after(self, missed_below: float, missed_above: float) -> Tails:
        """The shares for the next time: smaller where more was missed than is allowed.

        Args:
            missed_below: part of the waits that were shorter than the band.
            missed_above: part that was longer.
        """
        return Tails(_moved(self.below, missed_below), _moved(self.above, missed_above))

    @property
    def levels(self) -> FloatArray:
        """LEVELS with each half drawn to or from the median as its tail is, float64[levels]."""
        levels = np.asarray(LEVELS)
        half = levels < 0.5
        drawn = np.where(
            half, levels * self.below / _TAIL, 1.0 - (1.0 - levels) * self.above / _TAIL
        )
        # only the tail as a whole moves: nearer the median it matters less
        near = np.abs(levels - 0.5) / (0.5 - _TAIL)
        return np.asarray(levels + near * (drawn - levels))


def _moved(tail: float, missed: float) -> float:
    return float(np.clip(tail + _STEP * (_TAIL - missed), *_TAILS))


def calibrated(forecasts: Forecasts, kind: IntArray, outcomes: Outcomes, tails: Tails) -> Forecasts:
    """The forecasts with their bands as the outcomes of earlier ones have them.

    Args:
        outcomes: of earlier forecasts of that source, before they were calibrated.
    """
    if not outcomes.known.any():
        return forecasts
    middle, below, above = half_bands(forecasts)
    logs = np.empty_like(forecasts.seconds)
    for each in np.unique(kind):
        here = kind == each
        place = quantiles_of(outcomes, _weight_for(each, outcomes), tails.levels)
        place[len(LEVELS) // 2] = 0.0
        half = np.where(place < 0.0, below[here, None], above[here, None])
        logs[here] = middle[here, None] + place * half
    return Forecasts.of_logs(np.sort(logs, axis=1))


def _weight_for(kind: int, outcomes: Outcomes) -> FloatArray:
    """How much each outcome says of a kind, float64[n]."""
    alike = outcomes.kind == kind
    others = float(outcomes.weight[~alike].sum())
    part = min(1.0, _OTHER_KINDS / others) if others > 0.0 else 1.0
    weight = np.where(alike, 1.0, part) * outcomes.weight
    return weight if outcomes.user is None else one_user_capped(weight, outcomes.user)
