"""`learning-agents`: many independent agents share a grid (2005), as a study."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
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
from slurm_rl_plugin.papers.learning_agents_2005.experiment import (
    CRITICAL_RATE,
    FIGURE_5,
    FULL,
    LATE,
    LEAVING,
    NOISE,
    QUICK,
    RATE_OF_DYNAMICS,
    RATES_OF_FIGURE_2,
    RATES_OF_FIGURE_3,
    RATES_OF_RANDOM,
    Measured,
    group_of,
    group_of_leaving,
    reproduce,
    steps,
    with_noise,
)
from slurm_rl_plugin.papers.study.claims import (
    FEW_LOGS,
    Cell,
    Declared,
    Row,
    Statistic,
    measure,
    ratio_of_means,
    row,
)
from slurm_rl_plugin.papers.study.figures import legend_above
from slurm_rl_plugin.papers.study.result_store import ResultStore
from slurm_rl_plugin.papers.study.study import Asked, Drawings, Outcome
from slurm_rl_plugin.units import FloatArray, IntArray

DECLARED = Declared(__package__)
LOAD, RESPONSE = "load", "response (ticks)"
TO_LEAST_LOADED = "load / least loaded"
SAME = "load / least loaded, or the other way round"
GROWTH = "load at the end / load in the middle"
TO_PAPER = {LOAD: "load / paper's agents", RESPONSE: "response / paper's agents"}
#: A closer factor than that of "similar", which each claim names as well.
CLOSE = 1.2
#: R Cmin / (g N Jav): with more noise, random jobs alone overload the slowest resources.
BEARABLE_NOISE = 0.025
#: g whose loads and responses have goals.
_WITH_GOALS = (0.20, 0.22)


def rows_of(found: Mapping[str, Measured]) -> Iterator[Row]:
    """Figures that something is said of, then every load and response."""
    for rate in RATES_OF_FIGURE_2:
        yield from _figure_2(rate, found[group_of(2, rate)])
    for rate in RATES_OF_FIGURE_3:
        yield from _figure_3(rate, found[group_of(3, rate)])
    steady, late = group_of(3, RATE_OF_DYNAMICS), PAPER + LATE
    load = found[steady].load
    yield _ratio(steady, late, "load / told at once", load[late], load[PAPER], load)
    sustained, beyond = map(partial(group_of, 3), RATES_OF_RANDOM)
    yield _growth(sustained, RANDOM, found[sustained], {})
    yield _grown(beyond, RANDOM, found[beyond])
    yield from _figures_4_and_5(found)
    yield from _goals(found)
    for group, measured in found.items():
        for rule in measured.load:
            for column, values in ((LOAD, measured.load), (RESPONSE, measured.response)):
                yield row(group, rule, column, values[rule])


def _ratio(
    group: str,
    policy: str,
    column: str,
    one: FloatArray,
    other: FloatArray,
    beside: Mapping[str, FloatArray],
    statistic: Statistic = ratio_of_means,
) -> Row:
    """A ratio of means over the same seeds, and the factors at which it would keep to a bound."""
    ratio = measure(np.array([one, other]), statistic)
    low, high = (ratio.value, ratio.value) if len(one) < FEW_LOGS else ratio.ends
    return Row(
        cell=Cell(group, policy, column),
        measured=ratio,
        logs=len(one),
        baselines=_means(beside),
        words={
            "low": f"{low:.3g}",
            "high": f"{high:.3g}",
            "close_from_below": "also" if low <= CLOSE else "not",
            "close_from_above": "also" if high >= CLOSE else "not",
        },
    )


def _either_way(pair: FloatArray) -> FloatArray:
    """Factor by which two means differ, whichever is larger."""
    ratio = ratio_of_means(pair)
    return np.maximum(ratio, 1.0 / ratio)


def _means(values: Mapping[str, FloatArray]) -> dict[str, float]:
    return {name: float(each.mean()) for name, each in values.items()}


def _growth(group: str, rule: str, measured: Measured, beside: Mapping[str, FloatArray]) -> Row:
    return _ratio(group, rule, GROWTH, measured.load[rule], measured.middle[rule], beside)


def _grown(group: str, rule: str, measured: Measured) -> Row:
    """That a load has no steady state, however slowly it grows."""
    grown = measured.load[rule] - measured.middle[rule]
    column = "load at the end less that in the middle"
    return row(group, rule, column, grown, baselines=_means(measured.load))


def _figure_2(rate: float, measured: Measured) -> Iterator[Row]:
    """Random keeps up below g = .15 and then grows; the paper's agents stay near least loaded.

    At the critical rate the slowest resources are overloaded by 1 %: their queues grow without
    end, but slowly, so that it is asked whether the mean load grows at all.
    """
    group, load = group_of(2, rate), measured.load
    yield _ratio(group, PAPER, TO_LEAST_LOADED, load[PAPER], load[LEAST_LOADED], load)
    yield _growth(group, PAPER, measured, load)
    if rate in (RATES_OF_FIGURE_2[0], CRITICAL_RATE):
        yield _ratio(group, RANDOM, TO_LEAST_LOADED, load[RANDOM], load[LEAST_LOADED], load)
    if rate == CRITICAL_RATE:
        yield _grown(group, RANDOM, measured)
    else:
        yield _growth(group, RANDOM, measured, load)


def _figure_3(rate: float, measured: Measured) -> Iterator[Row]:
    """The paper's agents compare very well with least loaded; both keep up until g = .22."""
    group, load = group_of(3, rate), measured.load
    same = rate == RATE_OF_DYNAMICS  # of this one alone "the same value" is said
    column, statistic = (SAME, _either_way) if same else (TO_LEAST_LOADED, ratio_of_means)
    yield _ratio(group, PAPER, column, load[PAPER], load[LEAST_LOADED], load, statistic)
    if rate == RATES_OF_FIGURE_3[-1]:
        for rule in (PAPER, LEAST_LOADED):
            yield _growth(group, rule, measured, load)


