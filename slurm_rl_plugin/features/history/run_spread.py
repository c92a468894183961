"""How a predicted run time is spread: quantiles, calibrated by what came of the runs before.

A logistic regression for each of BOUNDS says how likely a run is to end below it; between two
bounds the share rises evenly in the logarithm of the run time. A site drifts away from what the
regressions were fitted on. So the share that is asked of it moves with each run that ends above or
below what was foretold of it, as in adaptive conformal inference (Gibbs and Candes 2021, equation
2): in the long run a tenth of the runs ends below the quantile of a tenth, on whatever site.

Plain numpy style, for one job or for columns: the simulator compiles these very lines.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from slurm_rl_plugin.units import FloatArray

#: Run times in seconds below which shares are predicted.
BOUNDS = (
    *(10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0),
    *(3600.0, 7200.0, 14400.0, 28800.0, 43200.0, 64800.0, 86400.0),
)
#: The parts of the runs that are to end below the quantiles.
PARTS = (0.1, 0.25, 0.5, 0.75, 0.9)
#: log10 of the run times between which shares rise: 1 s, the bounds, ten days.
GRID = (0.0, *(math.log10(bound) for bound in BOUNDS), math.log10(864000.0))
#: Shares of one prediction: below each number of GRID.
SHARES = len(GRID)
#: How far a run moves what is asked for, and its least distance from 0 and 1.
_RATE, _EDGE = 0.005, 0.001
#: Keeps a step of no height from dividing by 0.
_NO_RISE = 1e-9


def nominal_shares() -> FloatArray:
    """What is asked for before any run has ended: PARTS themselves, shape [len(PARTS)]."""
    return np.array(PARTS)


def fill_shares(shares: Any, log_odds: Any) -> None:
    """Shares of runs below each number of GRID; they never fall.

    Args:
        shares: filled; shape [SHARES] for one job or [SHARES, n].
        log_odds: predicted for each of BOUNDS, shape [len(BOUNDS)] or [len(BOUNDS), n].
    """
    shares[0] = 0.0
    for place in range(len(BOUNDS)):
        below = 1.0 / (1.0 + np.exp(-log_odds[place]))
        shares[place + 1] = np.maximum(shares[place], below)
    shares[SHARES - 1] = 1.0


def run_time_at(shares: Any, asked: Any) -> Any:
    """Run time in seconds below which a share of the runs falls, 1 s to ten days; elementwise.

    Args:
        shares: as `fill_shares` fills them.
        asked: the share.
    """
    length = 0.0 * shares[0]
    for step in range(SHARES - 1):
        rise = np.maximum(shares[step + 1] - shares[step], _NO_RISE)
        part = np.minimum(np.maximum((asked - shares[step]) / rise, 0.0), 1.0)
        length = length + (GRID[step + 1] - GRID[step]) * part
    return 10.0**length


def learn_shares(asked: Any, told: Any, run_time: float) -> None:
    """A run has ended: what is asked for moves, so that PARTS of the runs end below.

    Args:
        asked: changed in place, shape [len(PARTS)].
        told: quantiles of this run as it started, seconds, shape [len(PARTS)]; NaN for one that
            was not foretold, which teaches nothing.
        run_time: seconds.
    """
    if math.isnan(told[0]):
        return
    for place in range(len(PARTS)):
        below = 1.0 if run_time <= told[place] else 0.0
        moved = asked[place] + _RATE * (PARTS[place] - below)
        asked[place] = min(max(moved, _EDGE), 1.0 - _EDGE)
        if place > 0 and asked[place] < asked[place - 1]:
            asked[place] = asked[place - 1]  # quantiles never cross
