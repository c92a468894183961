"""A figure of `make bench`: its unit, its goal, and what a machine could not do without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.bench.speed.paired_ratio import paired_ratio

#: A figure is worse where it is so by more than this, and by more than the noise.
WORSE = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What a line of the table is about.

    Attributes:
        name: as the measurement calls it.
        unit: of the value.
        goal: 0 where there is none.
        rate: whether more is better, as of jobs a second.
        floor: name of the figure that tells what the machine does at best; "" for none.
    """

    name: str
    unit: str
    goal: float = 0.0
    rate: bool = False
    floor: str = ""

    def met(self, value: float) -> bool | None:
        """Whether the goal is reached; None where there is none."""
        if not self.goal:
            return None
        return value >= self.goal if self.rate else value <= self.goal


def compared(figure: Figure, now: Sequence[float], before: Sequence[float]) -> dict[str, Any]:
    """How many times better or worse than before, from interleaved pairs.

    Args:
        figure: of which they are.
        now, before: one value for each pair.
    """
    ratio = paired_ratio(now, before)
    low, high = sorted(np.asarray(ratio["ci95"], dtype=np.float64).tolist())
    worst = 1.0 / high if figure.rate else low
    return {**ratio, "worse": bool(worst > WORSE)}


def against_kept(figure: Figure, now: Sequence[float], kept: Sequence[float]) -> dict[str, Any]:
    """The same against an earlier run, of which no value has to do with one of this run.

    Noise is told by the ranges: it is worse where the best value of now is, than the worst kept.
    """
    ratio = float(np.median(now) / np.median(kept))
    best, worst = (max(now), min(kept)) if figure.rate else (min(now), max(kept))
    beyond = worst / best if figure.rate else best / worst
    return {"ratio": ratio, "ci95": None, "pairs": 0, "worse": bool(beyond > WORSE)}
