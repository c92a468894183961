"""What an experiment has found so far, by goal; whether it is a gain, harm, or nothing yet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.domain.switchback import OURS, Declaration, Pairs
from slurm_rl_plugin.units import BoolArray, FloatArray
from slurm_rl_plugin.utility.intervals import BETTER, INCONCLUSIVE, WORSE
from slurm_rl_plugin.what_if.switchback.costs import GOALS
from slurm_rl_plugin.what_if.switchback.evidence import (
    EffectSoFar,
    PairDifferences,
    effect_of,
    sure_above,
)
from slurm_rl_plugin.what_if.switchback.replayed_blocks import BlockCosts

#: Chance of ever saying better or worse of the goal that decides, though nothing differs, and of
#: saying worse of any other goal: 5 % in all.
LEVEL, LEVEL_OF_OTHERS = 0.04, 0.01
#: How much more than harm another goal has to cost: an order moves work about within its blocks.
_FURTHER = 1.1
#: A pair counts in full where replays let the orders differ by so much, as a log of ratios, and
#: always a little: they may be wrong.
_FULL_WEIGHT, _LEAST_WEIGHT = 0.2, 0.05
#: Costs of which this part of the usual ones makes no difference.
_FLOOR, _LEAST_FLOOR = 0.03, 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalFinding:
    """What is known of one goal.

    Attributes:
        goal: name.
        decides: whether it is the declared one.
        effect: logs of ratios.
        word: BETTER, WORSE or INCONCLUSIVE.
        blocks: how many were over when that was sure; None while it is not. Of both WORSE counts,
            whichever was sure first.
        site, ours: mean cost in blocks of either, as measured; NaN of none.
    """

    goal: str
    decides: bool
    effect: EffectSoFar
    word: str
    blocks: int | None
    site: float
    ours: float


def findings(declared: Declaration, found: BlockCosts, floors: FloatArray) -> list[GoalFinding]:
    """What the closed pairs tell, goal by goal.

    Args:
        declared: the experiment.
        found: costs of its first blocks, which are over.
        floors: cost of each goal below which differences do not matter, shape [goals].
    """
    pairs = Pairs.closed(declared, len(found))
    ours = np.array([block.arm == OURS for block in declared.blocks[: len(found)]], dtype=np.bool_)
    return [
        _finding(
            declared,
            goal,
            pairs,
            _differences(pairs, found, place, float(floors[place])),
            _means(found.measured[:, place], ours),
        )
        for place, goal in enumerate(GOALS)
    ]


def _differences(pairs: Pairs, found: BlockCosts, goal: int, floor: float) -> PairDifferences:
    """Costs over those of replays, of which the average counts: neither order's load is left."""
    logs = [
        np.log(each[:, goal] + floor) for each in (found.measured, found.by_site, found.by_ours)
    ]
    measured, by_site, by_ours = logs
    matters = by_ours - by_site
    of_pair = np.abs(matters[pairs.first] + matters[pairs.second]) / 2.0
    return PairDifferences(
        logs=pairs.ours_less_site(measured - (by_site + by_ours) / 2.0),
        weight=np.clip(of_pair / _FULL_WEIGHT, _LEAST_WEIGHT, 1.0),
    )


def _finding(
    declared: Declaration,
    goal: str,
    pairs: Pairs,
    differences: PairDifferences,
    means: tuple[float, float],
) -> GoalFinding:
    decides = goal == declared.goal
    level = LEVEL if decides else LEVEL_OF_OTHERS / (len(GOALS) - 1)
    harm = declared.harm * (1.0 if decides else _FURTHER)
    worse = sure_above(differences, float(np.log(harm)), level / (1 + decides))
    better = sure_above(differences.swapped, 0.0, level / 2.0) if decides else None
    word, at = INCONCLUSIVE, None
    if worse is not None:
        word, at = WORSE, worse
    elif better is not None:
        word, at = BETTER, better
    return GoalFinding(
        goal=goal,
        decides=decides,
        effect=effect_of(differences, LEVEL if decides else 0.05),
        word=word,
        blocks=None if at is None else int(pairs.second[at]) + 1,
        site=means[0],
        ours=means[1],
    )


def _means(measured: FloatArray, ours: BoolArray) -> tuple[float, float]:
    site = float(measured[~ours].mean()) if (~ours).any() else np.nan
    return site, float(measured[ours].mean()) if ours.any() else np.nan


def floors_of(history: FloatArray) -> FloatArray:
    """Costs below which differences do not matter, shape [goals].

    Args:
        history: costs of times before the experiment, at least one, shape [times, goals].
    """
    return np.asarray(np.maximum(_FLOOR * history.mean(axis=0), _LEAST_FLOOR))
