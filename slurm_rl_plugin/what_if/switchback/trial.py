"""An experiment under way: costs of the blocks that are over, what they say, and when it ends.

What a block cost is made once, as it is over, and kept: what becomes known later of its jobs
changes neither it nor what was said of it. Guards step back without certainty: they are asked after
each block, long before pairs can be significant, and say that a person has to look.

Evidence from pairs of blocks stays right however often one looks. Under the hypothesis that ours
costs exp(effect) times what the site's order costs, in every block, the coin of a pair decides
nothing but the sign of what is left of its difference: what is left is +x or -x, each with chance
1/2, whatever the load was, however waits hang together, and whatever came before. A gambler who
starts with 1 and stakes the part k of what he has on the sign gains nothing on average, so that he
ever has c is no likelier than 1 / c (Ville 1939): having 1 / level is evidence against the
hypothesis at that level, at each moment at once. He stakes several k at a time (Waudby-Smith and
Ramdas 2024), less on differences that are small relative to the usual ones, and hardly anything on
hours in which the order of the queue does not matter. All effects that no such gambler has refuted
are the confidence sequence (Howard, Ramdas, McAuliffe and Sekhon 2021).

What breaks it: a user who knows the coins and chooses when to submit; effects of a block that
last beyond the wash-out of the next one, which make both orders look more similar than they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from slurm_rl_plugin.domain.switchback import OURS, SITE, Declaration, Pairs, TurnBlock
from slurm_rl_plugin.measure.intervals import BETTER, INCONCLUSIVE, WORSE
from slurm_rl_plugin.units import HOUR, BoolArray, FloatArray
from slurm_rl_plugin.what_if.switchback.block_costs import (
    GOALS,
    BlockCosts,
    ReplayedCluster,
    costs,
    costs_of_blocks,
)

#: Parts of what the gambler has that he stakes, each with the same part of his first money.
_STAKES = np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9])
#: A difference counts in full from this multiple of the median of the earlier ones on; before there
#: are _FEWEST of these, the log of a ratio that counts in full is _FIRST, and it is never smaller
#: than _LEAST.
_FULL, _FEWEST, _FIRST, _LEAST = 2.0, 3, 0.5, 0.05
#: Logs of ratios between which effects are looked for, and how finely.
_FURTHEST, _HALVINGS = 8.0, 40


@dataclass(frozen=True, slots=True, kw_only=True)
class PairDifferences:
    """The differences of pairs of blocks, in the order in which they ended."""

    logs: FloatArray  #: of the ratio of costs, ours over the site's, one a pair, shape [n]
    #: how much each pair counts, above 0 and at most 1, the same for both assignments; shape [n]
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
    """What is known of an effect after some pairs, as logs of ratios."""

    estimate: float  #: where what is left of the pairs points up as much as down; NaN of no pair
    low: float  #: ends of the confidence sequence; infinite where nothing is known
    high: float  #: ends of the confidence sequence; infinite where nothing is known
    pairs: int


def effect_of(pairs: PairDifferences, level: float) -> EffectSoFar:
    """The effect by the pairs, with a confidence sequence.

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
#: Part of the usual costs that makes no difference.
_FLOOR, _LEAST_FLOOR = 0.03, 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalFinding:
    """What is known of one goal."""

    goal: str
    decides: bool  #: whether it is the declared one
    effect: EffectSoFar  #: logs of ratios
    word: str  #: BETTER, WORSE or INCONCLUSIVE
    #: how many were over when that was sure; None while it is not. Of both WORSE counts, whichever
    #: was sure first.
    blocks: int | None
    site: float  #: mean cost in blocks of either, as measured; NaN of none
    ours: float  #: mean cost in blocks of either, as measured; NaN of none


def floors_of(history: FloatArray) -> FloatArray:
    """Costs below which differences do not matter, shape [goals].

    `history` are costs of times before the experiment, at least one, shape [times, goals].
    """
    return np.asarray(np.maximum(_FLOOR * history.mean(axis=0), _LEAST_FLOOR))


