"""The gain in a site's own goals on jobs that no search has seen, with its interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.intervals import verdict, widened
from slurm_rl_plugin.utility.reward import RewardWeights
from slurm_rl_plugin.what_if.blocks import Blocks
from slurm_rl_plugin.what_if.replay import ReplayedPair, ReplayedVariant


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveGain:
    """What a variant gains over the cluster as it is.

    Attributes:
        gain: of the objective.
        ci95: its interval; None where there are too few stretches.
    """

    gain: float
    ci95: tuple[float, float] | None

    @property
    def verdict(self) -> str:
        """Better, worse or inconclusive."""
        return verdict(self.ci95, more_is_better=True)


def gain_of(pair: ReplayedPair, blocks: Blocks, weights: RewardWeights) -> ObjectiveGain:
    """Gain in time utility, responsiveness, fairness and slowdown, each by its weight.

    The terms of the longest wait and of what a reserve costs batch jobs are left out: draws of what
    happened know no longer wait, and both are shown beside.

    Args:
        pair: the cluster as it is, and a variant.
        blocks: over the counted jobs.
        weights: of the goals.
    """
    every = np.arange(len(pair.counted))
    sides = [
        _columns(pair.base, pair.places_before, weights),
        _columns(pair.variant, pair.places_after, weights),
    ]
    means = [(float(value.mean()), float(slowdown.mean())) for value, slowdown in sides]
    drawn = [
        (blocks.means(value, every), blocks.means(slowdown, every)) for value, slowdown in sides
    ]
    gain = _gain(np.array(means[0]), np.array(means[1]), weights)
    draws = _gain(np.array(drawn[0]), np.array(drawn[1]), weights)
    bounds = widened(np.atleast_1d(draws), float(gain), blocks.count)
    return ObjectiveGain(gain=float(gain), ci95=bounds)


def _columns(
    replayed: ReplayedVariant, place: np.ndarray, weights: RewardWeights
) -> tuple[FloatArray, FloatArray]:
    found = replayed.measures
    value = (
        weights.time_utility * found.time_utility
        + weights.responsiveness * found.responsiveness
        + weights.fairness * found.fairness
    )
    return value[place], found.bounded_slowdown[place]


def _gain(before: FloatArray, after: FloatArray, weights: RewardWeights) -> FloatArray:
    found: FloatArray = (after[0] - before[0]) - weights.slowdown * np.log10(after[1] / before[1])
    return found
