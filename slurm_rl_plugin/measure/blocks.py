"""Stretches of time that are drawn again for intervals of the difference of two schedules.

Whole weeks (Künsch 1989, without overlap), or days of shorter logs: waits within a stretch depend
on each other. A job's waits under both schedules are drawn together. A draw is a sum over
stretches, or a quantile of histograms of waits: a million jobs cost no more than their stretches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.measure.intervals import FEWEST_BLOCKS, drawn_counts
from slurm_rl_plugin.units import DAY, FloatArray, IntArray

#: How long a stretch is, seconds, and what several are called; the first of which there are enough.
_UNITS = ((7 * DAY, "weeks"), (DAY, "days"))
#: Bins of waits: equal ones, below a second as 0, then so many for a factor of ten.
_BINS, _DECADES = 500, 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Stretches of time, and how often each is in each draw."""

    of: IntArray  #: stretch of each counted job, shape [n]
    drawn: FloatArray  #: shape [resamples, stretches]; of no row where there are too few
    unit: str  #: what several are called: "weeks" or "days" of a log

    @classmethod
    def over(cls, submit: FloatArray, rng: np.random.Generator) -> Blocks:
        """Weeks where there are enough of them, else days; `submit` in seconds, shape [n] > 0."""
        since = submit - submit.min()
        enough = (each for each in _UNITS if since.max() >= FEWEST_BLOCKS * each[0])
        length, unit = next(enough, _UNITS[-1])
        return cls.of_stretches((since // length).astype(np.int64), unit, rng)

    @classmethod
    def of_stretches(cls, stretch: IntArray, unit: str, rng: np.random.Generator) -> Blocks:
        """Stretches by the number of that of each counted job, in any order and with gaps."""
        of = np.unique(stretch, return_inverse=True)[1].reshape(-1)
        count = int(of.max()) + 1
        return cls(of=of, drawn=drawn_counts(count, rng), unit=unit)

    @property
    def count(self) -> int:
        """How many stretches there are."""
        return int(self.drawn.shape[1])

    def means(self, values: FloatArray, jobs: IntArray) -> FloatArray:
        """Mean over some jobs in each draw, NaN where it has none of them; shape [resamples].

        `values` are of the jobs at the places `jobs` among those counted, shape [m] each.
        """
        of, stretches = self.of[jobs], self.count
        sums = np.bincount(of, weights=values, minlength=stretches)
        counts = np.bincount(of, minlength=stretches)
        with np.errstate(invalid="ignore", divide="ignore"):
            found: FloatArray = (self.drawn @ sums) / (self.drawn @ counts)
        return found

    def quantiles(self, waits: FloatArray, jobs: IntArray, levels: FloatArray) -> FloatArray:
        """Quantiles of waits over some jobs in each draw, shape [resamples, levels].

        `waits`, in seconds, are of the jobs at the places `jobs` among those counted, shape [m]
        each.
        """
        logs = np.log10(np.maximum(waits, 1.0)) * _BINS
        bins = np.minimum(np.ceil(logs).astype(np.int64), _DECADES * _BINS)
        found_bins, of = np.unique(bins, return_inverse=True)
        counts = np.zeros((self.count, len(found_bins)))
        np.add.at(counts, (self.of[jobs], of.reshape(-1)), 1.0)
        reached = np.cumsum(self.drawn @ counts, axis=1)
        worth = np.where(found_bins > 0, 10.0 ** (found_bins / _BINS), 0.0)
        whole, exact = np.cumsum(counts.sum(axis=0)), np.quantile(waits, levels)
        found = np.full((len(self.drawn), len(levels)), np.nan)
        for place, level in enumerate(levels):
            at = np.argmax((reached >= level * reached[:, -1:]) & (reached > 0), axis=1)
            # a bin is as wide as half a per cent: moved to where the figure itself is
            own = worth[np.argmax(whole >= level * whole[-1])]
            found[:, place] = worth[at] * (exact[place] / own if own > 0 else 1.0)
        found[reached[:, -1] == 0] = np.nan
        return found
