"""How much a resource grows from one round of the same load to the next: same phase by phase."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from slurm_rl_plugin.units import HOUR, FloatArray

#: Seconds of a phase: long enough to hold several cycles, so that some samples lie between calls.
PHASE = 30.0
#: Two differences are the fewest that have an interval.
LEAST_ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Growth an hour with its 95 % interval.

    Attributes:
        an_hour: mean of `differences`.
        lowest: end of the interval.
        highest: the other end.
        mean: over the judged rounds.
        largest: over the whole run.
        differences: from each judged round to the next one, an hour.
    """

    an_hour: float
    lowest: float
    highest: float
    mean: float
    largest: float
    differences: list[float]


def growth_between(
    samples: Sequence[tuple[float, float]],
    begins: Sequence[float],
    length: float,
    of_phase: Callable[[FloatArray], float],
) -> Growth:
    """The mean difference between successive rounds at the same phase, an hour.

    Rounds carry the same load at the same times, so a phase of one round is paired with that phase
    of the next. One number a pair of rounds enters the interval (Student's t): neighbouring samples
    are alike, what one round leaves is there in all phases of the next.

    Args:
        samples: (time, value), in order.
        begins: of the rounds that are judged.
        length: seconds of a round.
        of_phase: value of a phase, of its samples.

    Raises:
        ValueError: fewer rounds than LEAST_ROUNDS, or two without a common phase.
    """
    if len(begins) < LEAST_ROUNDS:
        raise ValueError(f"{len(begins)} whole rounds to judge: {LEAST_ROUNDS} are needed")
    at, values = np.array(samples).T
    table = np.array([_phases(at - begin, values, length, of_phase) for begin in begins])
    steps = np.diff(table, axis=0)
    known = np.isfinite(steps).any(axis=1)
    if not known.all():
        raise ValueError("two successive rounds have no phase in common that was sampled")
    differences = np.nanmean(steps, axis=1) / (np.diff(begins) / HOUR)
    low, high = _interval(differences)
    return Growth(
        an_hour=float(differences.mean()),
        lowest=low,
        highest=high,
        mean=float(np.nanmean(table)),
        largest=float(values.max()),
        differences=differences.tolist(),
    )


def _phases(
    since: FloatArray, values: FloatArray, length: float, of_phase: Callable[[FloatArray], float]
) -> FloatArray:
    """A value for each phase of one round; NaN where it was not sampled."""
    phase = np.floor(since / PHASE).astype(np.int64)
    inside = (since >= 0.0) & (since < length)
    found = np.full(int(np.ceil(length / PHASE)), np.nan)
    for each in np.unique(phase[inside]):
        found[each] = of_phase(values[inside & (phase == each)])
    return found


def _interval(differences: FloatArray) -> tuple[float, float]:
    error = differences.std(ddof=1) / np.sqrt(len(differences))
    reach = float(student.ppf(0.975, len(differences) - 1)) * float(error)
    mean = float(differences.mean())
    return mean - reach, mean + reach
