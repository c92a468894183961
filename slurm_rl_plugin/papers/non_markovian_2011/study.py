"""`non-markovian`: the paper of 2011 as a study."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from slurm_rl_plugin.papers.non_markovian_2011.claims import FIFO, LEARNED, NATIVE, SJF, memory_row
from slurm_rl_plugin.papers.non_markovian_2011.experiment import (
    MEASURED_SEGMENTS,
    NonMarkovian,
    estimate_report,
    reproduce,
    steps,
)
from slurm_rl_plugin.papers.reactive_grids_2008.claims import fairness_gap
from slurm_rl_plugin.papers.study.figures import (
    draw_cumulative,
    draw_intervals,
    finished,
    panels,
)
from slurm_rl_plugin.papers.study.logs import PROCESSORS_OF_2011
from slurm_rl_plugin.papers.study.result_store import ResultStore
from slurm_rl_plugin.papers.study.study import Asked, Drawings, Outcome, Plan
from slurm_rl_plugin.papers.study.trials import (
    PairedTrial,
)
from slurm_rl_plugin.units import DAY, INTERACTIVE_WAIT_GOAL
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
    titles = [*trials, *["its least responsive jobs"] * len(trials)]
    figure, axes = panels(titles, (4.5, 3.75), rows=2)
    for above, below, trial in zip(axes, axes[len(trials) :], trials.values(), strict=False):
        for name, (colour, style) in _STYLES.items():
            if name in trial.schedules:
                values = np.sort(responsiveness(*trial.pooled(name, interactive=True)))
                part = 1.0 - np.arange(1, len(values) + 1) / len(values)
                for axis in (above, below):
                    axis.plot(values, part, style, color=colour, label=name)
        # from where the learned policies have half their responsiveness, upwards
        lowest = min(
            float((responsiveness(*trial.pooled(name, interactive=True)) > 0.5).mean())
            for name in LEARNED
        )
        below.set(xscale="log", xlim=(1e-3, 0.5), ylim=(max(lowest - 0.02, 0.0), 1.002))
    up = "fraction of interactive jobs with R > x"
    return finished(figure, axes, "responsiveness x", up, columns=7)


def _draw_delays(trials: Mapping[str, PairedTrial]) -> Any:
    figure, axes = panels(list(trials), (4.5, 4.6))
    for axis, trial in zip(axes, trials.values(), strict=True):
        for name, (colour, style) in _STYLES.items():
            if name in trial.schedules:
                waits, _ = trial.pooled(name, interactive=True)
                draw_cumulative(axis, np.maximum(waits, 1.0), style, colour, name)
        axis.axvline(INTERACTIVE_WAIT_GOAL, color="grey", linewidth=0.8)
    across = "queuing delay (s; below 1 s at 1 s; line at 2 min)"
    return finished(figure, axes, across, "fraction of interactive jobs", log="x", columns=7)


def _draw_memory(trials: Mapping[str, PairedTrial]) -> Any:
    """Paired differences in R of the worst 5 %: echo state less feed-forward or forgetful."""
    figure, axes = panels(list(trials), (4.2, 3.4), share=True)
    for axis, (group, trial) in zip(axes, trials.items(), strict=True):
        rows = [
            memory_row(group, trial, estimates, other)
            for estimates in ("ORA", "EST")
            for other in ("NN", "ESN0")
        ]
        gains = {each.cell.policy: each.measured for each in rows}
        draw_intervals(axis, gains, "tab:orange", "mean and 95 % interval over learners and logs")
        axis.axvline(0.0, color="grey", linestyle="--", label="no difference")
        axis.xaxis.set_major_locator(MaxNLocator(4))
    across = "difference of mean R of the\nworst 5 % interactive jobs"
    return finished(figure, axes, across, "")


def _draw_fairness(trial: PairedTrial) -> Any:
    titles = [f"LPC-EGEE segment {number}" for number in MEASURED_SEGMENTS]
    figure, axes = panels(titles, (4.3, 4.4))
    for place, axis in enumerate(axes):
        for name, (colour, style) in _STYLES.items():
            if name != NATIVE:
                seconds, gap = fairness_gap(trial, name, place)
                axis.plot(seconds / DAY, gap, style, color=colour, label=name)
        axis.axhline(0.0, color="black", linewidth=0.8)
    up = "fairness (eq. 4) less that of the native scheduler"
    return finished(figure, axes, "time (days)", up, columns=6)


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
