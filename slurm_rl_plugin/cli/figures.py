"""Figures of schedules: wait distribution by class and fairness over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from slurm_rl_plugin.units import HOUR, INTERACTIVE_WAIT_GOAL, FloatArray
from slurm_rl_plugin.utility.fairness import fairness_at_starts
from slurm_rl_plugin.utility.summary import ScheduledJobs

mpl.use("Agg")  # head nodes have no display
from matplotlib import pyplot as plt


def draw_schedules(folder: Path, schedules: Mapping[str, ScheduledJobs]) -> list[Path]:
    """Draw wait-cdf.png and fairness.png; each policy is a line.

    Args:
        folder: made where it does not exist.
        schedules: policy -> the same jobs under it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    drawings = (("wait-cdf.png", _draw_waits), ("fairness.png", _draw_fairness))
    paths = []
    for name, draw in drawings:
        figure = draw(schedules)
        paths.append(folder / name)
        figure.savefig(paths[-1], dpi=120)
        plt.close(figure)
    return paths


def _with_styles(
    schedules: Mapping[str, ScheduledJobs],
) -> Iterator[tuple[str, ScheduledJobs, str]]:
    """Lines that may lie on each other differ in their dashes."""
    styles = cycle(("-", "-", "-", "--", ":"))
    for name, jobs in schedules.items():
        yield name, jobs, next(styles)


def _draw_waits(schedules: Mapping[str, ScheduledJobs]) -> Any:
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    for axis, interactive in zip(axes, (True, False), strict=True):
        for name, jobs, style in _with_styles(schedules):
            waits = np.sort(jobs.wait[jobs.interactive == interactive])
            if len(waits):
                share = np.arange(1, len(waits) + 1) / len(waits)
                axis.plot(np.maximum(waits, 1.0), share, style, label=name, drawstyle="steps-post")
        axis.set_xscale("log")
        axis.set_xlabel("wait (s, below 1 s drawn at 1 s)")
        axis.set_title("interactive jobs" if interactive else "batch jobs")
        axis.grid(alpha=0.3)
    axes[0].axvline(INTERACTIVE_WAIT_GOAL, color="grey", linestyle=":", label="2 minutes")
    axes[0].set_ylabel("fraction of jobs")
    axes[0].legend()
    return figure


def _draw_fairness(schedules: Mapping[str, ScheduledJobs]) -> Any:
    figure, axis = plt.subplots(figsize=(8, 4), layout="constrained")
    lowest = 1.0
    for name, jobs, style in _with_styles(schedules):
        order = np.argsort(jobs.start, kind="stable")
        fairness = _fairness(jobs)[order]
        axis.plot((jobs.start[order] - jobs.submit.min()) / HOUR, fairness, style, label=name)
        # the first jobs of a log swing between the accounts: let them not set the scale
        lowest = min(lowest, float(fairness[len(fairness) // 20 :].min()))
    axis.set_xlabel("time (h)")
    axis.set_ylabel("fairness at job starts (eq. 4)")
    axis.set_ylim(max(lowest - 0.05, 0.0), 1.005)
    axis.grid(alpha=0.3)
    axis.legend(loc="lower right")
    return figure


def _fairness(jobs: ScheduledJobs) -> FloatArray:
    return fairness_at_starts(jobs.start, jobs.run_time, jobs.processors, jobs.account, jobs.shares)
