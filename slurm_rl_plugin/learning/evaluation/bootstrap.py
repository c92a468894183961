"""The bootstrap: samples drawn again from those at hand, and the interval of a figure over them.

Independent samples (seeds, logs), learners and logs at once, and moving blocks of windows that
share jobs (Künsch 1989). `scipy.stats.bootstrap` draws the same independent samples from the same
generator, but its interval is none where a draw gives no number, as a ratio of waits in a draw
without any, and otherwise may differ in the last digit, for it takes the quantiles at 0.025 and a
rounding error: published figures would change. It knows no blocks, and no two kinds of chance.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from slurm_rl_plugin.units import FloatArray, IntArray

#: Ends of a 95 % interval, as quantiles.
ENDS = (0.025, 0.975)
#: How often independent samples are drawn, and how often blocks.
RESAMPLES, BLOCK_RESAMPLES = 1000, 2000
#: Blocks that must fit beside each other: a single one is the same in every draw.
FEWEST_BLOCKS = 2


def interval_of(resampled: FloatArray) -> tuple[float, float]:
    """The middle 95 % of a figure's draws, shape [resamples]."""
    low, high = np.quantile(resampled, ENDS)
    return float(low), float(high)


def of_samples(values: FloatArray, statistic: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """A statistic of independent samples, drawn the same each time; those draws that are finite.

    Args:
        values: a figure of each sample on the last axis.
        statistic: over that axis.
    """
    samples = values.shape[-1]
    places = np.random.default_rng(0).integers(samples, size=(RESAMPLES, samples))
    with np.errstate(divide="ignore", invalid="ignore"):
        resampled = statistic(values[..., places])
    return resampled[np.isfinite(resampled)]


def of_learners_and_logs(values: FloatArray) -> FloatArray:
    """Means where learners and logs are both drawn afresh, the same each time, shape [RESAMPLES].

    Args:
        values: shape [learners, logs].
    """
    learners, logs = values.shape
    rng = np.random.default_rng(0)
    chosen_learners = rng.integers(learners, size=(RESAMPLES, learners, 1))
    chosen_logs = rng.integers(logs, size=(RESAMPLES, 1, logs))
    return np.asarray(values[chosen_learners, chosen_logs].mean(axis=(1, 2)))


def mean_over_windows(
    values: FloatArray,
    rng: np.random.Generator,
    *,
    block: int = 1,
    resamples: int = BLOCK_RESAMPLES,
) -> tuple[float, tuple[float, float] | None]:
    """Mean of a figure over windows, and its interval; None where the windows are too few.

    Args:
        values: of each window, shape [windows], time order.
        rng: source of randomness.
        block: consecutive windows that depend on each other, at least 1.
        resamples: how often the blocks are drawn.
    """
    mean = float(values.mean())
    if len(values) < FEWEST_BLOCKS * block:
        return mean, None
    return mean, interval_of(block_means(values, rng, block, resamples))


def block_means(
    values: FloatArray, rng: np.random.Generator, block: int, resamples: int = BLOCK_RESAMPLES
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