#: Blocks before replays are believed, what they must say that ours costs more, and by how many
#: standard errors over the blocks.
_FEWEST_BLOCKS, _REPLAYED_HARM, _ERRORS = 3, 1.05, 1.2
#: What a replay of all the time since the begin must say where the blocks do not agree, and for how
#: many days there is one.
_SURE_HARM, _EARLY_DAYS = 1.4, 2
#: Seconds by which times of blocks may differ from whole days.
_ROUNDING = 1.0
#: Its own blocks gainsay it where they cost less than replays of the site's order, by this log.
_GAINSAID = -0.05
#: What is watched in the same way in addition to the goal that decides.
_WATCHED = "wait"
#: The least part of its blocks that each order must have been in force.
LEAST_HELD = 0.8


def early_stretches(declared: Declaration) -> tuple[TurnBlock, ...]:
    """The times from the begin to the end of each block of the first days.

    Within a block little of a harm shows: it begins with the queue that it met. Had an order been
    in force all the time, its harm would have added up.
    """
    until = declared.begin + _EARLY_DAYS * declared.day + _ROUNDING
    early = [block for block in declared.blocks if block.end <= until]
    return tuple(replace(block, begin=declared.begin) for block in early)


#: Days before an experiment whose costs are the usual ones, and parts of a day that each is of.
_DAYS_BEFORE, _PARTS = 14, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What is known of an experiment."""

    declared: Declaration
    floors: FloatArray  #: costs below which differences do not matter, shape [goals]
    costs: BlockCosts  #: of its first blocks
    #: of the times of `early_stretches` that are over
    since_begin: BlockCosts = field(default_factory=BlockCosts.none)

    @classmethod
    def begun(cls, declared: Declaration, cluster: ReplayedCluster, now: float) -> Trial:
        """Before its first block is looked at; `now` lies behind that block, seconds."""
        times = cluster.times
        history = [
            costs(times, block.begin, block.end)
            for block in blocks_before(declared.begin, declared.day)
            if _is_known(cluster, block)
        ]
        if not history:  # a new site: its first hours are the usual ones
            history = [costs(times, declared.begin, min(now, declared.begin + declared.day))]
        return cls(declared=declared, floors=floors_of(np.array(history)), costs=BlockCosts.none())

    def looked_at(self, cluster: ReplayedCluster, now: float) -> Trial:
        """With the blocks that are over by now."""
        closed = self.declared.closed(now)
        later = self.declared.blocks[len(self.costs) : closed]
        stretches = early_stretches(self.declared)[len(self.since_begin) : closed]
        return replace(
            self,
            costs=self.costs.joined(costs_of_blocks(cluster, later)),
            since_begin=self.since_begin.joined(costs_of_blocks(cluster, stretches)),
        )

    def first(self, blocks: int) -> Trial:
        """What was known after its first blocks."""
        early = self.since_begin.first(blocks)
        return replace(self, costs=self.costs.first(blocks), since_begin=early)

    @property
    def _ours(self) -> BoolArray:
        """Which blocks ours held, shape [blocks]."""
        blocks = self.declared.blocks[: len(self.costs)]
        return np.array([block.arm == OURS for block in blocks], dtype=np.bool_)

    def _above_floor(self, place: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Costs by a goal and its floor: measured, by the site's order, by ours; [blocks] each."""
        found = (self.costs.measured, self.costs.by_site, self.costs.by_ours)
        measured, by_site, by_ours = (each[:, place] + self.floors[place] for each in found)
        return measured, by_site, by_ours

    def findings(self) -> list[GoalFinding]:
        """What is known of each goal by the closed pairs."""
        pairs = Pairs.closed(self.declared, len(self.costs))
        return [self._finding(goal, place, pairs) for place, goal in enumerate(GOALS)]

    def _finding(self, goal: str, place: int, pairs: Pairs) -> GoalFinding:
        decides, ours = goal == self.declared.goal, self._ours
        differences = self._differences(place, pairs)
        level = LEVEL if decides else LEVEL_OF_OTHERS / (len(GOALS) - 1)
        harm = self.declared.harm * (1.0 if decides else _FURTHER)
        worse = sure_above(differences, float(np.log(harm)), level / (1 + decides))
        better = sure_above(differences.swapped, 0.0, level / 2.0) if decides else None
        word = INCONCLUSIVE if better is None else BETTER
        word, at = (word, better) if worse is None else (WORSE, worse)
        site_cost, our_cost = (
            float(self.costs.measured[arm].mean(axis=0)[place]) if arm.any() else math.nan
            for arm in (~ours, ours)
        )
        return GoalFinding(
            goal=goal,
            decides=decides,
            effect=effect_of(differences, LEVEL if decides else 0.05),
            word=word,
            blocks=None if at is None else int(pairs.second[at]) + 1,
            site=site_cost,
            ours=our_cost,
        )

    def _differences(self, place: int, pairs: Pairs) -> PairDifferences:
        """Costs over the average of those of replays: neither order's load is left."""
        measured, by_site, by_ours = map(np.log, self._above_floor(place))
        matters = by_ours - by_site
        of_pair = np.abs(matters[pairs.first] + matters[pairs.second]) / 2.0
        return PairDifferences(
            logs=pairs.ours_less_site(measured - (by_site + by_ours) / 2.0),
            weight=np.clip(of_pair / _FULL_WEIGHT, _LEAST_WEIGHT, 1.0),
        )

    def first_tripped(self, held: float = 1.0, misdelivered: float = 0.0) -> tuple[int, str] | None:
        """After how many blocks a guard tripped first, and its sentence; None for never.

        All blocks are asked after, also those that a late look has passed over; arguments are
        those of `tripped`, of the last of them.
        """
        for blocks in range(1, len(self.costs) + 1):
            now = (held, misdelivered) if blocks == len(self.costs) else (1.0, 0.0)
            sentence = self.first(blocks).tripped(*now)
            if sentence is not None:
                return blocks, sentence
        return None

    def tripped(self, held: float = 1.0, misdelivered: float = 0.0) -> str | None:
        """The first guard that trips after the last block, one sentence; None for none.

        By the part of the time of the last blocks in which the order was in force whose turn it
        was, and by `turns.misdelivered_since_begin`.
        """
        return (
            self._longest_wait()
            or self._replays(self.declared.goal)
            or self._replays(_WATCHED)
            or self._of_the_day(held, misdelivered)
        )

    def _longest_wait(self) -> str | None:
        place, bound = list(GOALS).index("longest_wait"), self.declared.longest_wait / HOUR
        measured, by_site = self.costs.measured[:, place], self.costs.by_site[:, place]
        # what would have waited too long under the site's order, too, is not ours to answer for
        beyond = self._ours & (measured > bound) & (by_site <= bound)
        if not beyond.any():
            return None
        hours = float(measured[beyond].max())
        return f"a job has waited for {hours:.0f} hours, beyond the bound of {bound:.0f}."

    def _replays(self, goal: str) -> str | None:
        """Replays of the real queues say that ours costs more, and its blocks agree."""
        blocks, harm = len(self.costs), max(_REPLAYED_HARM, self.declared.harm)
        if blocks < _FEWEST_BLOCKS:
            return None
        place = list(GOALS).index(goal)
        measured, by_site, by_ours = self._above_floor(place)
        really = np.log(measured[self._ours] / by_site[self._ours])
        if len(really) == 0 or really.mean() <= _GAINSAID:
            return None
        logs, ratio = np.log(by_ours / by_site), float(by_ours.sum() / by_site.sum())
        agree = logs.mean() >= _ERRORS * logs.std(ddof=1) / math.sqrt(blocks) and ratio >= harm
        whole, of_what = ratio, f"{blocks} blocks"
        if len(self.since_begin) == blocks:
            ends = self.since_begin.by_site[-1, place], self.since_begin.by_ours[-1, place]
            site_cost, our_cost = ends + self.floors[place]
            whole, of_what = float(our_cost / site_cost), "all the time since the begin"
            agree = (agree and whole >= harm) or whole >= max(_SURE_HARM, self.declared.harm)
        if not agree:
            return None
        said, cost = (round(100.0 * each) for each in (whole - 1.0, math.expm1(really.mean())))
        return (
            f"replays of {of_what} say that {self.declared.on_trial} costs {said:+d}% in {goal}, "
            f"and in its own blocks it cost {cost:+d}%."
        )

    def _of_the_day(self, held: float, misdelivered: float) -> str | None:
        if held < LEAST_HELD:
            return (
                f"an order was in force in {held:.0%} of its last blocks only: cycles fail, or "
                "something else stops it."
            )
        if misdelivered > self.declared.misdelivered:
            return (
                f"{misdelivered:.0%} of the last fortnight's service went to the wrong account, "
                f"beyond the bound of {self.declared.misdelivered:.0%}."
            )
        return None

    def steps_back(self, held: float, misdelivered: float = 0.0) -> str | None:
        """Why it has to be left to the site, one sentence; None where it may go on."""
        found = [each for each in self.findings() if each.word == WORSE]
        if found:
            return self._sentence(found[0])
        guard = self.first_tripped(held, misdelivered)
        return None if guard is None else guard[1]

    def gain(self) -> str | None:
        """What is gained beyond chance, one sentence; None while nothing is."""
        found = [each for each in self.findings() if each.decides and each.word == BETTER]
        return self._sentence(found[0]) if found else None

    def _sentence(self, found: GoalFinding) -> str:
        row = _row(found)
        high = "-" if row["high"] is None else f"{row['high']:.2f}"
        return (
            f"{self.declared.on_trial} is {found.word} in {found.goal}: it costs "
            f"{row['ratio']:.2f} of {self.declared.against} [{row['low']:.2f}, {high}]."
        )

    def as_json(self, held: float) -> dict[str, Any]:
        """What is left in a file, printed and drawn; `of_json` reads it."""
        pairs = self.findings()
        return {
            "experiment": self.declared.name,
            "floors": self.floors.tolist(),
            "costs": self.costs.as_json(),
            "since_begin": self.since_begin.as_json(),
            "blocks": len(self.costs),
            "pairs": pairs[0].effect.pairs,
            "held": held,
            "goals": [_row(each) for each in pairs],
        }

    @classmethod
    def of_json(cls, declared: Declaration, document: Any) -> Trial:
        """What `as_json` made; ValueError where it is none, or of another experiment."""
        if not isinstance(document, dict) or document.get("experiment") != declared.name:
            raise ValueError("findings of another experiment")
        try:
            floors = np.array(document["floors"], dtype=np.float64)
            found = BlockCosts.of_json(document["costs"])
            # one that an earlier release began has none: the next look makes them
            early = document.get("since_begin")
            since_begin = BlockCosts.none() if early is None else BlockCosts.of_json(early)
        except (KeyError, TypeError) as error:
            raise ValueError(f"no findings of an experiment: {error}") from None
        fits = len(since_begin) <= len(found) <= len(declared.blocks)
        if floors.shape != (len(GOALS),) or not fits:
            raise ValueError("findings that do not fit the experiment")
        return cls(declared=declared, floors=floors, costs=found, since_begin=since_begin)


