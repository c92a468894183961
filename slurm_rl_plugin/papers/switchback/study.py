"""Experiments on drawn clusters: declared, run block by block, and judged at any time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from matplotlib import pyplot as plt

from slurm_rl_plugin.domain.switchback import OURS, SITE, Declaration
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.learning.side_by_side import side_by_side
from slurm_rl_plugin.measure.intervals import BETTER, INCONCLUSIVE, WORSE
from slurm_rl_plugin.papers.study import claims
from slurm_rl_plugin.papers.study.figures import legend_above
from slurm_rl_plugin.papers.study.study import Asked, Outcome
from slurm_rl_plugin.papers.switchback import clusters
from slurm_rl_plugin.units import DAY, HOUR, FloatArray
from slurm_rl_plugin.what_if.switchback.block_costs import GOALS, BlockCosts, costs, costs_of_blocks
from slurm_rl_plugin.what_if.switchback.trial import (
    EffectSoFar,
    GoalFinding,
    Trial,
    early_stretches,
    floors_of,
)

#: Kinds of clusters.
EQUAL, GAIN, HARM = "nothing differs", "a gain of 15 %", "harm"
KINDS = (EQUAL, GAIN, HARM)
#: Gained part of the mean bounded slowdown.
GAINED = 0.15
#: Hours within which harm must end.
SOON = 48.0
#: Offset of the seed of the blocks from that of the cluster.
_COINS = 1000
#: Hours of a look at the warm-up, and begin of the first look.
_LOOK, _FIRST_LOOK = 4, 48


class TrialLength(NamedTuple):
    """Days of experiments."""

    days: int = 56  #: without a difference, or with a gain
    harm: int = 4


QUICK = TrialLength(days=6)


class Damage(NamedTuple):
    """The cost of our order for users, relative to the site's order."""

    waited: float  #: sum of the additional hours of waiting
    slowdown: float  #: sum of the additional slowdowns


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTrial:
    """Results of an experiment on a drawn cluster."""

    declared: Declaration
    costs: BlockCosts  #: of all its blocks
    floors: FloatArray  #: see `findings`
    found: Sequence[GoalFinding]  #: of the blocks, by goal
    guard: int | None  #: number of blocks when a guard tripped first; None for never
    ratio: float  #: true mean bounded slowdown, always our order over always the site's
    #: Blocks -> damage to all jobs if our order is rolled back after these blocks, by a
    #: simulation of the same cluster without the experiment; only for HARM.
    really: dict[int, Damage]

    @property
    def decides(self) -> GoalFinding:
        """The finding of the declared goal."""
        return next(each for each in self.found if each.decides)

    @property
    def better(self) -> float:
        """Hours until our order was found better by the declared goal; inf for never."""
        return self.hours(self.decides.blocks if self.decides.word == BETTER else None)

    @property
    def said(self) -> float:
        """Hours until any goal was found better or worse; inf for never."""
        sure = (self.hours(each.blocks) for each in self.found if each.word != INCONCLUSIVE)
        return min(sure, default=np.inf)

    @property
    def off(self) -> int | None:
        """Number of blocks when our order was rolled back; None for never."""
        worse = [each.blocks for each in self.found if each.word == WORSE]
        known = [each for each in (*worse, self.guard) if each is not None]
        return min(known) if known else None

    @property
    def stopped(self) -> int:
        """Number of blocks when our order was rolled back; all of them if never."""
        return len(self.declared.blocks) if self.off is None else self.off

    def hours(self, blocks: int | None) -> float:
        """From the begin of the experiment to the end of these blocks; inf for None."""
        if blocks is None:
            return np.inf
        return (self.declared.blocks[blocks - 1].end - self.declared.begin) / HOUR

    @property
    def length(self) -> float:
        """Hours of the experiment."""
        return (self.declared.end - self.declared.begin) / HOUR

    @property
    def covers(self) -> bool:
        """Whether the confidence sequence of the declared goal has the true ratio."""
        effect = self.decides.effect
        return bool(effect.low <= np.log(self.ratio) <= effect.high)

    def blocks_within(self, hours: float) -> int:
        """Number of blocks that end within some hours."""
        return self.declared.closed(self.declared.begin + hours * HOUR)

    def damage(self, blocks: int) -> Damage:
        """Cost of our order in the first blocks, relative to replays of the site's order.

        The cost after the wash-out counts for the whole block. Replays begin with the queue at the
        begin of a block, so what an earlier block left is not counted.
        """
        more = (self.costs.measured - self.costs.by_site)[:blocks]
        held = self.declared.blocks[:blocks]
        hours = np.array([(each.end - each.begin) / HOUR * (each.arm == OURS) for each in held])
        names = list(GOALS)
        return Damage(
            waited=float(hours @ more[:, names.index("wait")]),
            slowdown=float(hours @ more[:, names.index("bounded_slowdown")]),
        )


