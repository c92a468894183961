"""The 2005 paper, "Resource allocation in the Grid with learning agents", run again.

Every rule meets the same grids: capacities and submissions of seed s, for seeds 0 to N - 1. Figures
are means over the last ticks of a run. The paper's "Cmax = 300, Cmin = 700" is read the other way
round, and its utility as Tw + (Texc / J).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

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
from slurm_rl_plugin.papers.study.result_store import ResultStore, stem_of
from slurm_rl_plugin.units import FloatArray, IntArray

#: Rules by the name that tables and figures show.
LATE = ", feedback at completion"
_BY_NAME = {
    name: AgentRule(name=name)
    for name in (RANDOM, LEAST_LOADED, LEAST_LOADED_IN_TURN, OPTIMAL_SPLIT, PAPER, PROBING)
}
_LATE = {name + LATE: replace(_BY_NAME[name], at_completion=True) for name in (PAPER, PROBING)}
_NARROW = (300.0, 700.0)
RATES_OF_FIGURE_2, RATES_OF_FIGURE_3 = (0.13, 0.14, 0.15), (0.18, 0.20, 0.22)
#: R Cmin / (N Jav) = .1485 at 300-700: above it, random choices overload the slowest resources.
CRITICAL_RATE = RATES_OF_FIGURE_2[-1]
#: R Cmin / (N Jav) = .00495 at 10-1000, which the paper rounds to .005; and twice as much.
RATES_OF_RANDOM = (0.005, 0.01)
LEAVING, NOISE = (0.0, 0.001, 0.01, 0.05), (0.0, 0.01, 0.025, 0.05, 0.1)
#: Load of Fig. 4 and 5, which the paper does not print: that of its Fig. 3b.
RATE_OF_DYNAMICS = 0.20


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large a reproduction is.

    Attributes:
        agents, resources: N and R.
        ticks: of Fig. 3, and of Fig. 2 at the critical rate.
        other_ticks: of the rest.
    """

    agents: int = 1000
    resources: int = 250
    ticks: int = 6000
    other_ticks: int = 2000


FULL = Size()
#: To see that it runs; its figures are no reproduction.
QUICK = Size(agents=60, resources=15, ticks=240, other_ticks=120)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Rules on the same grids.

    Attributes:
        group: figure of the paper and its setting.
        settings: of the grids.
        rules: by the name that is shown.
    """

    group: str
    settings: GridSettings
    rules: Mapping[str, AgentRule]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What came of an experiment.

    Attributes:
        load: rule -> mean load of the last ticks, shape [seeds].
        middle: the same of as many ticks in the middle of the run.
        response: rule -> mean response of the jobs submitted in the last ticks, shape [seeds].
        curve: rule -> load, mean over each part of the run and over the seeds, shape [parts].
        ends: of those parts, ticks, shape [parts].
    """

    load: Mapping[str, FloatArray]
    middle: Mapping[str, FloatArray]
    response: Mapping[str, FloatArray]
    curve: Mapping[str, FloatArray]
    ends: IntArray


def group_of(figure: int, rate: float) -> str:
    """Name of the experiment of a figure with a job rate."""
    low, high = (300, 700) if figure == 2 else (10, 1000)
    return f"Fig. {figure}, capacities {low}-{high}, g = {f'{rate:.3f}'.removesuffix('0')}"


def experiments(size: Size) -> list[Experiment]:
    """All that is run."""
    wide = GridSettings(agents=size.agents, resources=size.resources, ticks=size.ticks)
    short = replace(wide, ticks=size.other_ticks)
    return [*_figure_2(short, size.ticks), *_figure_3(wide), *_figure_4(short), _figure_5(short)]


def _figure_2(settings: GridSettings, longer: int) -> Iterator[Experiment]:
    """At the critical rate queues grow slowly, and the runs are longer."""
    rules = {name: _BY_NAME[name] for name in (RANDOM, LEAST_LOADED, PAPER, PROBING)}
    for rate in RATES_OF_FIGURE_2:
        ticks = longer if rate == CRITICAL_RATE else settings.ticks
        narrow = replace(settings, rate=rate, capacity=_NARROW, ticks=ticks)
        yield Experiment(group=group_of(2, rate), settings=narrow, rules=rules)


def _figure_3(settings: GridSettings) -> Iterator[Experiment]:
    rules = {name: _BY_NAME[name] for name in (LEAST_LOADED, OPTIMAL_SPLIT, PAPER, PROBING)}
    for rate in RATES_OF_FIGURE_3:
        if rate == RATE_OF_DYNAMICS:
            more = {LEAST_LOADED_IN_TURN: _BY_NAME[LEAST_LOADED_IN_TURN], **_LATE}
        else:
            more = {}
        wide = replace(settings, rate=rate)
        yield Experiment(group=group_of(3, rate), settings=wide, rules={**rules, **more})
    for rate in RATES_OF_RANDOM:
        few = replace(settings, rate=rate)
        yield Experiment(group=group_of(3, rate), settings=few, rules={RANDOM: _BY_NAME[RANDOM]})


