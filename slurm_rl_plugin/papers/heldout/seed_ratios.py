"""Ratios of several seeds over the same windows: their median, and an interval by blocks."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from slurm_rl_plugin.papers.study.claims import Measurement
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.intervals import (
    block_means,
    interval_of,
    mean_over_windows,
)


def over_seeds(rows: FloatArray, block: int) -> Measurement:
    """Median over the seeds of the mean; its interval is that of the mean over seeds, by blocks.

    Args:
        rows: a figure of each seed and window, shape [seeds, windows], windows in time order.
        block: consecutive windows that depend on each other.
    """
    rng = np.random.default_rng(0)
    _, interval = mean_over_windows(rows.mean(axis=0), rng, block=block)
    return Measurement(value=float(np.median(rows.mean(axis=1))), ci95=interval)


def ratio_over_seeds(rows: FloatArray, block: int) -> Measurement:
    """The same of logarithms of ratios, as a ratio: geometric means over the windows."""
    found = over_seeds(rows, block)
    ends = found.ci95
    return Measurement(
        value=float(np.exp(found.value)),
        ci95=None if ends is None else (float(np.exp(ends[0])), float(np.exp(ends[1]))),
    )


def ratio_over_logs(logs: Iterable[tuple[FloatArray, int]]) -> Measurement:
    """Geometric mean over several logs; blocks are drawn in each.

    Args:
        logs: of each log the logarithms of ratios, shape [seeds, windows], and the block.
    """
    rng = np.random.default_rng(0)
    values, draws = [], []
    for rows, block in logs:
        means = rows.mean(axis=0)
        values.append(float(np.median(rows.mean(axis=1))))
        draws.append(block_means(means, rng, min(block, len(means))))
    interval = interval_of(np.exp(np.mean(draws, axis=0)))
    return Measurement(value=float(np.exp(np.mean(values))), ci95=interval)