def held_trial(kind: str, seed: int, length: TrialLength) -> HeldTrial:
    """Draw a cluster, order its queue in turns, and judge after every block.

    Evidence is valid at any time and never withdrawn, so one evaluation of all blocks shows after
    which block it was significant. Guards are checked after each block.
    """
    days = length.harm if kind == HARM else length.days
    if kind == GAIN:
        trial = clusters.with_gain(seed, days, GAINED)
    else:
        draw = clusters.reversed_model if kind == HARM else clusters.equal_models
        trial = draw(seed, days)
    experiment = clusters.declared(seed + _COINS, days)
    cluster = trial.replayed(trial.starts(experiment.blocks))
    looks = range(_FIRST_LOOK, clusters.WARM_UP * 24, _LOOK)
    history = [costs(cluster.times, at * HOUR, (at + _LOOK) * HOUR) for at in looks]
    floors = floors_of(np.array(history))
    found = costs_of_blocks(cluster, experiment.blocks)
    early = costs_of_blocks(cluster, early_stretches(experiment))
    known = Trial(declared=experiment, floors=floors, costs=found, since_begin=early)
    guard = known.first_tripped()
    held = HeldTrial(
        declared=experiment,
        costs=found,
        floors=floors,
        found=known.findings(),
        guard=None if guard is None else guard[0],
        ratio=trial.slowdown(OURS) / trial.slowdown(SITE),
        really={},
    )
    if kind == HARM:
        never = trial.starts(())
        for count in {stop(held) for stop in STOPS.values()}:
            longer = trial.starts(experiment.blocks[:count]) - never
            slowdowns = longer / np.maximum(trial.jobs.run_time, 10.0)
            held.really[count] = Damage(float(longer.sum()) / HOUR, float(slowdowns.sum()))
    return held


#: Sources of a verdict.
_EVIDENCE, _GUARDS, _EITHER = "evidence", "guards", "evidence or guards"
DECLARED = claims.Declared(__package__)
#: The usual method, a t test of raw costs after each block; its bound, and first block.
_NAIVE, _NAIVE_BOUND, _NAIVE_FIRST = "t test of raw costs, looked at after each block", 1.96, 8


def rows_of(found: Mapping[str, Sequence[HeldTrial]]) -> Iterator[claims.Row]:
    """Every figure of the study, those with a goal first."""
    null, gain, harm = (found[kind] for kind in (EQUAL, GAIN, HARM))
    guarded = {kind: [each.guard is not None for each in held] for kind, held in found.items()}
    yield _row(
        *(EQUAL, _EVIDENCE, "ever said better or worse, of any goal"),
        np.isfinite([each.said for each in null]),
        baselines={
            "a guard tripped": float(np.mean(guarded[EQUAL])),
            _NAIVE: float(np.mean([_naive_says(each) for each in null])),
        },
    )
    yield _row(
        *(GAIN, _EVIDENCE, "found better by the end"),
        np.isfinite([each.better for each in gain]),
        baselines={"a guard tripped": float(np.mean(guarded[GAIN]))},
    )
    evidence = [
        any(one.word == WORSE and each.hours(one.blocks) <= SOON for one in each.found)
        for each in harm
    ]
    yield _row(
        *(HARM, _EITHER, f"off within {SOON:.0f} hours"),
        [each.hours(each.off) <= SOON for each in harm],
        baselines={"evidence alone": float(np.mean(evidence))},
    )
    said = [each.decides.word != INCONCLUSIVE for each in null]
    yield _row(EQUAL, _EVIDENCE, "said of the declared goal", said)
    yield _row(EQUAL, _GUARDS, "tripped", guarded[EQUAL])
    covers = "sequence holds the true ratio"
    yield _row(EQUAL, _EVIDENCE, covers, [each.covers for each in null])
    days = [min(each.better, each.length) * HOUR / DAY for each in gain]
    column = "days until found better, whole length where never"
    yield _row(GAIN, _EVIDENCE, f"{column}: median", days, claims.median)
    yield _row(GAIN, _EVIDENCE, f"{column}: mean", days)
    estimates = [each.decides.effect.estimate for each in gain]
    yield _row(GAIN, _EVIDENCE, "estimate, log of the ratio", estimates)
    true = np.log([each.ratio for each in gain])
    yield _row(GAIN, "the truth", "log of the ratio", true)
    off = np.abs(np.exp(true) - (1.0 - GAINED))
    yield _row(GAIN, "the truth", "furthest from a gain of 15 %", off, claims.quantile(1.0))
    yield _row(GAIN, _EVIDENCE, covers, [each.covers for each in gain])
    yield _row(GAIN, _GUARDS, "tripped", guarded[GAIN])
    worse = [any(one.word == WORSE for one in each.found) for each in gain]
    yield _row(GAIN, _EVIDENCE, "ever said worse, of any goal", worse)
    yield from _of_harm(harm)


