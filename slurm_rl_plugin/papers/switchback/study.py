"""Experiments on drawn clusters: the declaration, its blocks held, what was found and when."""

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
from slurm_rl_plugin.papers.study.claims import (
    Cell,
    Declared,
    Row,
    Statistic,
    TextTable,
    mean,
    measure,
    median,
    quantile,
)
from slurm_rl_plugin.papers.study.figures import legend_above
from slurm_rl_plugin.papers.study.study import Asked, Drawings, Outcome
from slurm_rl_plugin.papers.switchback.clusters import (
    WARM_UP,
    DrawnTrial,
    alike,
    declared,
    reversed_model,
    with_gain,
)
from slurm_rl_plugin.units import DAY, HOUR, FloatArray
from slurm_rl_plugin.what_if.switchback.block_costs import GOALS, BlockCosts, costs, costs_of_blocks
from slurm_rl_plugin.what_if.switchback.trial import (
    EffectSoFar,
    GoalFinding,
    early_stretches,
    findings,
    first_tripped,
    floors_of,
)

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
    """How long experiments last."""

    days: int = 56  #: where nothing differs, or something is gained
    harm: int = 4  #: of those with harm


QUICK = TrialLength(days=6)


class Damage(NamedTuple):
    """What ours cost users beyond the site's order."""

    waited: float  #: hours of jobs that waited longer, all added up
    slowdown: float  #: slowdowns of jobs that grew, all added up


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTrial:
    """What came of an experiment on a drawn cluster."""

    declared: Declaration
    costs: BlockCosts  #: of all of its blocks
    floors: FloatArray  #: see `findings`
    found: Sequence[GoalFinding]  #: what the blocks tell, by goal
    guard: int | None  #: how many blocks were over when a guard tripped first; None for never
    ratio: float  #: true mean bounded slowdown, ours in force all the time over the site's
    #: Blocks -> damage to all jobs if our order is taken back after so many of them, as a
    #: simulation of the same cluster without the experiment tells; of HARM alone.
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
    """
    days = length.harm if kind == HARM else length.days
    draw: Callable[[int, int], DrawnTrial] = reversed_model if kind == HARM else alike
    trial = with_gain(seed, days, GAINED) if kind == GAIN else draw(seed, days)
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
    """Experiments of each kind, of seeds 0 to `seeds` - 1."""
    every = [(kind, seed) for kind in KINDS for seed in range(seeds)]
    found = side_by_side(lambda each: held_trial(*each, length), every, finished=lambda *_: add(1))
    return {kind: found[place * seeds : (place + 1) * seeds] for place, kind in enumerate(KINDS)}


#: Who speaks.
_EVIDENCE, _GUARDS, _EITHER = "evidence", "guards", "evidence or guards"
DECLARED = Declared(__package__)
#: What many would do: a t test of raw costs, looked at as often. Its bound, and first look.
_NAIVE, _NAIVE_BOUND, _NAIVE_FIRST = "t test of raw costs, looked at after each block", 1.96, 8


def rows_of(found: Mapping[str, Sequence[HeldTrial]]) -> Iterator[Row]:
    """Every figure of the study, of trials by kind; those with a goal first."""
    null, gain, harm = (found[kind] for kind in (ALIKE, GAIN, HARM))
    guarded = {kind: [each.guard is not None for each in held] for kind, held in found.items()}
    yield _row(
        *(ALIKE, _EVIDENCE, "ever said better or worse, of any goal"),
        [each.is_said for each in null],
        baselines={
            "a guard tripped": float(np.mean(guarded[ALIKE])),
            _NAIVE: float(np.mean([_naive_says(each) for each in null])),
        },
    )
    yield _row(
        *(GAIN, _EVIDENCE, "found better by the end"),
        [each.is_better for each in gain],
        baselines={"a guard tripped": float(np.mean(guarded[GAIN]))},
    )
    yield _row(
        *(HARM, _EITHER, f"off within {SOON:.0f} hours"),
        [each.hours(each.off) <= SOON for each in harm],
        baselines={"evidence alone": float(np.mean([_is_sure_soon(each) for each in harm]))},
    )
    said = [each.decides.word != INCONCLUSIVE for each in null]
    yield _row(ALIKE, _EVIDENCE, "said of the declared goal", said)
    yield _row(ALIKE, _GUARDS, "tripped", guarded[ALIKE])
    covers = "sequence holds the true ratio"
    yield _row(ALIKE, _EVIDENCE, covers, [each.covers for each in null])
    days = [min(_better(each), _length(each)) * HOUR / DAY for each in gain]
    column = "days until found better, whole length where never"
    yield _row(GAIN, _EVIDENCE, f"{column}: median", days, median)
    yield _row(GAIN, _EVIDENCE, f"{column}: mean", days)
    estimates = [each.decides.effect.estimate for each in gain]
    yield _row(GAIN, _EVIDENCE, "estimate, log of the ratio", estimates)
    true = np.log([each.ratio for each in gain])
    yield _row(GAIN, "the truth", "log of the ratio", true)
    off = np.abs(np.exp(true) - (1.0 - GAINED))
    yield _row(GAIN, "the truth", "furthest from a gain of 15 %", off, quantile(1.0))
    yield _row(GAIN, _EVIDENCE, covers, [each.covers for each in gain])
    yield _row(GAIN, _GUARDS, "tripped", guarded[GAIN])
    worse = [any(one.word == WORSE for one in each.found) for each in gain]
    yield _row(GAIN, _EVIDENCE, "ever said worse, of any goal", worse)
    yield from _of_harm(harm)


def _row(
    group: str, who: str, column: str, values: Any, statistic: Statistic = mean, **more: Any
) -> Row:
    measured = measure(np.asarray(values, dtype=np.float64), statistic)
    return Row(cell=Cell(group, who, column), measured=measured, **more)


def _of_harm(harm: Sequence[HeldTrial]) -> Iterator[Row]:
    hours = [min(each.hours(each.off), _length(each)) for each in harm]
    column = "hours until off, whole length where never"
    yield _row(HARM, _EITHER, f"{column}: median", hours, median)
    yield _row(HARM, _EITHER, f"{column}: 95 % quantile", hours, quantile(0.95))
    yield _row(HARM, _EITHER, "never off", [each.off is None for each in harm])
    yield _row(HARM, "the truth", "ratio of slowdowns", [each.ratio for each in harm], median)
    for name, stop in STOPS.items():
        for place, unit in enumerate(Damage._fields):
            replayed = [each.damage(stop(each))[place] for each in harm]
            yield _row(HARM, name, f"{_UNITS[unit]}, by replays of its blocks", replayed)
            really = [each.really[stop(each)][place] for each in harm]
            yield _row(HARM, name, f"{_UNITS[unit]}, to all jobs", really)


_UNITS = {"waited": "extra job-hours waited", "slowdown": "extra slowdown"}
#: When ours is taken back: as the experiment says, or whatever it says.
STOPS: Mapping[str, Callable[[HeldTrial], int]] = {
    "as it was stopped": stopped_after,
    f"left on for {SOON:.0f} hours": lambda each: each.blocks_within(SOON),
    "left on to the end": lambda each: len(each.declared.blocks),
}


def never_off(harm: Sequence[HeldTrial]) -> list[dict[str, float]]:
    """The clusters whose harm nobody noticed, and what it did to all jobs."""
    rows = []
    for seed, each in enumerate(harm):
        if each.off is None:
            damage = each.really[len(each.declared.blocks)]
            rows.append({"seed": seed, "ratio": each.ratio, **damage._asdict()})
    return rows


def _length(held: HeldTrial) -> float:
    return (held.declared.end - held.declared.begin) / HOUR


def _is_sure_soon(held: HeldTrial) -> bool:
    return any(each.word == WORSE and held.hours(each.blocks) <= SOON for each in held.found)


def _naive_says(held: HeldTrial) -> bool:
    """Whether a t test of the logs of raw costs, ours against the site's blocks, ever is sure."""
    logs = np.log(held.costs.measured[:, 0] + held.floors[0])
    ours = np.array([each.arm == OURS for each in held.declared.blocks], dtype=np.bool_)
    for blocks in range(_NAIVE_FIRST, len(logs) + 1):
        mine, others = logs[:blocks][ours[:blocks]], logs[:blocks][~ours[:blocks]]
        if min(len(mine), len(others)) < _NAIVE_FIRST // 2:
            continue
        error = np.sqrt(mine.var(ddof=1) / len(mine) + others.var(ddof=1) / len(others))
        if abs(mine.mean() - others.mean()) > _NAIVE_BOUND * error:
            return True
    return False


