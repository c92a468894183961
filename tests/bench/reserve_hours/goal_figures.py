"""The figures of the goals over the shown hours, with intervals over hours, and of each hour.

Hours are drawn with replacement, each with all three runs of it, so that what one hour does to
both sides of a ratio stays together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from slurm_rl_plugin.measure.intervals import FEWEST_BLOCKS, Interval, drawn_places, interval_of
from tests.bench.reserve_hours.runs import ORDER, PLAIN, RESERVE, Runs
from tests.bench.reserve_hours.search import Sums, measures, meets, sums_of

#: The four figures of the goals, as `measures` gives them.
FIGURES = (
    "interactive within 120 s, reserve",
    "interactive wait, reserve / Slurm",
    "batch wait, reserve / order",
    "utilization lost",
)


def _sides(runs: Runs, seeds: Sequence[int]) -> list[Sums]:
    return [sums_of([runs[seed, name] for seed in seeds]) for name in (PLAIN, ORDER, RESERVE)]


def over_hours(runs: Runs, seeds: Sequence[int]) -> Iterator[tuple[str, float, Interval]]:
    """Each figure of the goals over all hours, and its 95 % interval over hours drawn anew.

    None for an interval where the hours are fewer than FEWEST_BLOCKS.

    Args:
        runs: all three of each hour.
        seeds: of the hours.
    """
    sides = _sides(runs, seeds)
    whole = measures(*sides, np.arange(len(seeds))[None, :])[:, 0]
    drawn = measures(*sides, drawn_places(len(seeds), np.random.default_rng(0)))
    for figure, value, draws in zip(FIGURES, whole.tolist(), drawn, strict=True):
        yield figure, value, interval_of(draws) if len(seeds) >= FEWEST_BLOCKS else None


def each_hour(runs: Runs, seeds: Sequence[int]) -> Iterator[tuple[int, list[float], list[bool]]]:
    """Seed, the four figures of this hour alone, and whether each meets its goal."""
    figures = measures(*_sides(runs, seeds), np.arange(len(seeds))[:, None])
    met = meets(figures)
    for place, seed in enumerate(seeds):
        yield seed, figures[:, place].tolist(), met[:, place].tolist()
