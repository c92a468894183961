"""Confidence sequences as days pass, how soon something is said, and what harm did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from slurm_rl_plugin.papers.study.figure_file import legend_above
from slurm_rl_plugin.papers.study.study import Drawings
from slurm_rl_plugin.papers.switchback.claims import STOPS
from slurm_rl_plugin.papers.switchback.experiment import (
    ALIKE,
    GAIN,
    HARM,
    SOON,
    HeldTrial,
)
from slurm_rl_plugin.units import DAY, FloatArray
from slurm_rl_plugin.utility.intervals import INCONCLUSIVE
from slurm_rl_plugin.what_if.switchback.evidence import EffectSoFar
from slurm_rl_plugin.what_if.switchback.findings import findings

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
