"""A forecast of when a job starts: quantiles of the wait that is left, one row for each job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: Rows in favour of the first weights: so many must speak for others before those count as much.
_IN_FAVOUR_OF_FIRST = 200.0
#: Chances that a job has started by then, one for each quantile of a forecast.
LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
#: No wait is taken as shorter, in seconds: its logarithm is wanted.
SHORTEST_WAIT = 1.0
#: Points that each source of a pool is told by.
_POOLED = 50


def weights_by_worth(
    log_wait: FloatArray, truth: FloatArray, counts: FloatArray, prior: FloatArray
) -> FloatArray:
    """Weights, none negative and 1 in all, with which the sources were closest, float64[sources].

    Stacking (Wolpert, "Stacked Generalization", Neural Networks 1992; Breiman, "Stacked
    Regressions", Machine Learning 1996) of what each source foretold without knowing the outcome.

    Args:
        log_wait: what each source foretold, float64[sources, n].
        truth: what came true, float64[n].
        counts: how much each row counts, float64[n].
        prior: weights where nothing speaks for others, float64[sources].
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
class Forecasts:
    """What is foretold of some jobs at one moment."""

    #: Quantiles of the wait that is left at LEVELS, float64[n, levels], rising in a row.
    seconds: FloatArray

    def __post_init__(self) -> None:
        shape = self.seconds.shape
        if len(shape) != 2 or shape[1] != len(LEVELS):
            raise ValueError(f"quantiles have the shape {shape}: give [jobs, {len(LEVELS)}].")
        if not np.isfinite(self.seconds).all() or (np.diff(self.seconds, axis=1) < 0.0).any():
            raise ValueError("quantiles must be finite numbers that rise with their levels.")

    def __len__(self) -> int:
        """How many jobs."""
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
        """Ends of the middle part of the distribution, seconds, two of float64[n].

        Args:
            part: .5, .8 or .9.
        """
        low, high = band_places(part)
        return self.seconds[:, low], self.seconds[:, high]

    def chance_within(self, seconds: float) -> FloatArray:
        """The chance that a job starts within so many seconds, float64[n].

        It runs straight in log wait between the quantiles, and beyond the outer ones with the
        slope of the outermost piece, until it is 0 or 1.
        """
        at = np.log10(max(seconds, SHORTEST_WAIT))
        levels = np.concatenate([[0.0], LEVELS, [1.0]])
        return np.array([np.interp(at, knots, levels) for knots in _with_tails(self.logs)])

    def select(self, which: BoolArray | IntArray) -> Forecasts:
        """Those of some of the jobs."""
        return Forecasts(self.seconds[which])


def band_places(part: float) -> tuple[int, int]:
    """Places in LEVELS of the ends of the middle part.

    Raises:
        ValueError: no two levels enclose it.
    """
    tail = round((1.0 - part) / 2.0, 6)
    if tail not in LEVELS or round(1.0 - tail, 6) not in LEVELS:
        raise ValueError(f"a band of {part:g} has no levels: give .5, .8 or .9.")
    return LEVELS.index(tail), LEVELS.index(round(1.0 - tail, 6))


def pooled(sources: Sequence[Forecasts], weights: FloatArray) -> Forecasts:
    """Several sources as one: each chance is the weighted mean of theirs.

    Sources that differ make it wide, as is right where nobody knows which of them errs (Stone,
    "The Opinion Pool", Annals of Mathematical Statistics 1961).

    Args:
        weights: how much each counts, float64[sources]; only their ratios matter.
    """
    # each source as evenly many draws as its levels tell, so that quantiles of all are the pool's
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
