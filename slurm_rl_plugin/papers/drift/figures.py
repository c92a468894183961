"""The logs' own history as its watch sees it, and when warnings come in the drawn runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from slurm_rl_plugin.papers.drift.losses import LOST_OVER, SHORTER, JudgedLog, gains_lately
from slurm_rl_plugin.papers.study.figure_file import legend_above
from slurm_rl_plugin.papers.study.study import Drawings
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.what_if.drift.evidence import BOUND, drift_finding

#: What a ratio is of.
_RATIO = "cost under the model / without"
_WEEKS = "weeks behind the first third"


def drawings_of(logs: Mapping[str, JudgedLog]) -> Drawings:
    """All figures, of logs by name."""
    return {
        "drift-history.png": lambda: _history(logs),
        "drift-warnings.png": lambda: _warnings(logs),
    }


def _history(logs: Mapping[str, JudgedLog]) -> Any:
    """Above what is true of the gain, below the evidence that it is gone."""
    figure, axes = plt.subplots(
        2,
        len(logs),
        figsize=(4.5 * len(logs) + 1.0, 6),
        sharex="col",
        sharey="row",
        squeeze=False,
        layout="constrained",
    )
    for (above, below), (name, log) in zip(axes.T, logs.items(), strict=True):
        _draw_gain(above, log)
        above.set_title(name)
        evidence = drift_finding(log.runs.reference.seen, log.runs.real.seen).evidence
        below.plot(np.maximum(evidence, 0.1), color="C0")
        below.axhline(BOUND, color="C3", linestyle=":")
        below.set(yscale="log", xlabel=_WEEKS)
        for axis in (above, below):
            _mark(axis, log)
    axes[0, 0].set_ylabel(_RATIO)
    axes[1, 0].set_ylabel(f"evidence; a warning at {BOUND:.0f}")
    legend_above(figure, axes[0, 0], columns=1 + len(logs))
    return figure


def _draw_gain(axis: Any, log: JudgedLog) -> None:
    for over, color, width in ((SHORTER, "C7", 1.0), (LOST_OVER, "C0", 2.0)):
        ratio = np.exp(gains_lately(log.runs.real, over))
        axis.plot(ratio, color=color, linewidth=width, label=f"truth, last {over} weeks")
    axis.axhline(np.exp(log.promise), color="C2", label="promised")
    axis.axhline(np.exp(log.promise / 2.0), color="C1", linestyle="--", label="half of it lost")
    axis.axhline(1.0, color="black", linewidth=0.8)
    axis.set_yscale("log")
    axis.set_yticks([0.1, 0.2, 0.5, 1.0, 2.0], ["0.1", "0.2", "0.5", "1", "2"])
    axis.minorticks_off()


def _mark(axis: Any, log: JudgedLog) -> None:
    """When the watch warned first, and when half was lost."""
    for week, color, label in (
        (log.real.warned, "C3", "warning"),
        (log.real.lost, "black", "loss"),
    ):
        if week is not None:
            axis.axvline(week, color=color, linestyle="-.", label=label)


def _warnings(logs: Mapping[str, JudgedLog]) -> Any:
    """Parts of the runs that were warned of, or had lost, by a week; with change and without."""
    figure, axes = plt.subplots(
        1,
        len(logs),
        figsize=(4.5 * len(logs) + 1.0, 4),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for axis, (name, log) in zip(axes[0], logs.items(), strict=True):
        losing = [each for each in log.changing if each.lost is not None]
        series = (
            ("half is lost", "black", [each.lost for each in log.changing], log.real.weeks),
            ("warned", "C3", [each.warned for each in log.changing], log.real.weeks),
            ("nothing changes: warned", "C0", [each.warned for each in log.alike], _end(log)),
        )
        for label, color, weeks, last in series:
            _grow(axis, weeks, last, label, color)
        warned = sum(each.in_time for each in losing)
        axis.set(
            title=f"{name}: warned in time in {warned} of {len(losing)}",
            xlabel=_WEEKS,
            ylim=(0, 1.02),
        )
        axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel("part of the runs by then")
    legend_above(figure, axes[0, 0], columns=1 + len(logs))
    return figure


def _end(log: JudgedLog) -> int:
    """How long runs are in which nothing changes, weeks."""
    return log.alike[0].weeks


def _grow(axis: Any, weeks: list[int | None], last: int, label: str, color: str) -> None:
    """The part of the runs in which it was so by each week."""
    over: FloatArray = np.sort(np.array([each for each in weeks if each is not None], float))
    parts = np.arange(1, len(over) + 1) / len(weeks)
    end = len(over) / len(weeks)
    axis.step([0.0, *over, last], [0.0, *parts, end], color=color, where="post", label=label)
