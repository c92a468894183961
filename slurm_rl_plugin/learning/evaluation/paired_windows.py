"""Two policies on the same windows of a log: the ratio of a figure, and how sure it is.

Windows that share jobs are not independent of each other: blocks of consecutive windows are drawn
for the interval, as long as windows overlap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.intervals import mean_over_windows


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRatio:
    """A figure of one policy over that of another, below 1 where the first has less.

    Attributes:
        mean: ratio of the arithmetic means over windows.
        geometric_mean: of the ratios in the single windows.
        ci95: 95 % confidence interval of `geometric_mean`; None where the windows are too few.
    """

    mean: float
    geometric_mean: float
    ci95: tuple[float, float] | None


def ratio_over_windows(
    numerators: FloatArray,
    denominators: FloatArray,
    rng: np.random.Generator,
    *,
    block: int = 1,
) -> WindowRatio:
    """Ratio of a figure over paired windows, with a moving-block bootstrap interval.

    Args:
        numerators: figure of one policy in each window, shape [windows], time order, > 0.
        denominators: of the other policy in the same windows, > 0.
        rng: source of randomness; equally seeded ones draw the same windows for every policy.
        block: consecutive windows that depend on each other (`overlapping_windows`), at least 1.

    Raises:
        ConfigurationError: no windows, unequal numbers of them, a figure that is not finite and
            above 0, or a block of no windows.
    """
    _check_figures(numerators, denominators)
    if block < 1:
        raise ConfigurationError(f"blocks of {block} windows give no interval: at least 1.")
    logs = np.log(numerators / denominators)
    mean, ci95 = mean_over_windows(logs, rng, block=block)
    return WindowRatio(
        mean=float(numerators.mean() / denominators.mean()),
        geometric_mean=math.exp(mean),
        ci95=None if ci95 is None else (math.exp(ci95[0]), math.exp(ci95[1])),
    )


def overlapping_windows(firsts: Sequence[int], jobs: int) -> int:
    """The most consecutive windows of which any two share a job; at least 1.

    Args:
        firsts: first job of each window, ascending.
        jobs: length of a window.
    """
    places = np.asarray(firsts)
    ends = np.searchsorted(places, places + jobs, side="left")
    return max(int((ends - np.arange(len(places))).max(initial=1)), 1)


def _check_figures(numerators: FloatArray, denominators: FloatArray) -> None:
    if numerators.ndim != 1 or numerators.shape != denominators.shape or not len(numerators):
        raise ConfigurationError(
            f"paired windows need a figure of each policy in every window, not {numerators.shape} "
            f"and {denominators.shape}."
        )
    figures = np.concatenate([numerators, denominators])
    if not (np.isfinite(figures).all() and (figures > 0).all()):
        raise ConfigurationError("a figure of a window is not finite and above 0: no ratio of it.")
