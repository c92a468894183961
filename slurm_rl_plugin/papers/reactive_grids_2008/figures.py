"""Figures of the 2008 paper on generated load, and of why two of its results do not reproduce."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from slurm_rl_plugin.papers.reactive_grids_2008.conservation import implied_ratio
from slurm_rl_plugin.papers.reactive_grids_2008.experiment import SHOWN, ReactiveGrids
from slurm_rl_plugin.papers.reactive_grids_2008.learning_curves import (
    PRETRAININGS,
    SWEEP_JOBS,
    Curves,
)
from slurm_rl_plugin.papers.reactive_grids_2008.literal_reward import (
    LITERAL,
    PRINTED,
    scores_by_run_time,
)
from slurm_rl_plugin.papers.reactive_grids_2008.shares import INFEASIBLE_BOUND, fairness_over_time
from slurm_rl_plugin.papers.reactive_grids_2008.tables import FIFO, RL, SJF, printed_waits
from slurm_rl_plugin.papers.reactive_grids_2008.trace_figures import (
    draw_cumulative,
    learning_drawing,
    segment_drawings,
)
from slurm_rl_plugin.papers.study.figure_file import legend_above
from slurm_rl_plugin.papers.study.paired_trials import LONGEST_FIRST, PairedTrial
from slurm_rl_plugin.papers.study.study import Drawings
from slurm_rl_plugin.units import HOUR, INTERACTIVE_WAIT_GOAL, MINUTE, FloatArray
from slurm_rl_plugin.utility.responsiveness import relative_overhead

_COLOURS = ("tab:blue", "tab:orange", "tab:green")
_STYLES = {FIFO: "--", RL: "-", SJF: ":"}
_INSTANTS = 300


def drawings_of(found: ReactiveGrids) -> Drawings:
    """Every figure of what the reproduction gave."""
    return {
        "table-2.png": lambda: _draw_table_2(found.feasible),
        "conservation-of-work.png": lambda: _draw_conservation(found.feasible),
        "fig-3-interactive-waits.png": lambda: _draw_figure_3(found.feasible),
        "fig-4-5-fairness.png": lambda: _draw_fairness(found.feasible[SHOWN], found.infeasible),
        "literal-reward.png": lambda: _draw_literal_reward(found),
        "calibration.png": lambda: _draw_curves(found.curves),
        **segment_drawings(found.segments),
        **learning_drawing(found.on_line.segments),
    }


def _draw_table_2(trials: Mapping[float, PairedTrial]) -> Any:
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.5), sharey=True, layout="constrained")
    for axis, job_class in zip(axes, ("interactive", "batch"), strict=True):
        for number, (p, trial) in enumerate(trials.items()):
            _draw_cells(axis, p, trial, job_class, 3 * number)
        axis.set_yscale("log")
        places = [3 * number + shift for number in range(len(trials)) for shift in (0, 1)]
        names = [f"{policy}\n{p}" for p in trials for policy in (FIFO, RL)]
        axis.set_xticks(places, names)
        axis.set_xlabel("policy, fraction p of interactive jobs")
        axis.set_title(f"{job_class} jobs")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("mean wait (s)")
    legend_above(figure, axes[0])
    return figure


def _draw_cells(axis: Any, p: float, trial: PairedTrial, job_class: str, left: int) -> None:
    for shift, policy in enumerate((FIFO, RL)):
        draws = np.maximum(trial.figure(policy, f"{job_class} mean wait"), 1.0)
        low, high = np.quantile(draws, [0.025, 0.975])
        middle = draws.mean()
        axis.errorbar(
            [left + shift],
            [middle],
            yerr=[[max(middle - low, 0.0)], [max(high - middle, 0.0)]],
            fmt="x",
            color="tab:blue",
            capsize=4,
            label="measured: mean, and the middle 95 % of single logs",
        )
        printed = printed_waits(p, policy, job_class)[0]
        axis.plot(
            [left + shift],
            [printed],
            "o",
            color="tab:red",
            markerfacecolor="none",
            markersize=9,
            label="printed in Table II",
        )


def _draw_conservation(trials: Mapping[float, PairedTrial]) -> Any:
    figure, axes = plt.subplots(
        1, len(trials), figsize=(12, 4.2), sharey=True, layout="constrained"
    )
    for axis, (p, trial) in zip(np.atleast_1d(axes), trials.items(), strict=True):
        names = [name for name in trial.measures if name not in (FIFO, LITERAL, PRINTED)]
        for place, name in enumerate(names):
            ratio = trial.ratio_of_means("work-weighted wait", name, FIFO)
            low, high = ratio.ends
            error = [[ratio.value - low], [high - ratio.value]]
            axis.errorbar([ratio.value], [place], xerr=error, fmt="x", color="tab:blue", capsize=3)
        bounds = [implied_ratio(p, most=each) for each in (False, True)]
        axis.axvspan(*bounds, color="tab:red", alpha=0.3, label="implied by Table II")
        axis.axvline(1.0, color="grey", linestyle="--", label="FIFO")
        axis.set_yticks(range(len(names)), names)
        axis.set_title(f"p = {p}")
        axis.set_xlim(left=0.0)
        axis.set_xlabel("sum of run time x wait,\nas a fraction of FIFO's")
        axis.grid(alpha=0.3)
    legend_above(figure, np.atleast_1d(axes)[0])
    return figure


def _draw_figure_3(trials: Mapping[float, PairedTrial]) -> Any:
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.8), sharey=True, layout="constrained")
    for colour, (p, trial) in zip(_COLOURS, trials.items(), strict=False):
        for policy, style in _STYLES.items():
            waits, run_times = trial.pooled(policy, interactive=True)
            name = f"{policy}, p = {p}"
            draw_cumulative(axes[0], np.maximum(waits, 1.0), style, colour, name)
            overhead = np.maximum(relative_overhead(waits, run_times), 1e-3)
            draw_cumulative(axes[1], overhead, style, colour, name)
    for axis in axes:
        axis.set_xscale("log")
        axis.axhline(0.9, color="grey", linewidth=0.8)
        axis.grid(alpha=0.3)
    axes[0].axvline(INTERACTIVE_WAIT_GOAL, color="grey", linewidth=0.8)
    axes[1].axvline(1.0, color="grey", linewidth=0.8)
    axes[0].set_xlabel("wait (s, below 1 s drawn at 1 s; line at 2 minutes)")
    axes[1].set_xlabel("wait / run time (below .001 drawn at .001)")
    axes[0].set_ylabel("fraction of interactive jobs (line at .9)")
    axes[0].set_title("wait")
    axes[1].set_title("relative overhead")
    legend_above(figure, axes[0], columns=3)
    return figure


def _draw_fairness(feasible: PairedTrial, infeasible: PairedTrial) -> Any:
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
    titles = ("targets .7/.2/.05/.05 (feasible)", "targets .4/.2/.2/.2 (infeasible)")
    for axis, trial, title in zip(axes, (feasible, infeasible), titles, strict=True):
        for colour, policy in zip(_COLOURS, (FIFO, RL, SJF), strict=True):
            hours, low, middle, high = _fairness_band(trial, policy)
            axis.plot(hours, middle, color=colour, label=f"{policy}, median of the logs")
            axis.fill_between(hours, low, high, color=colour, alpha=0.12, linewidth=0)
        axis.set_title(title)
        axis.set_xlabel("simulated time (h), first 500 jobs left out")
        axis.grid(alpha=0.3)
    axes[0].axhline(0.94, color="grey", linestyle=":", label=".94 (paper, at 13.9 h) or bound .625")
    axes[1].axhline(INFEASIBLE_BOUND, color="grey", linestyle=":")
    axes[0].set_ylabel("fairness (eq. 4); band: middle 95 % of the logs")
    legend_above(figure, axes[0], columns=2)
    return figure


def _fairness_band(
    trial: PairedTrial, policy: str
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Hours, and the 2.5 %, 50 % and 97.5 % quantiles of the logs' fairness there."""
    schedules = trial.schedules[policy]
    first = min(500, len(schedules[0].submit) // 10)
    begin = max(float(jobs.submit[first] - jobs.submit[0]) for jobs in schedules)
    end = min(float(jobs.submit[-1] - jobs.submit[0]) for jobs in schedules)
    seconds = np.linspace(begin, end, _INSTANTS)
    curves = [fairness_over_time(jobs, jobs.submit[0] + seconds) for jobs in schedules]
    low, middle, high = np.quantile(curves, [0.025, 0.5, 0.975], axis=0)
    return seconds / HOUR, low, middle, high


def _draw_literal_reward(found: ReactiveGrids) -> Any:
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    run_times = np.geomspace(10.0, 40_000.0, 200)
    for network, name, colour in (
        (found.literal, "reward as printed", "tab:red"),
        (found.printed, "all settings as printed", "tab:purple"),
        (found.learned, "difference reward", "tab:blue"),
    ):
        left.plot(
            run_times / MINUTE, scores_by_run_time(network, run_times), color=colour, label=name
        )
    left.axvline(15.0, color="grey", linestyle=":", label="interactive | batch")
    left.set_xscale("log")
    left.set_xlabel("run time of the job (min)")
    left.set_ylabel("score on a crowded grid (standardised)")
    left.set_title("what the networks learned: higher starts first")
    left.legend()
    left.grid(alpha=0.3)
    trial = found.feasible[SHOWN]
    names = (LITERAL, PRINTED, LONGEST_FIRST, FIFO, RL, SJF)
    means = [float(trial.figure(name, "mean wait").mean()) for name in names]
    right.barh(names, means, color=["tab:red", "tab:purple", "grey", "grey", "tab:blue", "grey"])
    right.set_xlabel(f"mean wait (s), p = {SHOWN}")
    right.set_title("what they do")
    right.grid(alpha=0.3, axis="x")
    return figure


def _draw_curves(curves: Curves) -> Any:
    figure, axis = plt.subplots(figsize=(8, 4.5), layout="constrained")
    for colour, (kind, objective) in zip(_COLOURS, curves.items(), strict=True):
        jobs = SWEEP_JOBS * np.arange(objective.shape[1])
        axis.plot(jobs, objective.mean(axis=0), color=colour, label=PRETRAININGS[kind])
        low, high = objective.min(axis=0), objective.max(axis=0)
        axis.fill_between(jobs, low, high, color=colour, alpha=0.15, linewidth=0)
    axis.set_xlabel("jobs learned from")
    axis.set_ylabel("objective on the validation logs\n(mean and range of the learners)")
    axis.set_title("calibrating SARSA off-line, p = 0.5")
    axis.grid(alpha=0.3)
    axis.legend(loc="lower right")
    return figure
