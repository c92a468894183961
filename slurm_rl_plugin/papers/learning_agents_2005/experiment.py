"""The 2005 paper, "Resource allocation in the Grid with learning agents", run again.

Every rule runs on the same grids: capacities and submissions of seeds 0 to N - 1. Figures are means
over the last ticks of a run. The paper's "Cmax = 300, Cmin = 700" is taken as Cmin = 300 and
Cmax = 700, and its utility as Tw + (Texc / J).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from matplotlib.ticker import LogLocator, NullFormatter

from slurm_rl_plugin.brokers.agents.grid import Grid, GridSettings, draw_grid
from slurm_rl_plugin.brokers.agents.simulation import (
    LEAST_LOADED,
    LEAST_LOADED_IN_TURN,
    OPTIMAL_SPLIT,
    PAPER,
    PROBING,
    RANDOM,
    AgentRule,
    run_grid,
)
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.learning.side_by_side import side_by_side
from slurm_rl_plugin.papers.study import claims
from slurm_rl_plugin.papers.study.figures import finished, panels
from slurm_rl_plugin.papers.study.result_store import ResultStore, stem_of
from slurm_rl_plugin.papers.study.study import Asked, Outcome
from slurm_rl_plugin.units import FloatArray, IntArray

#: Rules by their names in tables and figures.
LATE = ", feedback at completion"
_BY_NAME = {
    name: AgentRule(name=name)
    for name in (RANDOM, LEAST_LOADED, LEAST_LOADED_IN_TURN, OPTIMAL_SPLIT, PAPER, PROBING)
}
_LATE = {name + LATE: replace(_BY_NAME[name], at_completion=True) for name in (PAPER, PROBING)}
_NARROW = (300.0, 700.0)
RATES_OF_FIGURE_2, RATES_OF_FIGURE_3 = (0.13, 0.14, 0.15), (0.18, 0.20, 0.22)
#: R Cmin / (N Jav) = 0.1485 at 300-700; above it random choices overload the slowest resources.
CRITICAL_RATE = RATES_OF_FIGURE_2[-1]
#: R Cmin / (N Jav) = 0.00495 at 10-1000, which the paper rounds to 0.005; and twice as much.
RATES_OF_RANDOM = (0.005, 0.01)
LEAVING, NOISE = (0.0, 0.001, 0.01, 0.05), (0.0, 0.01, 0.025, 0.05, 0.1)
#: Load of Fig. 4 and 5: that of Fig. 3b, since the paper does not print it.
RATE_OF_DYNAMICS = 0.20


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Sizes of a reproduction."""

    agents: int = 1000
    resources: int = 250
    ticks: int = 6000  #: of Fig. 3, and of Fig. 2 at the critical rate
    other_ticks: int = 2000


FULL = Size()
#: For a smoke test; its figures are no reproduction.
QUICK = Size(agents=60, resources=15, ticks=240, other_ticks=120)


