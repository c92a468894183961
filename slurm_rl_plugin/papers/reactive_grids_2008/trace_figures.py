"""Fig. 6 and 7 of the 2008 paper on segments of LPC-EGEE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from slurm_rl_plugin.papers.reactive_grids_2008.on_line import FROZEN, ON_LINE, READINGS, Trial
from slurm_rl_plugin.papers.reactive_grids_2008.tables import FIFO, NATIVE, RL, SJF
from slurm_rl_plugin.papers.reactive_grids_2008.trace import (
    MEASURED_SEGMENTS,
    fairness_gap,
    wait_differences,
)
from slurm_rl_plugin.papers.study.figure_file import legend_above
from slurm_rl_plugin.papers.study.lpc_segments import PROCESSORS_OF_2011, PROCESSORS_OF_LPC
from slurm_rl_plugin.papers.study.paired_trials import PairedTrial
from slurm_rl_plugin.units import DAY, HOUR, INTERACTIVE_WAIT_GOAL, FloatArray

#: Jobs over which differences of waits are averaged.
_WINDOW = 200
_COLOURS = {NATIVE: "black", FIFO: "tab:blue", RL: "tab:orange", SJF: "tab:green"}

Segments = Mapping[tuple[int, int], PairedTrial]


def segment_drawings(segments: Segments) -> dict[str, Callable[[], Any]]:
    """File name -> drawing; nothing without segments."""
    if not segments:
        return {}
    shown = {key: each for key, each in segments.items() if key[1] == PROCESSORS_OF_2011}
    return {
        "fig-6-segment-waits.png": lambda: _draw(shown, _draw_waits),
        "fig-6-segment-wait-differences.png": lambda: _draw(shown, _draw_differences),
        "fig-7-segment-fairness.png": lambda: _draw(shown, _draw_fairness),
    }


def learning_drawing(trial: Trial) -> dict[str, Callable[[], Any]]:
    """File name -> drawing of utility over time while a learner learns; nothing without segments.

    Args:
        trial: policies on the measured segments.
    """
    return {"fig-6-learning.png": lambda: _draw_learning(trial)} if trial else {}


def _draw_learning(trial: Trial) -> Any:
    """A panel for each segment, a line for each policy, the first three readings alone."""
    figure, axes = plt.subplots(2, 2, figsize=(10, 7), layout="constrained")
    styles = {FIFO: ("tab:blue", "-"), NATIVE: ("black", "-")}
    colours = ("tab:orange", "tab:green", "tab:purple")
    for reading, colour in zip(READINGS, colours, strict=False):
        styles[f"{reading.name}, {ON_LINE}"] = (colour, "-")
        styles[f"{reading.name}, {FROZEN}"] = (colour, ":")
    for place, (axis, number) in enumerate(zip(axes.flat, MEASURED_SEGMENTS, strict=True)):
        for name, (colour, style) in styles.items():
            windows = trial[name].windows[place]
            parts = (np.arange(len(windows)) + 0.5) / len(windows)
            axis.plot(parts, windows, style, color=colour, label=name)
        axis.set_xlabel("part of the jobs, by arrival")
        axis.set_ylabel("mean time utility")
        axis.set_title(f"LPC-EGEE segment {number}, {PROCESSORS_OF_LPC} processors")
        axis.grid(alpha=0.3)
    legend_above(figure, axes[0, 0], columns=2)
    return figure


def _draw(segments: Segments, draw: Callable[[Any, PairedTrial], tuple[str, str]]) -> Any:
    """A panel for each segment; `draw` gives the names of the axes."""
    figure, axes = plt.subplots(2, 2, figsize=(10, 7), layout="constrained")
    for axis, ((number, capacity), trial) in zip(axes.flat, segments.items(), strict=False):
        across, along = draw(axis, trial)
        axis.set_xlabel(across)
        axis.set_ylabel(along)
        axis.set_title(f"LPC-EGEE segment {number}, {capacity} processors", fontsize="medium")
        axis.grid(alpha=0.3)
    legend_above(figure, axes[0, 0], columns=5)
    return figure


def _draw_waits(axis: Any, trial: PairedTrial) -> tuple[str, str]:
    for name, colour in _COLOURS.items():
        waits, _ = trial.pooled(name, interactive=True)
        draw_cumulative(axis, np.maximum(waits, 1.0), "-", colour, name)
    axis.axvline(INTERACTIVE_WAIT_GOAL, color="grey", linestyle=":", label="2 minutes")
    axis.set_xscale("log")
    return "wait (s, below 1 s drawn at 1 s)", "fraction of interactive jobs"


def draw_cumulative(
    axis: Any, values: FloatArray, style: str, colour: str, name: str, points: int = 500
) -> None:
    """Which part of the values is at most so large."""
    levels = np.linspace(0.0, 1.0, points)
    axis.plot(np.quantile(values, levels), levels, style, color=colour, label=name)


def _draw_differences(axis: Any, trial: PairedTrial) -> tuple[str, str]:
    for name, colour in _COLOURS.items():
        if name != NATIVE:
            submit, difference = wait_differences(trial, name)
            smooth = _moving_mean(difference / HOUR)
            axis.plot(submit[: len(smooth)] / DAY, smooth, color=colour, label=f"native - {name}")
    axis.axhline(0.0, color="black", linewidth=0.8)
    return "arrival (days)", f"difference of waits (h),\nmean of {_WINDOW} jobs"


def _moving_mean(values: FloatArray) -> FloatArray:
    window = min(_WINDOW, len(values))
    return np.convolve(values, np.full(window, 1.0 / window), mode="valid")


def _draw_fairness(axis: Any, trial: PairedTrial) -> tuple[str, str]:
    for name, colour in _COLOURS.items():
        if name != NATIVE:
            seconds, gap = fairness_gap(trial, name)
            axis.plot(seconds / DAY, gap, color=colour, label=f"{name} - native")
    axis.axhline(0.0, color="black", linewidth=0.8)
    return "time (days)", "difference of fairness (eq. 4)"
