"""A forecast of when a job starts: quantiles of the wait that is left, one row for each job.

Its scores once the job has started, and its bands, set anew each time by how the earlier ones did
and by nothing of later: each quantile is put where its share of the earlier waits fell, in units of
the forecast's own band (conformalized quantile regression; Romano, Patterson and Candès, NeurIPS
2019, its score divided by the width), apart for each kind of job as far as its kind has been seen.
The shares themselves follow the recent coverage (adaptive conformal inference; Gibbs and
Candès, "Adaptive Conformal Inference Under Distribution Shift", NeurIPS 2021), each tail for
itself. Waits that still last count as in Candès, Lei and Ren, "Conformalized Survival Analysis",
JRSS B 2023: they are known to be at least so long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.domain.resources import Rows
from slurm_rl_plugin.units import DAY, HOUR, MINUTE, BoolArray, FloatArray, IntArray
from slurm_rl_plugin.utility.summary import one_user_capped

#: The prior weights count as much as this number of outcomes.
_IN_FAVOUR_OF_FIRST = 200.0
#: Chances that a job has started by then, one for each quantile of a forecast.
LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
#: No wait is taken as shorter, in seconds: its logarithm is wanted.
SHORTEST_WAIT = 1.0
#: Quantiles that stand for each source of a pool.
_POOLED = 50
#: How far ahead a forecast looks: name -> upper bound of its median wait, seconds.
HORIZONS: Mapping[str, float] = {
    "within 10 minutes": 10.0 * MINUTE,
    "within an hour": HOUR,
    "within a day": DAY,
    "later than a day": np.inf,
}
#: Least width of half a band as the unit of a place in it, log10 of seconds: a factor of 1.26.
NARROWEST = 0.1
#: Most rows that the outcomes of all other kinds count as together. A kind
#: that has been seen seldom borrows from them, one that has been seen often has its own bands.
_OTHER_KINDS = 500.0
#: How fast the shares follow what was covered.
_STEP = 0.03
#: Share of waits that may lie beyond each end of the 90 % band, and its least and most.
_TAIL, _TAILS = LEVELS[0], (0.005, 0.2)


def weights_by_worth(
    log_wait: FloatArray, truth: FloatArray, counts: FloatArray, prior: FloatArray
) -> FloatArray:
    """Weights, none negative and 1 in all, with which the sources were closest, float64[sources].

    Stacking (Wolpert, "Stacked Generalization", Neural Networks 1992; Breiman, "Stacked
    Regressions", Machine Learning 1996) of what each source forecast without knowing the outcome,
    float64[sources, n]. Truth and counts have shape [n]; the prior weights, float64[sources], are
    those where nothing speaks for others.
    """
    gap = log_wait - truth
    held = _IN_FAVOUR_OF_FIRST * _disagreement(log_wait) * np.eye(len(prior))
    # with weights that add up to 1, the error of the mean is the mean of the errors
    matrix, target = (gap * counts) @ gap.T + held, held @ prior
    left = np.ones(len(prior), dtype=np.bool_)
    while True:
        found = np.zeros(len(prior))
        found[left] = _least_error(matrix[np.ix_(left, left)], target[left])
        if (found >= 0.0).all():
            return found
        left &= found > found.min()


def _least_error(matrix: FloatArray, target: FloatArray) -> FloatArray:
    """Weights that add up to 1 with the least of w M w - 2 w t."""
    ones = np.ones(len(target))
    solved = np.linalg.solve(matrix, np.column_stack([target, ones]))
    multiple = (1.0 - solved[:, 0].sum()) / solved[:, 1].sum()
    return np.asarray(solved[:, 0] + multiple * solved[:, 1])


def _disagreement(log_wait: FloatArray) -> float:
    """How far apart the sources are, mean square; at least a little."""
    if log_wait.shape[1] == 0:
        return 1.0
    return float(np.mean((log_wait - log_wait.mean(axis=0)) ** 2)) + 1e-6


@dataclass(frozen=True, slots=True)
class Forecasts(Rows):
    """Forecasts of some jobs at one moment."""

    #: Quantiles of the wait that is left at LEVELS, float64[n, levels], rising in a row.
    seconds: FloatArray

    def __len__(self) -> int:
        return len(self.seconds)

    @classmethod
    def of_logs(cls, logs: FloatArray) -> Forecasts:
        """Of quantiles as log10 of seconds, float64[n, levels]; crossed ones are put in order."""
        ordered = np.sort(logs, axis=1)
        return cls(np.maximum(10.0**ordered, SHORTEST_WAIT))

    @classmethod
    def of_draws(cls, seconds: FloatArray) -> Forecasts:
        """Of waits drawn at random, as replays of a queue give them, float64[n, draws]."""
        return cls(np.quantile(np.maximum(seconds, SHORTEST_WAIT), LEVELS, axis=1).T)

    @property
    def logs(self) -> FloatArray:
        """The quantiles as log10 of seconds, float64[n, levels]."""
        return np.log10(np.maximum(self.seconds, SHORTEST_WAIT))

    @property
    def median(self) -> FloatArray:
        """Seconds within which half of such jobs start, float64[n]."""
        return self.seconds[:, LEVELS.index(0.5)]

    def band(self, part: float) -> tuple[FloatArray, FloatArray]:
        """Ends of the middle 0.5, 0.8 or 0.9 of the distribution, seconds, two float64[n]."""
        low = LEVELS.index(round((1.0 - part) / 2.0, 6))
        return self.seconds[:, low], self.seconds[:, -1 - low]

    def chance_within(self, seconds: float) -> FloatArray:
        """The chance that a job starts within a time, float64[n].

        It runs straight in log wait between the quantiles, and beyond the outer ones with the
        slope of the outermost piece, until it is 0 or 1.
        """
        at = np.log10(max(seconds, SHORTEST_WAIT))
        levels = np.concatenate([[0.0], LEVELS, [1.0]])
        return np.array([np.interp(at, knots, levels) for knots in _with_tails(self.logs)])


def pooled(sources: Sequence[Forecasts], weights: FloatArray) -> Forecasts:
    """Several sources as one: each chance is the mean of theirs by weights, float64[sources].

    Sources that differ make it wide, since it is unknown which of them errs (Stone,
    "The Opinion Pool", Annals of Mathematical Statistics 1961).
    """
    # the same number of draws from each source, so that quantiles of all draws are the pool's
    shares = (np.arange(_POOLED) + 0.5) / _POOLED
    levels = np.concatenate([[0.0], LEVELS, [1.0]])
    draws = [_at_levels(_with_tails(source.logs), levels, shares) for source in sources]
    logs = np.hstack(draws)
    mass = np.repeat(np.asarray(weights, dtype=np.float64), _POOLED)
    order = np.argsort(logs, axis=1)
    reached = np.cumsum(mass[order], axis=1) / mass.sum()
    place = np.stack([(reached < level - 1e-12).sum(axis=1) for level in LEVELS], axis=1)
    return Forecasts.of_logs(np.take_along_axis(np.take_along_axis(logs, order, 1), place, 1))


def _at_levels(knots: FloatArray, levels: FloatArray, shares: FloatArray) -> FloatArray:
    """Quantiles at shares, straight between the knots at levels; row by row, [n, shares]."""
    place = np.clip(np.searchsorted(levels, shares, side="right") - 1, 0, len(levels) - 2)
    part = (shares - levels[place]) / (levels[place + 1] - levels[place])
    return np.asarray(knots[:, place] + part * (knots[:, place + 1] - knots[:, place]))


def _with_tails(logs: FloatArray) -> FloatArray:
    """Where the chance is 0, at the quantiles, and where it is 1: log wait, [n, levels + 2]."""
    first = LEVELS[0] / (LEVELS[1] - LEVELS[0])
    last = (1.0 - LEVELS[-1]) / (LEVELS[-1] - LEVELS[-2])
    least = logs[:, :1] - first * (logs[:, 1:2] - logs[:, :1])
    most = logs[:, -1:] + last * (logs[:, -1:] - logs[:, -2:-1])
    return np.concatenate([least, logs, most], axis=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """How good forecasts were for jobs that have started."""

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
    """Score forecasts by the waits that came true, seconds, float64[n]."""
    truth = log_waits(waits)
    error = np.abs(log_waits(forecasts.median) - truth)
    bands = (forecasts.band(part) for part in (0.5, 0.9))
    width_50, width_90 = (float((log_waits(high) - log_waits(low)).mean()) for low, high in bands)
    short, levels = truth[:, None] - forecasts.logs, np.asarray(LEVELS)
    pinball = np.maximum(levels * short, (levels - 1.0) * short)
    return Scores(
        jobs=len(forecasts),
        square_error=float(np.mean(error**2)),
        median_error=float(np.median(error)),
        within_2=float(np.mean(error <= np.log10(2.0))),
        within_3=float(np.mean(error <= np.log10(3.0))),
        coverage_50=float(np.mean(covered(forecasts, waits, 0.5))),
        coverage_90=float(np.mean(covered(forecasts, waits, 0.9))),
        width_50=width_50,
        width_90=width_90,
        pinball=float(pinball.mean(axis=1).mean()),
    )


def covered(forecasts: Forecasts, waits: FloatArray, part: float) -> BoolArray:
    """Whether each wait lies in the band of its forecast, bool[n]."""
    low, high = forecasts.band(part)
    return (low <= waits) & (waits <= high)


def scores_by(
    labels: FloatArray | IntArray, forecasts: Forecasts, waits: FloatArray
) -> dict[str, Scores]:
    """The scores by a label of each job, [n], for the waits that came true, seconds, float64[n]."""
    return {
        str(label): scores_of(forecasts.select(labels == label), waits[labels == label])
        for label in np.unique(labels)
    }


def horizon_of(forecasts: Forecasts) -> IntArray:
    """Place in HORIZONS of each forecast, int64[n]."""
    bounds = np.array(list(HORIZONS.values()))[:-1]
    return np.searchsorted(bounds, forecasts.median, side="right").astype(np.int64)


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
    """Quantiles of the places by weights, float64[n], which are not all 0; float64[levels].

    The weight of a wait that still lasts goes to those that got further, in proportion (the
    product-limit estimate; Efron, "The two sample problem with censored data", 1967), so that
    leaving long waits out does not make bands too short.
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
        """The shares for the next time: smaller where more waits lay beyond the band than may."""
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
    """The forecasts with their bands as the outcomes of earlier, uncalibrated ones have them."""
    if not outcomes.known.any():
        return forecasts
    middle, below, above = half_bands(forecasts)
    logs = np.empty_like(forecasts.seconds)
    for each in np.unique(kind):
        here = kind == each
        alike = outcomes.kind == each
        others = float(outcomes.weight[~alike].sum())
        part = min(1.0, _OTHER_KINDS / others) if others > 0.0 else 1.0
        weight = np.where(alike, 1.0, part) * outcomes.weight
        if outcomes.user is not None:
            weight = one_user_capped(weight, outcomes.user)
        place = quantiles_of(outcomes, weight, tails.levels)
        place[len(LEVELS) // 2] = 0.0
        half = np.where(place < 0.0, below[here, None], above[here, None])
        logs[here] = middle[here, None] + place * half
    return Forecasts.of_logs(np.sort(logs, axis=1))
