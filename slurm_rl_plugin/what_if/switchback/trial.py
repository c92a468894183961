"""An experiment under way: costs of the blocks that are over, and what they say.

What a block cost is made once, as it is over, and kept: what becomes known later of its jobs
changes neither it nor what was said of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from slurm_rl_plugin.domain.switchback import SITE, Declaration, TurnBlock
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.intervals import BETTER, WORSE
from slurm_rl_plugin.what_if.switchback.costs import GOALS, costs
from slurm_rl_plugin.what_if.switchback.findings import GoalFinding, findings, floors_of
from slurm_rl_plugin.what_if.switchback.guards import early_stretches, first_tripped
from slurm_rl_plugin.what_if.switchback.replayed_blocks import (
    BlockCosts,
    ReplayedCluster,
    costs_of_blocks,
)

#: Days before an experiment whose costs are the usual ones, and parts of a day that each is of.
_DAYS_BEFORE, _PARTS = 14, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What is known of an experiment.

    Attributes:
        declared: the experiment.
        floors: costs below which differences do not matter, shape [goals].
        costs: of its first blocks.
        since_begin: of the times of `early_stretches` that are over.
    """

    declared: Declaration
    floors: FloatArray
    costs: BlockCosts
    since_begin: BlockCosts = field(default_factory=BlockCosts.none)

    @classmethod
    def begun(cls, declared: Declaration, cluster: ReplayedCluster, now: float) -> Trial:
        """Before its first block is looked at.

        Args:
            declared: the experiment.
            cluster: on which it is.
            now: seconds, behind the first block.
        """
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

    def findings(self) -> list[GoalFinding]:
        """What is known of each goal."""
        return findings(self.declared, self.costs, self.floors)

    def steps_back(self, held: float, misdelivered: float = 0.0) -> str | None:
        """Why it has to be left to the site, one sentence; None where it may go on.

        Args:
            held: see `guards.tripped`.
            misdelivered: the same.
        """
        for each in self.findings():
            if each.word == WORSE:
                return (
                    f"{self.declared.on_trial} is worse in {each.goal}: {self._ratio_text(each)}."
                )
        guard = first_tripped(
            self.declared, self.costs, self.since_begin, self.floors, held, misdelivered
        )
        return None if guard is None else guard[1]

    def gain(self) -> str | None:
        """What is gained beyond chance, one sentence; None while nothing is."""
        for each in self.findings():
            if each.decides and each.word == BETTER:
                return (
                    f"{self.declared.on_trial} is better in {each.goal}: {self._ratio_text(each)}."
                )
        return None

    def _ratio_text(self, found: GoalFinding) -> str:
        row = _row(found)
        high = "-" if row["high"] is None else f"{row['high']:.2f}"
        return f"it costs {row['ratio']:.2f} of {self.declared.against} [{row['low']:.2f}, {high}]"

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
        """What `as_json` made.

        Raises:
            ValueError: it is no such document, or of another experiment.
        """
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
    progress: Callable[[int], None] | None = None,
) -> float | None:
    """What ours would have cost over the site's order by replays of past blocks.

    Args:
        cluster: of the site.
        blocks: of the past.
        goal: name.
        progress: called with 1 for each block that is done.

    Returns:
        The ratio; None where accounting begins later, or nobody waited.
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
        "meaning": GOALS[found.goal].meaning,
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
