"""How far the figures of the shown hours may be from those of all such hours: a bootstrap.

Hours are drawn with replacement, each with all three runs of it, so that what one hour does to
both sides of a ratio stays together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bench.reserve_hours.runs import ORDER, PLAIN, RESERVE, Runs
from bench.reserve_hours.search import Sums, measures, meets, sums_of

#: The four figures of the goals, as `measures` gives them.
FIGURES = (
    "interactive within 120 s, reserve",
    "interactive wait, reserve / Slurm",
    "batch wait, reserve / order",
    "utilization lost",
)
_DRAWS = 10_000

#: Figure, its value over all hours, bounds that hold 95 % of the draws.
Interval = tuple[str, float, float, float]


def _sides(runs: Runs, seeds: Sequence[int]) -> list[Sums]:
    return [sums_of([runs[seed, name] for seed in seeds]) for name in (PLAIN, ORDER, RESERVE)]


def intervals(runs: Runs, seeds: Sequence[int]) -> Iterator[Interval]:
    """Each figure of the goals over all hours, and its 95 % interval over hours drawn anew.

    Args:
        runs: all three of each hour.
        seeds: of the hours.
    """
    sides = _sides(runs, seeds)
    drawn = np.random.default_rng(0).integers(0, len(seeds), (_DRAWS, len(seeds)))
    whole = measures(*sides, np.arange(len(seeds))[None, :])[:, 0]
    low, high = np.quantile(measures(*sides, drawn), (0.025, 0.975), axis=1)
    yield from zip(FIGURES, whole.tolist(), low.tolist(), high.tolist(), strict=True)


def each_hour(runs: Runs, seeds: Sequence[int]) -> Iterator[tuple[int, list[float], list[bool]]]:
    """Seed, the four figures of this hour alone, and whether each meets its goal."""
    figures = measures(*_sides(runs, seeds), np.arange(len(seeds))[:, None])
    met = meets(figures)
    for place, seed in enumerate(seeds):
        yield seed, figures[:, place].tolist(), met[:, place].tolist()