def blocks_before(begin: float, day: float) -> Iterator[TurnBlock]:
    """The two weeks before a time as blocks of the site's own order."""
    part = day / _PARTS
    for back in range(_DAYS_BEFORE * _PARTS, 0, -1):
        yield TurnBlock(begin=begin - back * part, end=begin - (back - 1) * part, arm=SITE, pair=-1)


def foretold_cost(
    cluster: ReplayedCluster,
    blocks: Sequence[TurnBlock],
    goal: str,
    progress: Callable[[int], None] = lambda _: None,
) -> float | None:
    """What ours would have cost over the site's order by replays of past blocks.

    None if accounting begins later, or no job waited; `progress` is called with 1 for each
    block.
    """
    known = [block for block in blocks if _is_known(cluster, block)]
    if not known:
        return None
    found = costs_of_blocks(cluster, tuple(known), progress)
    place = list(GOALS).index(goal)
    site = float(found.by_site[:, place].sum())
    return float(found.by_ours[:, place].sum()) / site if site > 0.0 else None


def _is_known(cluster: ReplayedCluster, block: TurnBlock) -> bool:
    """Whether accounting reaches back to a block."""
    submit = cluster.times.jobs.submit
    return len(submit) > 0 and block.begin >= submit[0]


def _row(found: GoalFinding) -> dict[str, Any]:
    effect = found.effect
    if effect.low > effect.high:  # no effect is left that was the same all the time: it changed
        effect = replace(effect, low=-math.inf, high=math.inf)
    return {
        "goal": found.goal,
        "meaning": GOALS[found.goal],
        "decides": found.decides,
        "word": found.word,
        "sure_after_blocks": found.blocks,
        "ratio": _finite(math.exp(effect.estimate)),
        "low": math.exp(effect.low),
        "high": _finite(math.exp(effect.high)) if effect.high < 700.0 else None,
        "site": _finite(found.site),
        "ours": _finite(found.ours),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