#: Figure of the paper and its setting -> the grids, and the rules on them by name.
Experiments = Mapping[str, tuple[GridSettings, Mapping[str, AgentRule]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Results of an experiment, by rule."""

    load: Mapping[str, FloatArray]  #: mean of the last ticks, shape [seeds]
    middle: Mapping[str, FloatArray]  #: mean of as many ticks in the middle of the run
    #: Mean of the jobs submitted in the last ticks, shape [seeds].
    response: Mapping[str, FloatArray]
    #: Load, mean over each part of the run and over the seeds, shape [parts].
    curve: Mapping[str, FloatArray]
    ends: IntArray  #: of those parts, ticks, shape [parts]


def group_of(figure: int, rate: float) -> str:
    """Name of the experiment of a figure with a job rate."""
    low, high = (300, 700) if figure == 2 else (10, 1000)
    return f"Fig. {figure}, capacities {low}-{high}, g = {f'{rate:.3f}'.removesuffix('0')}"


def experiments(size: Size) -> Experiments:
    """All experiments; at the critical rate queues grow slowly, so the runs are longer."""

    def rules(*names: str) -> dict[str, AgentRule]:
        return {name: _BY_NAME[name] for name in names}

    wide = GridSettings(agents=size.agents, resources=size.resources, ticks=size.ticks)
    short = replace(wide, ticks=size.other_ticks)
    found = {}
    for rate in RATES_OF_FIGURE_2:
        longest = wide if rate == CRITICAL_RATE else short
        tried = rules(RANDOM, LEAST_LOADED, PAPER, PROBING)
        found[group_of(2, rate)] = replace(longest, rate=rate, capacity=_NARROW), tried
    for rate in RATES_OF_FIGURE_3:
        tried = rules(LEAST_LOADED, OPTIMAL_SPLIT, PAPER, PROBING)
        if rate == RATE_OF_DYNAMICS:
            tried |= rules(LEAST_LOADED_IN_TURN) | _LATE
        found[group_of(3, rate)] = replace(wide, rate=rate), tried
    for rate in RATES_OF_RANDOM:
        found[group_of(3, rate)] = replace(wide, rate=rate), rules(RANDOM)
    steady = replace(short, rate=RATE_OF_DYNAMICS)
    for leaving in LEAVING[1:]:
        found[group_of_leaving(leaving)] = replace(steady, leaving=leaving), rules(PAPER, PROBING)
    noisy = {
        with_noise(name, noise): replace(_BY_NAME[name], noise=noise)
        for name in (PAPER, PROBING)
        for noise in NOISE
    }
    return {**found, FIGURE_5: (steady, noisy)}


FIGURE_5 = group_of(5, RATE_OF_DYNAMICS)


def group_of_leaving(leaving: float) -> str:
    """Name of the experiment of Fig. 4 with a leaving probability."""
    return f"{group_of(4, RATE_OF_DYNAMICS)}, leaving {leaving:g}"


def with_noise(name: str, noise: float) -> str:
    """Name of a rule with noise, as Fig. 5 shows it."""
    return f"{name}, noise {noise:g}"


def reproduce(planned: Experiments, seeds: int, store: ResultStore) -> dict[str, Measured]:
    """Run every experiment on seeds 0 to `seeds` - 1; results by group."""
    found = side_by_side(
        lambda task: _figures_on_grid(*task, store),
        [(*each, seed) for each in planned.values() for seed in range(seeds)],
        finished=lambda _, row: store.add(len(row)),
    )
    results = {}
    for place, (group, (settings, rules)) in enumerate(planned.items()):
        rows = found[place * seeds : (place + 1) * seeds]
        of = {
            figure: {name: np.array([row[name][figure] for row in rows]) for name in rules}
            for figure in ("load", "middle", "response", "curve")
        }
        of["curve"] = {name: curves.mean(axis=0) for name, curves in of["curve"].items()}
        results[group] = Measured(**of, ends=ends_of_parts(settings.ticks))
    return results


#: Rule -> its figures in `Measured`, on one grid.
GridFigures = Mapping[str, Mapping[str, Any]]
#: The last 1/END of a run is measured.
END = 6
#: Maximum number of points of a curve.
_POINTS = 150


def ends_of_parts(ticks: int) -> IntArray:
    """Ends of the parts of a run whose mean loads make a curve, ticks; shape [parts]."""
    parts = np.array_split(np.arange(ticks), min(_POINTS, ticks))
    return np.cumsum([len(part) for part in parts])


def _figures_on_grid(
    settings: GridSettings, rules: Mapping[str, AgentRule], seed: int, store: ResultStore
) -> GridFigures:
    stem = stem_of("learning-agents", settings, rules, seed, module=__name__)

    def simulated() -> GridFigures:
        grid = draw_grid(settings, seed)
        return {name: _figures(settings, grid, rule, seed) for name, rule in rules.items()}

    found: GridFigures = store.figures(stem, simulated)
    return found


def _figures(settings: GridSettings, grid: Grid, rule: AgentRule, seed: int) -> dict[str, Any]:
    run = run_grid(settings, grid, rule, seed)
    last = settings.ticks // END
    middle = slice(settings.ticks // 2 - last // 2, settings.ticks // 2 + last // 2)
    counted = grid.tick >= settings.ticks - last
    parts = np.split(run.load, ends_of_parts(settings.ticks)[:-1])
    return {
        "load": float(run.load[-last:].mean()),
        "middle": float(run.load[middle].mean()),
        "response": float(run.response[counted].mean()),
        "curve": [float(part.mean()) for part in parts],
    }


DECLARED = claims.Declared(__package__)
LOAD, RESPONSE = "load", "response (ticks)"
#: Of a load without a steady state, however slowly it grows.
GROWN = "load at the end less that in the middle"
#: A closer factor than that of "similar"; each claim names both.
CLOSE = 1.2
#: Groups whose ratios have no baselines.
_ALONE = (FIGURE_5, group_of(3, RATES_OF_RANDOM[0]))


def rows_of(found: Mapping[str, Measured]) -> Iterator[claims.Row]:
    """The figures with claims, as `claims.toml` lists them, then every load and response.

    At the critical rate of Fig. 2 the slowest resources are overloaded by 1 %: their queues grow
    slowly without end, so the claim is that the mean load grows at all. So it is beyond
    R Cmin / (g N Jav) = 0.025 in Fig. 5: random jobs alone overload the slowest resources.
    """
    for cell in DECLARED.tables["rows"]:
        yield _claimed(found, *cell)
    for group, measured in found.items():
        for rule in measured.load:
            for column, values in ((LOAD, measured.load), (RESPONSE, measured.response)):
                yield claims.row(group, rule, column, values[rule])


def _claimed(found: Mapping[str, Measured], group: str, rule: str, column: str) -> claims.Row:
    """A ratio of means over the same seeds, as its column names it; or the growth, or the load."""
    measured, load = found[group], found[group].load
    values = measured.response if column.startswith("response") else load
    if column in (GROWN, "load, goal"):
        before = measured.middle[rule] if column == GROWN else 0.0
        means = claims.means_of(load)
        return claims.row(group, rule, column, load[rule] - before, baselines=means)
    steady = found[FIGURE_5].load[with_noise(PAPER, 0.0)]
    over = {
        **values,
        "load in the middle": measured.middle[rule],
        "known at once": load.get(PAPER),
        "load without leaving": steady,
        "load without noise": steady,
    }
    to, _, either_way = column.partition(" / ")[2].partition(", ")
    ratio = claims.measure(
        np.array([values[rule], over[to]]), _either_way if either_way else claims.ratio_of_means
    )
    seeds = len(values[rule])
    low, high = (ratio.value, ratio.value) if seeds < claims.FEW_LOGS else ratio.ends
    return claims.row_of(
        *(group, rule, column, ratio),
        logs=seeds,
        baselines={} if group in _ALONE else claims.means_of(values),
        words={  # the factors at which it would keep a bound
            "low": f"{low:.3g}",
            "high": f"{high:.3g}",
            "close_from_below": "also" if low <= CLOSE else "not",
            "close_from_above": "also" if high >= CLOSE else "not",
        },
    )


def _either_way(pair: FloatArray) -> FloatArray:
    """Factor between two means, the larger over the smaller."""
    ratio = claims.ratio_of_means(pair)
    return np.maximum(ratio, 1.0 / ratio)


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


def _draw_rates(found: Mapping[str, Measured], number: int, rates: tuple[float, ...]) -> Any:
    figure, axes = panels([f"g = {rate:.2f}" for rate in rates], (4.3, 4.4), share=True)
    for axis, rate in zip(axes, rates, strict=True):
        measured = found[group_of(number, rate)]
        for name, curve in measured.curve.items():
            colour, style = _STYLES[name]
            axis.plot(measured.ends, curve, style, color=colour, label=name)
    return _finished(figure, axes, logarithmic=number == 3)


def _draw_changes(found: Mapping[str, Measured], *, leaving: bool) -> Any:
    steady = found[FIGURE_5]
    figure, axes = panels([PAPER, PROBING], (5, 4.4), share=True)
    for axis, rule in zip(axes, (PAPER, PROBING), strict=True):
        curves = {f"noise {noise:g}": steady.curve[with_noise(rule, noise)] for noise in NOISE}
        if leaving:
            curves = {f"leaving {LEAVING[0]:g}": steady.curve[with_noise(rule, 0.0)]} | {
                f"leaving {part:g}": found[group_of_leaving(part)].curve[rule]
                for part in LEAVING[1:]
            }
        for colour, (name, curve) in zip(_COLOURS, curves.items(), strict=False):
            axis.plot(steady.ends, curve, color=colour, label=name)
    return _finished(figure, axes, logarithmic=True)


def _finished(figure: Any, axes: Sequence[Any], *, logarithmic: bool) -> Any:
    for axis in axes:  # after all curves: the panels share their axis
        if logarithmic:
            axis.set_yscale("log")
            axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.yaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_minor_formatter(NullFormatter())
        else:
            axis.set_ylim(bottom=0.0)
    return finished(figure, axes, "time (ticks)", "mean load (ticks of work)", columns=5)


def run(asked: Asked) -> Outcome:
    """Simulate every rule on every grid, and judge."""
    seeds = asked.number_of_seeds()
    if asked.traces_given:
        raise ConfigurationError(f"{asked.paper} takes no traces: its grids are generated.")
    size = QUICK if asked.quick else FULL
    planned = experiments(size)
    grids = seeds * sum(len(rules) for _, rules in planned.values())
    with asked.bar("simulating", grids) as add:
        found = reproduce(planned, seeds, ResultStore(asked.models, add))
    judged = DECLARED.claims(rows_of(found))
    return Outcome(
        claims=judged,
        seeds=range(seeds),
        drawings={
            "fig-2-narrow-capacities.png": lambda: _draw_rates(found, 2, RATES_OF_FIGURE_2),
            "fig-3-wide-capacities.png": lambda: _draw_rates(found, 3, RATES_OF_FIGURE_3),
            "fig-4-leaving.png": lambda: _draw_changes(found, leaving=True),
            "fig-5-noise.png": lambda: _draw_changes(found, leaving=False),
        },
        manifest={"size": asdict(size), "claims": [claim.as_json() for claim in judged]},
    )
