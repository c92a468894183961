"""Figures of the 2008 paper, and of why two of its results do not reproduce."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.reactive_grid import REACTIVE_GRID
from slurm_rl_plugin.learning.onnx_file import import_network
from slurm_rl_plugin.papers.reactive_grids_2008.claims import (
    INFEASIBLE_BOUND,
    LITERAL,
    MEASURED_SEGMENTS,
    PRETRAININGS,
    PRINTED,
    SWEEP_JOBS,
    Curves,
    fairness_gap,
    fairness_over_time,
    implied_ratio,
    scores_by_run_time,
    wait_differences,
)
from slurm_rl_plugin.papers.reactive_grids_2008.experiment import (
    SHOWN,
    ReactiveGrids,
    reproduce,
    shipped_figures,
    shipped_report,
    steps,
)
from slurm_rl_plugin.papers.reactive_grids_2008.load import FIFO, NATIVE, RL, SJF, printed_waits
from slurm_rl_plugin.papers.reactive_grids_2008.on_line import (
    FROZEN,
    ON_LINE,
    READINGS,
    Trial,
    on_line_facts,
    on_line_report,
)
from slurm_rl_plugin.papers.study.figures import legend_above
from slurm_rl_plugin.papers.study.logs import PROCESSORS_OF_2011, PROCESSORS_OF_LPC
from slurm_rl_plugin.papers.study.result_store import ResultStore
from slurm_rl_plugin.papers.study.study import Asked, Drawings, Outcome, Plan
from slurm_rl_plugin.papers.study.trials import LONGEST_FIRST, PairedTrial
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.units import DAY, HOUR, INTERACTIVE_WAIT_GOAL, MINUTE, FloatArray
from slurm_rl_plugin.utility.time_utility import relative_overhead

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


#: Jobs over which differences of waits are averaged.
_WINDOW = 200
_TRACE_COLOURS = {NATIVE: "black", FIFO: "tab:blue", RL: "tab:orange", SJF: "tab:green"}

Segments = Mapping[tuple[int, int], PairedTrial]


def segment_drawings(segments: Segments) -> dict[str, Callable[[], Any]]:
    """File name -> drawing; nothing without segments."""
    if not segments:
        return {}
    shown = {key: each for key, each in segments.items() if key[1] == PROCESSORS_OF_2011}
    return {
        "fig-6-segment-waits.png": lambda: _draw(shown, _draw_waits),
        "fig-6-segment-wait-differences.png": lambda: _draw(shown, _draw_differences),
        "fig-7-segment-fairness.png": lambda: _draw(shown, _draw_fairness_gap),
    }


def learning_drawing(trial: Trial) -> dict[str, Callable[[], Any]]:
    """Utility over time while a learner learns, by file name; nothing without segments."""
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
    for name, colour in _TRACE_COLOURS.items():
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
    for name, colour in _TRACE_COLOURS.items():
        if name != NATIVE:
            submit, difference = wait_differences(trial, name)
            smooth = _moving_mean(difference / HOUR)
            axis.plot(submit[: len(smooth)] / DAY, smooth, color=colour, label=f"native - {name}")
    axis.axhline(0.0, color="black", linewidth=0.8)
    return "arrival (days)", f"difference of waits (h),\nmean of {_WINDOW} jobs"


def _moving_mean(values: FloatArray) -> FloatArray:
    window = min(_WINDOW, len(values))
    return np.convolve(values, np.full(window, 1.0 / window), mode="valid")


def _draw_fairness_gap(axis: Any, trial: PairedTrial) -> tuple[str, str]:
    for name, colour in _TRACE_COLOURS.items():
        if name != NATIVE:
            seconds, gap = fairness_gap(trial, name)
            axis.plot(seconds / DAY, gap, color=colour, label=f"{name} - native")
    axis.axhline(0.0, color="black", linewidth=0.8)
    return "time (days)", "difference of fairness (eq. 4)"


def run(asked: Asked) -> Outcome:
    """Train, or take the network that is given, and measure."""
    plan = Plan.of(asked)
    if asked.policy is not None:
        plan = replace(plan, network=_given_network(asked.policy))
    with asked.bar("training and simulating", steps(plan)) as add:
        found = reproduce(plan, ResultStore(asked.models, add), partial(add, 1))
    shipped = shipped_figures(plan.traces, plan.effort, asked.shipped)
    return Outcome(
        claims=found.claims,
        seeds=range(plan.seeds),
        more=[*on_line_report(found.on_line), *shipped_report(shipped)],
        facts={"on_line": on_line_facts(found.on_line), "shipped": shipped},
        drawings=drawings_of(found),
    )


def _given_network(path: Path) -> QNetwork:
    network = import_network(path)
    if network.schema != REACTIVE_GRID:
        raise ConfigurationError(
            f"model {path} is of schema {network.schema.name}: give one of {REACTIVE_GRID.name}, "
            "which `slurm-rl train --algorithm sarsa` writes."
        )
    return network
