"""Run times drawn from quantiles that were foretold of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.features.history.run_prediction import PARTS
from slurm_rl_plugin.units import FloatArray

#: Shares of the runs that end before each knot: none, PARTS, all.
_SHARES = np.array([0.0, *PARTS, 1.0])
#: No run is drawn shorter, in seconds.
_SHORTEST = 1.0
#: How far apart two knots are at least, in log10 of seconds, so that each has one share.
_APART = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpreads:
    """How run times of jobs are spread.

    Attributes:
        knots: log10 of the seconds before which `_SHARES` of such runs end, shape [n, knots].
    """

    knots: FloatArray

    @classmethod
    def of_quantiles(cls, quantiles: FloatArray, limit: FloatArray) -> RunSpreads:
        """Of what a model foretells; no run is longer than its limit.

        Beyond the outermost quantiles the share falls and rises as between their neighbours, down
        to a second and up to the limit.

        Args:
            quantiles: seconds at PARTS, shape [n, PARTS].
            limit: seconds, shape [n].
        """
        most = np.log10(np.maximum(limit, _SHORTEST))[:, None]
        logs = np.minimum(np.log10(np.maximum(quantiles, _SHORTEST)), most)
        shortest = logs[:, :1] - (logs[:, 1:2] - logs[:, :1])
        knots = np.concatenate([np.maximum(shortest, 0.0), logs, most], axis=1)
        apart = _APART * np.arange(knots.shape[1])
        return cls(knots=np.maximum.accumulate(knots, axis=1) + apart)

    def evenly(self, count: int) -> FloatArray:
        """Run times of the first job at even shares of all such runs, ascending, [count]."""
        knots = np.repeat(self.knots[:1], count, axis=0)
        shares = (np.arange(count) + 0.5) / count
        return RunSpreads(knots=knots).drawn(np.zeros(count), shares)

    def drawn(self, ran: FloatArray, share: FloatArray) -> FloatArray:
        """Run times of the jobs, given how long they have run, seconds, shape [n].

        Args:
            ran: seconds that each has run already, 0 for one that waits, shape [n].
            share: drawn evenly from (0, 1), shape [n].
        """
        knots = self.knots
        gone = _share_below(knots, np.log10(np.maximum(ran, _SHORTEST)))
        gone = np.where(ran > 0.0, gone, 0.0)
        drawn = 10.0 ** _at_share(knots, gone + (1.0 - gone) * share)
        return np.maximum(drawn, np.maximum(ran + 1.0, _SHORTEST))


def _share_below(knots: FloatArray, at: FloatArray) -> FloatArray:
    """Share of runs that end before `at`, log10 of seconds; row by row."""
    place = np.clip((knots <= at[:, None]).sum(axis=1) - 1, 0, knots.shape[1] - 2)
    row = np.arange(len(knots))
    low, high = knots[row, place], knots[row, place + 1]
    part = np.clip((at - low) / (high - low), 0.0, 1.0)
    return np.asarray(_SHARES[place] + part * np.diff(_SHARES)[place])


def _at_share(knots: FloatArray, share: FloatArray) -> FloatArray:
    """log10 of the seconds before which a share of the runs ends; row by row."""
    place = np.clip(np.searchsorted(_SHARES, share, side="right") - 1, 0, len(_SHARES) - 2)
    row = np.arange(len(knots))
    part = (share - _SHARES[place]) / np.diff(_SHARES)[place]
    return np.asarray(knots[row, place] + part * (knots[row, place + 1] - knots[row, place]))