def _figures_4_and_5(found: Mapping[str, Measured]) -> Iterator[Row]:
    """Load with leaving agents; and with noise, sustained up to eps = R Cmin / (g N Jav) = .025."""
    steady = found[FIGURE_5].load[with_noise(PAPER, 0.0)]
    for leaving in LEAVING[1:]:
        group = group_of_leaving(leaving)
        load = found[group].load
        yield _ratio(group, PAPER, "load / load without leaving", load[PAPER], steady, load)
    noisy = found[FIGURE_5]
    for noise in NOISE[1:]:
        rule = with_noise(PAPER, noise)
        yield _ratio(FIGURE_5, rule, "load / load without noise", noisy.load[rule], steady, {})
        if noise <= BEARABLE_NOISE:
            yield _growth(FIGURE_5, rule, noisy, {})
        else:
            yield _grown(FIGURE_5, rule, noisy)


def _goals(found: Mapping[str, Measured]) -> Iterator[Row]:
    for rate in _WITH_GOALS:
        group, measured = group_of(3, rate), found[group_of(3, rate)]
        for name, values in ((LOAD, measured.load), (RESPONSE, measured.response)):
            column = TO_PAPER[name]
            yield _ratio(group, PROBING, column, values[PROBING], values[PAPER], values)
    group = group_of(3, RATE_OF_DYNAMICS)
    load = found[group].load
    column = f"load / {LEAST_LOADED_IN_TURN}"
    yield _ratio(group, PROBING, column, load[PROBING], load[LEAST_LOADED_IN_TURN], load)
    late = PROBING + LATE
    yield row(group, late, f"{LOAD}, goal", load[late], baselines=_means(load))


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
    claims = DECLARED.claims(rows_of(found))
    return Outcome(
        claims=claims,
        seeds=range(seeds),
        drawings=drawings_of(found),
        manifest={"size": asdict(size), "claims": [claim.as_json() for claim in claims]},
    )
