"""`learning-agents`: many independent agents share a grid (2005), as a study."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from matplotlib import pyplot as plt
from matplotlib.ticker import LogLocator, NullFormatter

from slurm_rl_plugin.brokers.agents.simulation import (
    LEAST_LOADED,
    LEAST_LOADED_IN_TURN,
    OPTIMAL_SPLIT,
    PAPER,
    PROBING,
    RANDOM,
)
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.papers.learning_agents_2005.claims import claims_of
from slurm_rl_plugin.papers.learning_agents_2005.experiment import (
    FIGURE_5,
    FULL,
    LATE,
    LEAVING,
    NOISE,
    QUICK,
    RATES_OF_FIGURE_2,
    RATES_OF_FIGURE_3,
    Measured,
    group_of,
    group_of_leaving,
    reproduce,
    steps,
    with_noise,
)
from slurm_rl_plugin.papers.study.figure_file import legend_above
from slurm_rl_plugin.papers.study.result_store import ResultStore
from slurm_rl_plugin.papers.study.study import Asked, Drawings, Outcome
from slurm_rl_plugin.units import FloatArray, IntArray

_STYLES = {
    RANDOM: ("grey", "--"),
    LEAST_LOADED: ("black", "-"),
    LEAST_LOADED_IN_TURN: ("black", ":"),
    OPTIMAL_SPLIT: ("tab:green", "-."),
    PAPER: ("tab:blue", "-"),
    PAPER + LATE: ("tab:blue", ":"),
    PROBING: ("tab:orange", "-"),
    PROBING + LATE: ("tab:orange", ":"),
}
_COLOURS = ("tab:green", "tab:blue", "tab:orange", "tab:red", "tab:purple")


def drawings_of(found: Mapping[str, Measured]) -> Drawings:
    """Every figure of what the reproduction gave."""
    return {
        "fig-2-narrow-capacities.png": lambda: _draw_rates(found, 2, RATES_OF_FIGURE_2),
        "fig-3-wide-capacities.png": lambda: _draw_rates(found, 3, RATES_OF_FIGURE_3),
        "fig-4-leaving.png": lambda: _draw_leaving(found),
        "fig-5-noise.png": lambda: _draw_noise(found),
    }


def _draw_rates(found: Mapping[str, Measured], number: int, rates: tuple[float, ...]) -> Any:
    figure, axes = plt.subplots(1, len(rates), figsize=(13, 4.4), sharey=True, layout="constrained")
    for axis, rate in zip(axes, rates, strict=True):
        measured = found[group_of(number, rate)]
        for name, curve in measured.curve.items():
            colour, style = _STYLES[name]
            axis.plot(measured.ends, curve, style, color=colour, label=name)
        axis.set_title(f"g = {rate:.2f}", fontsize="medium")
    for axis in axes:  # after all curves: the panels share their axis
        _label(axis, logarithmic=number == 3)
    axes[0].set_ylabel("mean load (ticks of work)")
    widest = max(axes, key=lambda axis: len(axis.get_lines()))
    legend_above(figure, widest, columns=4)
    return figure


def _draw_leaving(found: Mapping[str, Measured]) -> Any:
    """The paper's agents and the probing ones, side by side."""
    curves = {
        rule: {
            f"leaving {leaving:g}": found[group_of_leaving(leaving)].curve[rule]
            for leaving in LEAVING[1:]
        }
        for rule in (PAPER, PROBING)
    }
    for rule, drawn in curves.items():
        steady = found[FIGURE_5].curve[with_noise(rule, 0.0)]
        curves[rule] = {f"leaving {LEAVING[0]:g}": steady, **drawn}
    return _draw_side_by_side(found[FIGURE_5].ends, curves)


def _draw_noise(found: Mapping[str, Measured]) -> Any:
    return _draw_side_by_side(
        found[FIGURE_5].ends,
        {
            rule: {
                f"noise {noise:g}": found[FIGURE_5].curve[with_noise(rule, noise)]
                for noise in NOISE
            }
            for rule in (PAPER, PROBING)
        },
    )


def _draw_side_by_side(ends: IntArray, curves: Mapping[str, Mapping[str, FloatArray]]) -> Any:
    figure, axes = plt.subplots(
        1, len(curves), figsize=(10, 4.4), sharey=True, layout="constrained"
    )
    for axis, (rule, drawn) in zip(axes, curves.items(), strict=True):
        for colour, (name, curve) in zip(_COLOURS, drawn.items(), strict=False):
            axis.plot(ends, curve, color=colour, label=name)
        axis.set_title(rule, fontsize="medium")
        _label(axis, logarithmic=True)
    axes[0].set_ylabel("mean load (ticks of work)")
    legend_above(figure, axes[0], columns=5)
    return figure


def _label(axis: Any, *, logarithmic: bool) -> None:
    if logarithmic:
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter(NullFormatter())
    else:
        axis.set_ylim(bottom=0.0)
    axis.set_xlabel("time (ticks)")
    axis.grid(alpha=0.3)


def run(asked: Asked) -> Outcome:
    """Simulate every rule on every grid, and judge."""
    seeds = asked.number_of_seeds()
    if asked.policy or asked.traces_given:
        raise ConfigurationError(
            f"{asked.paper} takes no traces and no --policy: its grids are generated."
        )
    size = QUICK if asked.quick else FULL
    with asked.bar("simulating", steps(size, seeds)) as add:
        found = reproduce(size, seeds, add, ResultStore(asked.models), threads=os.cpu_count() or 1)
    claims = claims_of(found)
    return Outcome(
        claims=claims,
        seeds=range(seeds),
        drawings=drawings_of(found),
        manifest={"size": asdict(size), "claims": [claim.as_json() for claim in claims]},
    )
