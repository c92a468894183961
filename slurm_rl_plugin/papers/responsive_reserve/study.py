"""`responsive-reserve`, a study: networks that hold processors against their goals; figures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from matplotlib import pyplot as plt

from slurm_rl_plugin.learning.export.network import import_network
from slurm_rl_plugin.papers.reactive_grids_2008.tables import NATIVE
from slurm_rl_plugin.papers.responsive_reserve.compared_figures import (
    BATCH_TO_SJF,
    WAIT_TO_FIFO,
    measured,
)
from slurm_rl_plugin.papers.responsive_reserve.experiment import (
    SCALED,
    ResponsiveReserve,
    reproduce,
    steps,
)
from slurm_rl_plugin.papers.responsive_reserve.goals import SEGMENT_GOALS, SYNTHETIC_GOALS
from slurm_rl_plugin.papers.study.effort import Plan
from slurm_rl_plugin.papers.study.figure_file import legend_above
from slurm_rl_plugin.papers.study.paired_trials import PairedTrial
from slurm_rl_plugin.papers.study.result_store import ResultStore
from slurm_rl_plugin.papers.study.study import Asked, Drawings, Outcome
from slurm_rl_plugin.papers.study.verdicts import Goal

_MARKERS = "osD^v<>PX*hp"


def drawings_of(found: ResponsiveReserve) -> Drawings:
    """The generated loads, and the segments where there are any."""
    drawings = {"responsive-reserve.png": lambda: _synthetic(found)}
    if found.segments:
        drawings["responsive-reserve-segments.png"] = lambda: _segments(found)
    return drawings


def _synthetic(found: ResponsiveReserve) -> Any:
    figure, axes = plt.subplots(1, len(found.synthetic), figsize=(12, 4.6), layout="constrained")
    for axis, (p, trial) in zip(axes, found.synthetic.items(), strict=True):
        _panel(axis, trial, (WAIT_TO_FIFO, "J"), SYNTHETIC_GOALS[p])
        axis.set_title(f"2008 load, p = {p}")
    legend_above(figure, axes[0], columns=6)
    return figure


def _segments(found: ResponsiveReserve) -> Any:
    figure, axes = plt.subplots(2, 2, figsize=(11, 8.5), layout="constrained")
    for axis, (number, trial) in zip(axes.flat, found.segments.items(), strict=True):
        _panel(axis, trial, (BATCH_TO_SJF, "R"), SEGMENT_GOALS[number])
        points = [
            [measured(trial, name, column).value for name in SCALED if name in trial.measures]
            for column in (BATCH_TO_SJF, "R")
        ]
        axis.plot(*points, color="black", linewidth=0.8, label="reserve scaled 0 to 2 times")
        axis.set_title(f"LPC-EGEE segment {number}")
    legend_above(figure, axes[0, 0], columns=5)
    return figure


def _panel(axis: Any, trial: PairedTrial, columns: tuple[str, str], goals: Sequence[Goal]) -> None:
    # the native starts were made on another machine, far to the left
    shown = [name for name in trial.measures if name not in SCALED and name != NATIVE]
    for place, name in enumerate(shown):
        across, up = (measured(trial, name, column).value for column in columns)
        marker = _MARKERS[place % len(_MARKERS)]
        axis.plot(across, up, marker, color=f"C{place % 10}", markersize=7, label=name)
    for goal in goals:
        line = {"color": "tab:grey", "linestyle": ":", "linewidth": 1.0, "label": "goals"}
        if goal.column == columns[0]:
            axis.axvline(float(goal.bound), **line)
        elif goal.column == columns[1]:
            axis.axhline(float(goal.bound), **line)
    axis.set_xlabel(columns[0])
    axis.set_ylabel(columns[1])


def run(asked: Asked) -> Outcome:
    """Train on the load of 2008, and try the shipped network, or a given one, on LPC-EGEE."""
    plan = Plan.of(asked)
    reserve = import_network(asked.policy or asked.shipped(asked.paper))
    with asked.bar("training and simulating", steps(plan)) as add:
        found = reproduce(plan, reserve, ResultStore(asked.models, add), partial(add, 1))
    return Outcome(claims=found.claims, seeds=range(plan.seeds), drawings=drawings_of(found))