#: Clusters of each kind whose sequences are shown, and days between their points.
_SHOWN, _APART = 3, 2
#: Log of a ratio that no axis shows, for ends that are infinite.
_BEYOND = 5.0
_RATIO = "cost of ours over the site's"


def drawings_of(found: Mapping[str, Sequence[HeldTrial]]) -> Drawings:
    """All figures, of trials by kind."""
    return {
        "switchback-sequences.png": lambda: _sequences(found),
        "switchback-times.png": lambda: _times(found),
        "switchback-harm.png": lambda: _harm(found[HARM]),
    }


def _sequences(found: Mapping[str, Sequence[HeldTrial]]) -> Any:
    """Of the first clusters, the declared goal after every second day."""
    figure, axes = plt.subplots(
        2, _SHOWN, figsize=(11, 6), sharex=True, sharey=True, squeeze=False, layout="constrained"
    )
    for row, kind in zip(axes, (ALIKE, GAIN), strict=True):
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
    """Days, and what was known of the declared goal then."""
    experiment = held.declared
    days, effects = [], []
    whole = int((experiment.end - experiment.begin) / DAY)
    for day in range(_APART, whole + 1, _APART):
        blocks = experiment.closed(experiment.begin + day * DAY)
        looked = findings(experiment, held.costs.first(blocks), held.floors)
        days.append(float(day))
        effects.append(next(each.effect for each in looked if each.decides))
    return days, effects