def _row(
    group: str,
    source: str,
    column: str,
    values: Any,
    statistic: claims.Statistic = claims.mean,
    **more: Any,
) -> claims.Row:
    measured = claims.measure(np.asarray(values, dtype=np.float64), statistic)
    return claims.row_of(group, source, column, measured, **more)


def _of_harm(harm: Sequence[HeldTrial]) -> Iterator[claims.Row]:
    hours = [min(each.hours(each.off), each.length) for each in harm]
    column = "hours until off, whole length where never"
    yield _row(HARM, _EITHER, f"{column}: median", hours, claims.median)
    yield _row(HARM, _EITHER, f"{column}: 95 % quantile", hours, claims.quantile(0.95))
    yield _row(HARM, _EITHER, "never off", [each.off is None for each in harm])
    yield _row(
        HARM, "the truth", "ratio of slowdowns", [each.ratio for each in harm], claims.median
    )
    for name, stop in STOPS.items():
        for place, unit in enumerate(Damage._fields):
            replayed = [each.damage(stop(each))[place] for each in harm]
            yield _row(HARM, name, f"{_UNITS[unit]}, by replays of its blocks", replayed)
            really = [each.really[stop(each)][place] for each in harm]
            yield _row(HARM, name, f"{_UNITS[unit]}, to all jobs", really)


_UNITS = {"waited": "extra job-hours waited", "slowdown": "extra slowdown"}
#: When our order is rolled back: by the experiment's verdict, or in any case.
STOPS: Mapping[str, Callable[[HeldTrial], int]] = {
    "as it was stopped": lambda each: each.stopped,
    f"left on for {SOON:.0f} hours": lambda each: each.blocks_within(SOON),
    "left on to the end": lambda each: len(each.declared.blocks),
}


def _naive_says(held: HeldTrial) -> bool:
    """Whether a t test of the logs of raw costs of both kinds of blocks is ever significant."""
    logs = np.log(held.costs.measured[:, 0] + held.floors[0])
    own = np.array([each.arm == OURS for each in held.declared.blocks], dtype=np.bool_)
    for blocks in range(_NAIVE_FIRST, len(logs) + 1):
        mine, others = logs[:blocks][own[:blocks]], logs[:blocks][~own[:blocks]]
        if min(len(mine), len(others)) < _NAIVE_FIRST // 2:
            continue
        error = np.sqrt(mine.var(ddof=1) / len(mine) + others.var(ddof=1) / len(others))
        if abs(mine.mean() - others.mean()) > _NAIVE_BOUND * error:
            return True
    return False


#: Clusters of each kind in the figure of sequences, and days between points.
_SHOWN, _APART = 3, 2
#: Log of a ratio beyond every axis, for infinite ends.
_BEYOND = 5.0
_RATIO = "cost of our order over the site's"


def _sequences(found: Mapping[str, Sequence[HeldTrial]]) -> Any:
    figure, axes = plt.subplots(
        2, _SHOWN, figsize=(11, 6), sharex=True, sharey=True, squeeze=False, layout="constrained"
    )
    for row, kind in zip(axes, (EQUAL, GAIN), strict=True):
        for seed, (axis, held) in enumerate(zip(row, found[kind], strict=False)):
            days, effects = _after_days(held)
            low, estimate, high = (
                np.exp(np.clip([getattr(each, name) for each in effects], -_BEYOND, _BEYOND))
                for name in ("low", "estimate", "high")
            )
            axis.fill_between(days, low, high, color="C0", alpha=0.2, label="confidence sequence")
            axis.plot(days, estimate, color="C0", label="estimate")
            axis.axhline(1.0, color="black", linewidth=0.8, label="no difference")
            axis.axhline(held.ratio, color="C1", linestyle="--", label="truth")
            axis.set(yscale="log", ylim=(0.4, 2.5), title=f"{kind}, cluster {seed}")
            axis.set_yticks([0.5, 0.7, 1.0, 1.4, 2.0], ["0.5", "0.7", "1", "1.4", "2"])
            axis.minorticks_off()
        row[0].set_ylabel(_RATIO)
    for axis in axes[-1]:
        axis.set_xlabel("days")
    legend_above(figure, axes[0, 0])
    return figure


def _after_days(held: HeldTrial) -> tuple[list[float], list[EffectSoFar]]:
    """Days, and the effect on the declared goal so far."""
    experiment = held.declared
    days, effects = [], []
    for day in range(_APART, int(held.length * HOUR / DAY) + 1, _APART):
        blocks = experiment.closed(experiment.begin + day * DAY)
        known = held.costs.first(blocks)
        looked = Trial(declared=experiment, floors=held.floors, costs=known).findings()
        days.append(float(day))
        effects.append(next(each.effect for each in looked if each.decides))
    return days, effects


