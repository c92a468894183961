"""Two policies on the same windows of a log: the ratio of a figure, and how sure it is.

Windows that share jobs are not independent of each other. The interval comes from a moving-block
bootstrap (Künsch 1989): blocks of consecutive windows are drawn, as long as windows overlap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.units import FloatArray, IntArray

#: How often the blocks are drawn.
RESAMPLES = 2000
#: Blocks that must fit beside each other: a single one is the same in every draw.
FEWEST_BLOCKS = 2


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
    resamples: int = RESAMPLES,
) -> WindowRatio:
    """Ratio of a figure over paired windows, with a moving-block bootstrap interval.

    Args:
        numerators: figure of one policy in each window, shape [windows], time order, > 0.
        denominators: of the other policy in the same windows, > 0.
        rng: source of randomness; equally seeded ones draw the same windows for every policy.
        block: consecutive windows that depend on each other (`overlapping_windows`), at least 1.
        resamples: how often the blocks are drawn.

    Raises:
        ConfigurationError: no windows, unequal numbers of them, a figure that is not finite and
            above 0, a block of no windows, or no resamples.
    """
    _check_figures(numerators, denominators)
    if block < 1 or resamples < 1:
        raise ConfigurationError(
            f"{resamples} resamples of blocks of {block} windows give no interval: at least 1 each."
        )
    logs = np.log(numerators / denominators)
    mean, ci95 = mean_over_windows(logs, rng, block=block, resamples=resamples)
    return WindowRatio(
        mean=float(numerators.mean() / denominators.mean()),
        geometric_mean=math.exp(mean),
        ci95=None if ci95 is None else (math.exp(ci95[0]), math.exp(ci95[1])),
    )


def mean_over_windows(
    values: FloatArray, rng: np.random.Generator, *, block: int = 1, resamples: int = RESAMPLES
) -> tuple[float, tuple[float, float] | None]:
    """Mean of a figure over windows, with the same bootstrap interval as `ratio_over_windows`.

    Args:
        values: of each window, shape [windows], time order.
        rng: source of randomness.
        block: consecutive windows that depend on each other, at least 1.
        resamples: how often the blocks are drawn.
    """
    if len(values) < FEWEST_BLOCKS * block:
        return float(values.mean()), None
    low, high = np.quantile(block_means(values, rng, block, resamples), (0.025, 0.975))
    return float(values.mean()), (float(low), float(high))


def overlapping_windows(firsts: Sequence[int], jobs: int) -> int:
    """The most consecutive windows of which any two share a job; at least 1.

    Args:
        firsts: first job of each window, ascending.
        jobs: length of a window.
    """
    places = np.asarray(firsts)
    ends = np.searchsorted(places, places + jobs, side="left")
    return max(int((ends - np.arange(len(places))).max(initial=1)), 1)


def block_means(
    values: FloatArray, rng: np.random.Generator, block: int, resamples: int
) -> FloatArray:
    """Mean of each resample, shape [resamples]; the last block is cut to the number of windows.

    Args:
        values: of each window, shape [windows], time order.
        rng: source of randomness.
        block: consecutive windows drawn together, at most as many as there are.
        resamples: how often.
    """
    places = drawn_places(len(values), rng, block, resamples)
    return np.asarray(values[places].mean(axis=1), dtype=np.float64)


def drawn_places(count: int, rng: np.random.Generator, block: int, resamples: int) -> IntArray:
    """Places of each resample: moving blocks beside each other, shape [resamples, count].

    Args:
        count: of how many values, in time order.
        rng: source of randomness.
        block: consecutive values drawn together, at most `count`.
        resamples: how often.
    """
    begins = rng.integers(count - block + 1, size=(resamples, -(-count // block)))
    return (begins[:, :, None] + np.arange(block)).reshape(resamples, -1)[:, :count]


def _check_figures(numerators: FloatArray, denominators: FloatArray) -> None:
    if numerators.ndim != 1 or numerators.shape != denominators.shape or not len(numerators):
        raise ConfigurationError(
            f"paired windows need a figure of each policy in every window, not {numerators.shape} "
            f"and {denominators.shape}."
        )
    figures = np.concatenate([numerators, denominators])
    if not (np.isfinite(figures).all() and (figures > 0).all()):
        raise ConfigurationError("a figure of a window is not finite and above 0: no ratio of it.")
