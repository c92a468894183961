"""Experiments on drawn clusters: the declaration, its blocks held, what was found and when."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.domain.switchback import OURS, SITE, Declaration
from slurm_rl_plugin.measure.intervals import BETTER, INCONCLUSIVE, WORSE
from slurm_rl_plugin.papers.switchback.clusters import (
    WARM_UP,
    DrawnTrial,
    alike,
    declared,
    reversed_model,
    with_gain,
)
from slurm_rl_plugin.units import HOUR, FloatArray
from slurm_rl_plugin.what_if.switchback.block_costs import GOALS, BlockCosts, costs, costs_of_blocks
from slurm_rl_plugin.what_if.switchback.evidence import GoalFinding, findings, floors_of
from slurm_rl_plugin.what_if.switchback.trial import early_stretches, first_tripped

#: Kinds of clusters.
ALIKE, GAIN, HARM = "nothing differs", "a gain of 15 %", "harm"
KINDS = (ALIKE, GAIN, HARM)
#: Part of the mean bounded slowdown that is gained.
GAINED = 0.15
#: Hours within which harm is to be over.
SOON = 48.0
#: The coins are drawn by the seed of the cluster and so much.
_COINS = 1000
#: Hours of a look at the warm-up, and of its day on which the first one begins.
_LOOK, _FIRST_LOOK = 4, 48


class TrialLength(NamedTuple):
    """How long experiments last.

    Attributes:
        days: where nothing differs, or something is gained.
        harm: of those with harm.
    """

    days: int = 56
    harm: int = 4


QUICK = TrialLength(days=6)


class Damage(NamedTuple):
    """What ours cost users beyond the site's order.

    Attributes:
        waited: hours of jobs that waited longer, all added up.
        slowdown: slowdowns of jobs that grew, all added up.
    """

    waited: float
    slowdown: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTrial:
    """What came of an experiment on a drawn cluster.

    Attributes:
        costs: of all of its blocks.
        floors: see `findings`.
        found: what the blocks tell, by goal.
        guard: how many blocks were over when a guard tripped first; None for never.
        ratio: true mean bounded slowdown, ours in force all the time over the site's.
        really: blocks -> damage to all jobs if our order is taken back after so many of them, as a
            simulation of the same cluster without the experiment tells; of HARM alone.
    """

    declared: Declaration
    costs: BlockCosts
    floors: FloatArray
    found: Sequence[GoalFinding]
    guard: int | None
    ratio: float
    really: dict[int, Damage]

    @property
    def decides(self) -> GoalFinding:
        """What is known of the declared goal."""
        return next(each for each in self.found if each.decides)

    @property
    def is_said(self) -> bool:
        """Whether anything was ever said to be better or worse."""
        return any(each.word != INCONCLUSIVE for each in self.found)

    @property
    def is_better(self) -> bool:
        """Whether ours was found better by the declared goal."""
        return self.decides.word == BETTER

    @property
    def off(self) -> int | None:
        """How many blocks were over when ours was taken back; None for never."""
        sure = [each.blocks for each in self.found if each.word == WORSE]
        known = [each for each in (*sure, self.guard) if each is not None]
        return min(known) if known else None

    def hours(self, blocks: int | None) -> float:
        """From the begin to the end of so many blocks; inf for None."""
        if blocks is None:
            return np.inf
        return (self.declared.blocks[blocks - 1].end - self.declared.begin) / HOUR

    @property
    def covers(self) -> bool:
        """Whether the confidence sequence of the declared goal holds the true ratio."""
        effect = self.decides.effect
        return bool(effect.low <= np.log(self.ratio) <= effect.high)

    def blocks_within(self, hours: float) -> int:
        """How many blocks are over after so many hours."""
        return self.declared.closed(self.declared.begin + hours * HOUR)

    def damage(self, blocks: int) -> Damage:
        """Beyond replays of the site's order, in those of the first blocks that ours held.

        What a block costs behind its wash-out is taken for all of it. Replays begin with the queue
        that a block met, so what an earlier block left behind is not counted.
        """
        more = (self.costs.measured - self.costs.by_site)[:blocks]
        hours = np.array(
            [
                (each.end - each.begin) / HOUR * (each.arm == OURS)
                for each in self.declared.blocks[:blocks]
            ]
        )
        names = list(GOALS)
        waited, slowdown = (
            float(hours @ more[:, names.index(goal)]) for goal in ("wait", "bounded_slowdown")
        )
        return Damage(waited=waited, slowdown=slowdown)


def held_trial(kind: str, seed: int, length: TrialLength) -> HeldTrial:
    """Draw a cluster, hold its queue in turns, and look after every block.

    Evidence is valid at any time and is never taken back, so that one look at all blocks tells
    after which of them it was sure. Guards are asked after each.

    Args:
        kind: one of KINDS.
    """
    days = length.harm if kind == HARM else length.days
    trial = _drawn(kind, seed, days)
    experiment = declared(seed + _COINS, days)
    cluster = trial.replayed(trial.starts(experiment.blocks))
    looks = range(_FIRST_LOOK, WARM_UP * 24, _LOOK)
    history = [costs(cluster.times, at * HOUR, (at + _LOOK) * HOUR) for at in looks]
    floors = floors_of(np.array(history))
    found = costs_of_blocks(cluster, experiment.blocks)
    early = costs_of_blocks(cluster, early_stretches(experiment))
    guard = first_tripped(experiment, found, early, floors)
    held = HeldTrial(
        declared=experiment,
        costs=found,
        floors=floors,
        found=findings(experiment, found, floors),
        guard=None if guard is None else guard[0],
        ratio=trial.slowdown(OURS) / trial.slowdown(SITE),
        really={},
    )
    if kind == HARM:
        held.really.update(_damages(trial, held))
    return held


def _drawn(kind: str, seed: int, days: int) -> DrawnTrial:
    if kind == ALIKE:
        return alike(seed, days)
    return reversed_model(seed, days) if kind == HARM else with_gain(seed, days, GAINED)


def _damages(trial: DrawnTrial, held: HeldTrial) -> dict[int, Damage]:
    """To all jobs until the last has started, whenever ours may have been taken back."""
    blocks, jobs = held.declared.blocks, trial.jobs
    never = trial.starts(())
    found = {}
    for count in {stopped_after(held), held.blocks_within(SOON), len(blocks)}:
        longer = trial.starts(blocks[:count]) - never
        found[count] = Damage(
            waited=float(longer.sum()) / HOUR,
            slowdown=float((longer / np.maximum(jobs.run_time, 10.0)).sum()),
        )
    return found


def stopped_after(held: HeldTrial) -> int:
    """Blocks that were over when ours was taken back, all where it was not."""
    return len(held.declared.blocks) if held.off is None else held.off


def held_trials(
    seeds: int, length: TrialLength, add: Callable[[int], None]
) -> dict[str, list[HeldTrial]]:
    """Experiments of each kind, of seeds 0 to `seeds` - 1, in threads.

    Args:
        seeds: so many clusters of each kind.
        add: told of each that is over.
    """

    def held(asked: tuple[str, int]) -> HeldTrial:
        found = held_trial(*asked, length)
        add(1)
        return found

    every = [(kind, seed) for kind in KINDS for seed in range(seeds)]
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        found = list(pool.map(held, every))
    return {kind: found[place * seeds : (place + 1) * seeds] for place, kind in enumerate(KINDS)}
