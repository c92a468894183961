"""How much a resource grows over a run, apart from what the length of the queue explains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.units import HOUR, FloatArray

#: Samples that are drawn together, since neighbours are alike.
_BLOCK = 20
_DRAWS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """Growth an hour with its 95 % interval, and the mean and largest value."""

    an_hour: float
    lowest: float
    highest: float
    mean: float
    largest: float


def slope_of(seconds: FloatArray, values: FloatArray, queue: FloatArray, seed: int = 1) -> Slope:
    """Least squares of value = a + b time + c queue; the interval by a moving-block bootstrap.

    Residuals of neighbouring samples are alike, so blocks of them are drawn (Künsch 1989).

    Args:
        seconds: of each sample, shape [n].
        values: shape [n].
        queue: pending jobs that explain a part of it, shape [n].
        seed: of the bootstrap.
    """
    design = np.column_stack([np.ones_like(seconds), seconds / HOUR, queue / 1000.0])
    fitted, *_ = np.linalg.lstsq(design, values, rcond=None)
    expected = design @ fitted
    left, rng, count = values - expected, np.random.default_rng(seed), len(values)
    block = min(_BLOCK, count)
    slopes = np.empty(_DRAWS)
    for draw in range(_DRAWS):
        begins = rng.integers(0, count - block + 1, size=-(-count // block))
        places = (begins[:, None] + np.arange(block)).ravel()[:count]
        again, *_ = np.linalg.lstsq(design, expected + left[places], rcond=None)
        slopes[draw] = again[1]
    low, high = np.quantile(slopes, [0.025, 0.975])
    return Slope(
        an_hour=float(fitted[1]),
        lowest=float(low),
        highest=float(high),
        mean=float(values.mean()),
        largest=float(values.max()),
    )