def _times(found: Mapping[str, Sequence[HeldTrial]]) -> Any:
    """Parts of the clusters of which something had been said by a time, against the goals."""
    figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    null, gain, harm = (found[kind] for kind in (ALIKE, GAIN, HARM))
    series = (
        (axes[0], "a gain of 15 %: better", 24.0, [_better(each) for each in gain]),
        (axes[0], "nothing differs: better or worse", 24.0, [_said(each) for each in null]),
        (axes[0], "nothing differs: a guard", 24.0, [each.hours(each.guard) for each in null]),
        (axes[1], "harm: a guard, or worse", 1.0, [each.hours(each.off) for each in harm]),
    )
    for place, (axis, label, unit, hours) in enumerate(series):
        _grow(axis, np.array(hours) / unit, label, f"C{place}")
    last = gain[0].declared
    axes[0].set(xlim=(0, (last.end - last.begin) / DAY), xlabel="days")
    axes[0].axhline(0.80, color="black", linestyle=":", linewidth=0.8)
    axes[0].axhline(0.05, color="black", linestyle=":", linewidth=0.8)
    axes[1].set(xlim=(0, harm[0].hours(len(harm[0].declared.blocks))), xlabel="hours")
    axes[1].axhline(0.95, color="black", linestyle=":", linewidth=0.8)
    axes[1].axvline(SOON, color="black", linestyle=":", linewidth=0.8)
    for axis, corner in zip(axes, ("upper left", "lower right"), strict=True):
        axis.set(ylim=(0, 1.02))
        axis.legend(loc=corner, fontsize=8)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("part of the clusters by then")
    return figure


def _better(held: HeldTrial) -> float:
    return held.hours(held.decides.blocks if held.is_better else None)


def _said(held: HeldTrial) -> float:
    return min(
        (held.hours(each.blocks) for each in held.found if each.word != INCONCLUSIVE),
        default=np.inf,
    )


def _grow(axis: Any, times: FloatArray, label: str, color: str) -> None:
    """The part of the times that are over, as time passes."""
    over = np.sort(times[np.isfinite(times)])
    parts = np.arange(1, len(over) + 1) / len(times)
    end = 1e6  # beyond every axis
    axis.step([0.0, *over, end], [0.0, *parts, len(over) / len(times)], color=color, where="post")
    axis.plot([], [], color=color, label=label)


def _harm(harm: Sequence[HeldTrial]) -> Any:
    """Damage to all jobs by when ours was taken back, a line a stop, clusters in order of it."""
    figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    for place, (axis, label) in enumerate(
        zip(axes, ("extra job-hours waited", "extra slowdown"), strict=True)
    ):
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


#: Clusters of each kind that --quick takes where nobody says how many.
_QUICK_SEEDS = 4


def run(asked: Asked) -> Outcome:
    """Hold experiments on clusters of which it is known what there is to find."""
    asked.refuse_policy("its orders are made for it")
    if asked.traces_given:
        raise ConfigurationError(f"{asked.paper} takes no traces: its clusters are drawn.")
    seeds = asked.number_of_seeds()
    if asked.quick and asked.seeds is None:
        seeds = _QUICK_SEEDS
    length = QUICK if asked.quick else TrialLength()
    with asked.bar("holding experiments", len(KINDS) * seeds) as add:
        found = held_trials(seeds, length, add)
    by_goal = {kind: _by_goal(trials) for kind, trials in found.items()}
    unnoticed = never_off(found[HARM])
    return Outcome(
        claims=DECLARED.claims(rows_of(found)),
        seeds=range(seeds),
        more=[
            "\nBy goal, parts of the clusters:",
            TextTable(
                ["CLUSTERS", "GOAL", "BETTER", "WORSE", "ESTIMATE"],
                [
                    [kind, goal, *(f"{value:.3f}" for value in row.values())]
                    for kind, goals in by_goal.items()
                    for goal, row in goals.items()
                ],
            ),
            f"\nNever off, of {seeds} with harm: {len(unnoticed)}.",
        ],
        facts={
            "experiment": length._asdict(),
            "by_goal": by_goal,
            "never_off": unnoticed,
        },
        drawings=drawings_of(found),
    )


def _by_goal(trials: Sequence[HeldTrial]) -> Mapping[str, Mapping[str, float]]:
    """Goal -> how often it was said to be better or worse, and the mean estimate, as a log."""
    found: dict[str, dict[str, float]] = {}
    for place, goal in enumerate(GOALS):
        looked = [each.found[place] for each in trials]
        found[goal] = {
            "better": float(np.mean([each.word == BETTER for each in looked])),
            "worse": float(np.mean([each.word == WORSE for each in looked])),
            "estimate": float(np.mean([each.effect.estimate for each in looked])),
        }
    return found