def _times(found: Mapping[str, Sequence[HeldTrial]]) -> Any:
    figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    null, gain, harm = (found[kind] for kind in (EQUAL, GAIN, HARM))
    series = (
        (axes[0], "a gain of 15 %: better", 24.0, [each.better for each in gain]),
        (axes[0], "nothing differs: better or worse", 24.0, [each.said for each in null]),
        (axes[0], "nothing differs: a guard", 24.0, [each.hours(each.guard) for each in null]),
        (axes[1], "harm: a guard, or worse", 1.0, [each.hours(each.off) for each in harm]),
    )
    for place, (axis, label, unit, hours) in enumerate(series):
        _grow(axis, np.array(hours) / unit, label, f"C{place}")
    line = {"color": "black", "linestyle": ":", "linewidth": 0.8}
    axes[0].set(xlim=(0, gain[0].length * HOUR / DAY), xlabel="days")
    axes[0].axhline(0.80, **line)
    axes[0].axhline(0.05, **line)
    axes[1].set(xlim=(0, harm[0].hours(len(harm[0].declared.blocks))), xlabel="hours")
    axes[1].axhline(0.95, **line)
    axes[1].axvline(SOON, **line)
    for axis, corner in zip(axes, ("upper left", "lower right"), strict=True):
        axis.set(ylim=(0, 1.02))
        axis.legend(loc=corner, fontsize=8)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("part of the clusters by then")
    return figure


def _grow(axis: Any, times: FloatArray, label: str, color: str) -> None:
    """Draw the part of the times that are over, as time passes."""
    over = np.sort(times[np.isfinite(times)])
    parts = np.arange(1, len(over) + 1) / len(times)
    end = 1e6  # beyond every axis
    axis.step([0.0, *over, end], [0.0, *parts, len(over) / len(times)], color=color, where="post")
    axis.plot([], [], color=color, label=label)


def _harm(harm: Sequence[HeldTrial]) -> Any:
    """Distribution of the damage to all jobs over the clusters, a line for each stop."""
    figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    for place, (axis, label) in enumerate(zip(axes, _UNITS.values(), strict=True)):
        for name, stop in STOPS.items():
            damage = np.sort([each.really[stop(each)][place] for each in harm])
            part = (np.arange(len(damage)) + 0.5) / len(damage)
            axis.plot(damage, part, label=name)
        axis.set_xscale("symlog", linthresh=100.0)
        axis.axvline(0.0, color="black", linewidth=0.8)
        axis.set_xlabel(f"{label}, to all jobs of a cluster")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("part of the clusters with less")
    axes[0].legend(fontsize=8)
    return figure


#: Default number of clusters of each kind under --quick.
_QUICK_SEEDS = 4


def run(asked: Asked) -> Outcome:
    """Run experiments on clusters with a known effect."""
    if asked.traces_given:
        raise ConfigurationError(f"{asked.paper} takes no traces: its clusters are drawn.")
    seeds = asked.number_of_seeds()
    if asked.quick and asked.seeds is None:
        seeds = _QUICK_SEEDS
    length = QUICK if asked.quick else TrialLength()
    every = [(kind, seed, length) for kind in KINDS for seed in range(seeds)]
    with asked.bar("holding experiments", len(every)) as add:
        held = side_by_side(lambda each: held_trial(*each), every, finished=lambda *_: add(1))
    found = {kind: held[place * seeds :][:seeds] for place, kind in enumerate(KINDS)}
    by_goal = {kind: _by_goal(trials) for kind, trials in found.items()}
    unnoticed = [
        {"seed": seed, "ratio": each.ratio, **each.really[each.stopped]._asdict()}
        for seed, each in enumerate(found[HARM])
        if each.off is None
    ]
    return Outcome(
        claims=DECLARED.claims(rows_of(found)),
        seeds=range(seeds),
        facts={"experiment": length._asdict(), "by_goal": by_goal, "never_off": unnoticed},
        drawings={
            "switchback-sequences.png": lambda: _sequences(found),
            "switchback-times.png": lambda: _times(found),
            "switchback-harm.png": lambda: _harm(found[HARM]),
        },
    )


def _by_goal(trials: Sequence[HeldTrial]) -> Mapping[str, Mapping[str, float]]:
    """Goal -> parts of the clusters found better and worse, and the mean estimate, as a log."""
    found: dict[str, dict[str, float]] = {}
    for place, goal in enumerate(GOALS):
        looked = [each.found[place] for each in trials]
        found[goal] = {
            "better": float(np.mean([each.word == BETTER for each in looked])),
            "worse": float(np.mean([each.word == WORSE for each in looked])),
            "estimate": float(np.mean([each.effect.estimate for each in looked])),
        }
    return found
