"""What every rule of an experiment does on one grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from slurm_rl_plugin.brokers.agents.grid import Grid, GridSettings, draw_grid
from slurm_rl_plugin.brokers.agents.simulation import AgentRule, run_grid
from slurm_rl_plugin.papers.study.result_store import ResultStore, stem_of
from slurm_rl_plugin.units import IntArray

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
