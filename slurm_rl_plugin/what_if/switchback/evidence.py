"""Evidence from pairs of blocks that stays right however often one looks.

Under the hypothesis that ours costs exp(effect) times what the site's order costs, in every block,
the coin of a pair decides nothing but the sign of what is left of its difference: what is left is
+x or -x, each with chance 1/2, whatever the load was, however waits hang together, and whatever
came before. A gambler who starts with 1 and stakes the part k of what he has on the sign gains
nothing on average, so that he ever has c is no likelier than 1 / c (Ville 1939): having 1 / level
is evidence against the hypothesis at that level, at each moment at once. He stakes several k at a
time (Waudby-Smith and Ramdas 2024), less on differences that are small beside the usual ones, and
hardly anything on hours in which the order of the queue matters to nobody. All effects that no such
gambler has refuted are the confidence sequence (Howard, Ramdas, McAuliffe and Sekhon 2021).

What breaks it: somebody who knows the coins and chooses when to submit; effects of a block that
last beyond the wash-out of the next one, which make both orders look more alike than they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.domain.switchback import OURS, Declaration, Pairs
from slurm_rl_plugin.measure.intervals import BETTER, INCONCLUSIVE, WORSE
from slurm_rl_plugin.units import BoolArray, FloatArray
from slurm_rl_plugin.what_if.switchback.block_costs import GOALS, BlockCosts

#: Parts of what the gambler has that he stakes, each with the same part of his first money.
_STAKES = np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9])
#: A difference counts in full from so many times the median of the earlier ones on; before there
#: are so many of these it is the log of a ratio that counts in full, and never one that is smaller.
_FULL, _FEWEST, _FIRST, _LEAST = 2.0, 3, 0.5, 0.05
#: Logs of ratios between which effects are looked for, and how finely.
_FURTHEST, _HALVINGS = 8.0, 40


@dataclass(frozen=True, slots=True, kw_only=True)
class PairDifferences:
    """What pairs of blocks tell, in the order in which they were over.

    Attributes:
        logs: of the ratio of costs, ours over the site's, one a pair, shape [n].
        weight: how much each pair counts, above 0 and at most 1, whoever held which of its blocks;
            shape [n].
    """

    logs: FloatArray
    weight: FloatArray

    def __len__(self) -> int:
        return len(self.logs)

    @property
    def swapped(self) -> PairDifferences:
        """As if ours and the site's had been taken for each other."""
        return PairDifferences(logs=-self.logs, weight=self.weight)

    @property
    def scales(self) -> FloatArray:
        """From what size on each difference counts in full, by earlier ones alone; shape [n]."""
        found = np.full(len(self), _FIRST)
        for place in range(_FEWEST, len(self)):
            earlier = self.logs[:place]
            about = np.abs(earlier - np.median(earlier))
            found[place] = max(_FULL * float(np.median(about)), _LEAST)
        return found

    def sizes(self, effect: float, scale: FloatArray) -> FloatArray:
        """What of each pair an effect leaves, between -1 and 1, shape [n]."""
        return np.asarray(self.weight * np.clip((self.logs - effect) / scale, -1.0, 1.0))


def wealth(sizes: FloatArray) -> FloatArray:
    """Log of what the gambler has after each pair who stakes on sizes above 0, shape [n]."""
    logs = np.cumsum(np.log1p(_STAKES[:, None] * sizes), axis=1)
    most = logs.max(axis=0)
    return np.asarray(most + np.log(np.exp(logs - most).mean(axis=0)))


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectSoFar:
    """What is known of an effect after some pairs, as logs of ratios.

    Attributes:
        estimate: where what is left of the pairs points up as much as down; NaN of no pair.
        low, high: ends of the confidence sequence; infinite where nothing is known.
        pairs: so many.
    """

    estimate: float
    low: float
    high: float
    pairs: int


def effect_of(pairs: PairDifferences, level: float) -> EffectSoFar:
    """The effect that pairs tell of, with a confidence sequence.

    `level` is the chance that the effect ever lies outside, at most.
    """
    bound = float(np.log(2.0 / level))
    return EffectSoFar(
        estimate=_estimate(pairs),
        low=_lowest(pairs, bound),
        high=-_lowest(pairs.swapped, bound),
        pairs=len(pairs),
    )


def sure_above(pairs: PairDifferences, effect: float, level: float) -> int | None:
    """After which pair it was sure that the effect, a log of a ratio, is larger; None for never.

    `level` is the chance of being wrong, ever.
    """
    if len(pairs) == 0:
        return None
    found = wealth(pairs.sizes(effect, pairs.scales)) >= -np.log(level)
    return int(np.argmax(found)) if found.any() else None


def _lowest(pairs: PairDifferences, bound: float) -> float:
    """The smallest effect that was never refuted from below; -inf where all may be."""
    scale = pairs.scales

    def is_refuted(effect: float) -> bool:
        return bool(wealth(pairs.sizes(effect, scale)).max(initial=-np.inf) >= bound)

    low, high = -_FURTHEST, _FURTHEST
    if not is_refuted(low):
        return -np.inf
    for _ in range(_HALVINGS):  # a larger effect is refuted by less
        middle = (low + high) / 2.0
        low, high = (middle, high) if is_refuted(middle) else (low, middle)
    return high


def _estimate(pairs: PairDifferences) -> float:
    if len(pairs) == 0:
        return np.nan
    scale = pairs.scales
    low, high = float(pairs.logs.min()), float(pairs.logs.max())
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if pairs.sizes(middle, scale).sum() > 0.0 else (low, middle)
    return (low + high) / 2.0


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

    `found` are costs of the first blocks, which are over; `floors` costs of each goal below which
    differences do not matter, shape [goals].
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

    `history` are costs of times before the experiment, at least one, shape [times, goals].
    """
    return np.asarray(np.maximum(_FLOOR * history.mean(axis=0), _LEAST_FLOOR))
