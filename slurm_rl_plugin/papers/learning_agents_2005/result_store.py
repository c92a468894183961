"""What every rule of an experiment does on one grid, and a shelf so that none is run twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from slurm_rl_plugin.brokers.agents.grid import Grid, GridSettings, draw_grid
from slurm_rl_plugin.brokers.agents.simulation import AgentRule, run_grid
from slurm_rl_plugin.simulator.kernel.compilation import source_digest
from slurm_rl_plugin.units import IntArray
from slurm_rl_plugin.whole_file import write_whole

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
    curve: tuple[float, ...]


def ends_of_parts(ticks: int) -> IntArray:
    """Where the parts of a run end whose mean loads are a curve, ticks; shape [parts]."""
    parts = np.array_split(np.arange(ticks), min(_POINTS, ticks))
    return np.cumsum([len(part) for part in parts])


class GridShelf:
    """Simulates, and keeps the figures, so that an interrupted run goes on where it was.

    Args:
        folder: of the files; None keeps nothing. A file is of one state of the sources that
            simulate and measure, one grid and the rules on it.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._code = "" if folder is None else f"{source_digest()} {_own_digest()}"

    def take(
        self, settings: GridSettings, rules: Mapping[str, AgentRule], seed: int
    ) -> dict[str, GridFigures]:
        """Rule -> its figures on the grid of a seed, simulated now or before."""
        if self._folder is None:
            return _simulated(settings, rules, seed)
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"learning-agents-{self._digest(settings, rules, seed)}.json"
        if path.is_file():
            kept = json.loads(path.read_text())
            return {
                name: GridFigures(**{**found, "curve": tuple(found["curve"])})
                for name, found in kept.items()
            }
        figures = _simulated(settings, rules, seed)
        kept = {name: asdict(found) for name, found in figures.items()}
        write_whole(path, json.dumps(kept), sync=False)
        return figures

    def _digest(self, settings: GridSettings, rules: Mapping[str, AgentRule], seed: int) -> str:
        told = {name: asdict(rule) for name, rule in rules.items()}
        words = json.dumps([self._code, asdict(settings), told, seed])
        return hashlib.sha256(words.encode()).hexdigest()[:24]


def _own_digest() -> str:
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


def _simulated(
    settings: GridSettings, rules: Mapping[str, AgentRule], seed: int
) -> dict[str, GridFigures]:
    grid = draw_grid(settings, seed)
    return {name: _figures(settings, grid, rule, seed) for name, rule in rules.items()}


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
