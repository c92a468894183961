"""`non-markovian`: the paper of 2011 as a study."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.ticker import MaxNLocator

from slurm_rl_plugin.papers.non_markovian_2011.claims import FIFO, LEARNED, NATIVE, SJF
from slurm_rl_plugin.papers.non_markovian_2011.experiment import (
    MEASURED_SEGMENTS,
    NonMarkovian,
    estimate_report,
    reproduce,
    steps,
)
from slurm_rl_plugin.papers.reactive_grids_2008.claims import fairness_gap
from slurm_rl_plugin.papers.reactive_grids_2008.study import draw_cumulative
from slurm_rl_plugin.papers.study.figures import legend_above
from slurm_rl_plugin.papers.study.logs import PROCESSORS_OF_2011
from slurm_rl_plugin.papers.study.result_store import ResultStore
from slurm_rl_plugin.papers.study.study import Asked, Drawings, Outcome, Plan
from slurm_rl_plugin.papers.study.trials import (
    PairedTrial,
    figures_by_learner,
    measure_over_learners,
)
from slurm_rl_plugin.units import DAY, INTERACTIVE_WAIT_GOAL, FloatArray
from slurm_rl_plugin.utility.time_utility import responsiveness

_STYLES = {
    NATIVE: ("black", "-"),
    FIFO: ("grey", "--"),
    SJF: ("tab:purple", ":"),
    "NN-ORA": ("tab:blue", "-"),
    "NN-EST": ("tab:blue", "--"),
    "ESN-ORA": ("tab:orange", "-"),
    "ESN-EST": ("tab:orange", "--"),
}


def drawings_of(found: NonMarkovian) -> Drawings:
    """Every figure of what the reproduction gave."""
    trials = _shown(found)
    drawings = {
        "fig-2-responsiveness.png": lambda: _draw_responsiveness(trials),
        "fig-3-queuing-delay.png": lambda: _draw_delays(trials),
        "memory.png": lambda: _draw_memory(trials),
    }
    if found.segments:
        trial = found.segments[PROCESSORS_OF_2011]
        drawings["fig-4-fairness.png"] = lambda: _draw_fairness(trial)
    return drawings


def _shown(found: NonMarkovian) -> Mapping[str, PairedTrial]:
    """Title -> trial: the generated loads, and the segments on the processors of 2011."""
    trials = dict(found.generated)
    if found.segments:
        title = f"LPC-EGEE segments 17-19, {PROCESSORS_OF_2011} processors"
        trials[title] = found.segments[PROCESSORS_OF_2011]
    return trials


def _draw_responsiveness(trials: Mapping[str, PairedTrial]) -> Any:
    """P(R > x): the whole above, the least responsive jobs below."""
    figure, axes = plt.subplots(
        2, len(trials), figsize=(4.5 * len(trials), 7.5), squeeze=False, layout="constrained"
    )
    for column, (title, trial) in enumerate(trials.items()):
        for name, (colour, style) in _STYLES.items():
            if name not in trial.schedules:
                continue
            values = np.sort(responsiveness(*trial.pooled(name, interactive=True)))
            above = 1.0 - np.arange(1, len(values) + 1) / len(values)
            for axis in axes[:, column]:
                axis.plot(values, above, style, color=colour, label=name)
        axes[0, column].set_title(title, fontsize="medium")
        axes[1, column].set_title("its least responsive jobs", fontsize="medium")
        axes[1, column].set_xscale("log")
        axes[1, column].set_xlim(1e-3, 0.5)
        _limit_to_learned(axes[1, column], trial)
        for axis in axes[:, column]:
            axis.set_xlabel("responsiveness x")
            axis.grid(alpha=0.3)
    for row in axes:
        row[0].set_ylabel("fraction of interactive jobs with R > x")
    legend_above(figure, axes[0, -1], columns=7)
    return figure


def _limit_to_learned(axis: Any, trial: PairedTrial) -> None:
    """From where the learned policies have half their responsiveness, upwards."""
    lowest = min(
        float((responsiveness(*trial.pooled(name, interactive=True)) > 0.5).mean())
        for name in LEARNED
    )
    axis.set_ylim(max(lowest - 0.02, 0.0), 1.002)


def _draw_delays(trials: Mapping[str, PairedTrial]) -> Any:
    figure, axes = plt.subplots(
        1, len(trials), figsize=(4.5 * len(trials), 4.6), squeeze=False, layout="constrained"
    )
    for axis, (title, trial) in zip(axes[0], trials.items(), strict=True):
        for name, (colour, style) in _STYLES.items():
            if name in trial.schedules:
                waits, _ = trial.pooled(name, interactive=True)
                draw_cumulative(axis, np.maximum(waits, 1.0), style, colour, name, points=1000)
        axis.axvline(INTERACTIVE_WAIT_GOAL, color="grey", linewidth=0.8)
        axis.set_xscale("log")
        axis.set_xlabel("queuing delay (s; below 1 s at 1 s; line at 2 min)")
        axis.set_title(title, fontsize="medium")
        axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel("fraction of interactive jobs")
    legend_above(figure, axes[0, -1], columns=7)
    return figure


def _draw_memory(trials: Mapping[str, PairedTrial]) -> Any:
    """Paired differences in R of the worst 5 %: echo state less feed-forward or forgetful."""
    pairs = [
        (f"ESN-{estimates}", f"{other}-{estimates}")
        for estimates in ("ORA", "EST")
        for other in ("NN", "ESN0")
    ]
    figure, axes = plt.subplots(
        1, len(trials), figsize=(4.2 * len(trials), 3.4), squeeze=False, layout="constrained"
    )
    for axis, (title, trial) in zip(axes[0], trials.items(), strict=True):
        for place, (one, two) in enumerate(pairs):
            gain = measure_over_learners(_difference(trial, one, two))
            low, high = gain.ends
            error = [[gain.value - low], [high - gain.value]]
            axis.errorbar(
                [gain.value],
                [place],
                xerr=error,
                fmt="x",
                capsize=4,
                color="tab:orange",
                label="mean and 95 % interval over learners and logs",
            )
        axis.axvline(0.0, color="grey", linestyle="--", label="no difference")
        names = [f"{one} - {two}" for one, two in pairs]
        axis.set_yticks(range(len(pairs)), names if axis is axes[0, 0] else [])
        axis.set_ylim(-0.5, len(pairs) - 0.5)
        axis.xaxis.set_major_locator(MaxNLocator(4))
        axis.set_xlabel("difference of mean R of the\nworst 5 % interactive jobs")
        axis.set_title(title, fontsize="medium")
        axis.grid(alpha=0.3)
    legend_above(figure, axes[0, 0])
    return figure


def _difference(trial: PairedTrial, one: str, two: str) -> FloatArray:
    pair = [figures_by_learner(trial, name, "worst 5 %") for name in (one, two)]
    return pair[0] - pair[1]


def _draw_fairness(trial: PairedTrial) -> Any:
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.4), layout="constrained")
    for place, (axis, number) in enumerate(zip(axes, MEASURED_SEGMENTS, strict=True)):
        for name, (colour, style) in _STYLES.items():
            if name != NATIVE:
                seconds, gap = fairness_gap(trial, name, place)
                axis.plot(seconds / DAY, gap, style, color=colour, label=name)
        axis.axhline(0.0, color="black", linewidth=0.8)
        axis.set_title(f"LPC-EGEE segment {number}", fontsize="medium")
        axis.set_xlabel("time (days)")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("fairness (eq. 4) less that of the native scheduler")
    legend_above(figure, axes[0], columns=6)
    return figure


def run(asked: Asked) -> Outcome:
    """Train all networks and measure."""
    plan = Plan.of(asked)
    asked.refuse_policy("it compares four networks")
    with asked.bar("training and simulating", steps(plan)) as add:
        store = ResultStore(asked.models, add)
        found = reproduce(plan, store, asked.shipped, partial(add, 1))
    return Outcome(
        claims=found.claims,
        seeds=range(plan.seeds),
        more=estimate_report(found.estimates),
        facts={"estimates": found.estimates},
        drawings=drawings_of(found),
    )