def _figure_4(settings: GridSettings) -> Iterator[Experiment]:
    rules = {name: _BY_NAME[name] for name in (PAPER, PROBING)}
    for leaving in LEAVING[1:]:
        dynamic = replace(settings, rate=RATE_OF_DYNAMICS, leaving=leaving)
        yield Experiment(group=group_of_leaving(leaving), settings=dynamic, rules=rules)


def _figure_5(settings: GridSettings) -> Experiment:
    rules = {
        with_noise(name, noise): replace(_BY_NAME[name], noise=noise)
        for name in (PAPER, PROBING)
        for noise in NOISE
    }
    steady = replace(settings, rate=RATE_OF_DYNAMICS)
    return Experiment(group=FIGURE_5, settings=steady, rules=rules)


FIGURE_5 = group_of(5, RATE_OF_DYNAMICS)


def group_of_leaving(leaving: float) -> str:
    """Name of the experiment of Fig. 4 with a leaving probability."""
    return f"{group_of(4, RATE_OF_DYNAMICS)}, leaving {leaving:g}"


def with_noise(name: str, noise: float) -> str:
    """Name of a rule with noise, as Fig. 5 shows it."""
    return f"{name}, noise {noise:g}"


def steps(size: Size, seeds: int) -> int:
    """Simulated grids, for a progress bar."""
    return seeds * sum(len(each.rules) for each in experiments(size))


def reproduce(
    size: Size, seeds: int, after_run: Callable[[int], None], store: ResultStore, threads: int = 1
) -> dict[str, Measured]:
    """Run every experiment; group -> what came of it.

    Args:
        size: of the grids.
        seeds: 0 to `seeds` - 1.
        after_run: told of simulated grids, how many more, in this thread.
        store: of what was simulated.
        threads: how many grids at a time; the result does not depend on it.
    """
    planned = experiments(size)
    tasks = [(experiment, seed) for experiment in planned for seed in range(seeds)]
    rows: dict[str, list[dict[str, GridFigures]]] = {each.group: [] for each in planned}
    with ThreadPoolExecutor(threads) as pool:
        found = pool.map(
            lambda task: kept_figures(task[0].settings, task[0].rules, task[1], store), tasks
        )
        for (experiment, _), row in zip(tasks, found, strict=True):
            rows[experiment.group].append(row)
            after_run(len(row))
    return {each.group: _together(each, rows[each.group]) for each in planned}


def _together(experiment: Experiment, rows: list[dict[str, GridFigures]]) -> Measured:
    names = list(experiment.rules)
    return Measured(
        load={name: np.array([row[name].load for row in rows]) for name in names},
        middle={name: np.array([row[name].middle for row in rows]) for name in names},
        response={name: np.array([row[name].response for row in rows]) for name in names},
        curve={name: np.mean([row[name].curve for row in rows], axis=0) for name in names},
        ends=ends_of_parts(experiment.settings.ticks),
    )


#: Part of a run at its end that is measured.
END = 6
#: Points of a curve at most.
_POINTS = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class GridFigures:
    """A rule on a grid.

    Attributes:
        load: mean of the last ticks.
        middle: mean of as many ticks in the middle of the run.
        response: mean of the jobs submitted in the last ticks, ticks.
        curve: mean load of each part of the run, see `ends_of_parts`.
    """

    load: float
    middle: float
    response: float
    curve: Sequence[float]


def ends_of_parts(ticks: int) -> IntArray:
    """Where the parts of a run end whose mean loads are a curve, ticks; shape [parts]."""
    parts = np.array_split(np.arange(ticks), min(_POINTS, ticks))
    return np.cumsum([len(part) for part in parts])


def kept_figures(
    settings: GridSettings, rules: Mapping[str, AgentRule], seed: int, store: ResultStore
) -> dict[str, GridFigures]:
    """Rule -> its figures on the grid of a seed, simulated now or before."""
    told = {name: asdict(rule) for name, rule in rules.items()}
    stem = stem_of("learning-agents", asdict(settings), list(told.items()), seed, module=__name__)
    found = store.figures(stem, lambda: _simulated(settings, rules, seed))
    return {name: GridFigures(**each) for name, each in found.items()}


def _simulated(
    settings: GridSettings, rules: Mapping[str, AgentRule], seed: int
) -> dict[str, dict[str, Any]]:
    grid = draw_grid(settings, seed)
    return {name: asdict(_figures(settings, grid, rule, seed)) for name, rule in rules.items()}


def _figures(settings: GridSettings, grid: Grid, rule: AgentRule, seed: int) -> GridFigures:
    run = run_grid(settings, grid, rule, seed)
    last = settings.ticks // END
    middle = slice(settings.ticks // 2 - last // 2, settings.ticks // 2 + last // 2)
    counted = grid.tick >= settings.ticks - last
    parts = np.split(run.load, ends_of_parts(settings.ticks)[:-1])
    return GridFigures(
        load=float(run.load[-last:].mean()),
        middle=float(run.load[middle].mean()),
        response=float(run.response[counted].mean()),
        curve=tuple(float(part.mean()) for part in parts),
    )
