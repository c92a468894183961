"""`slurm-rl reproduce` where networks are trained: two papers, and what goes beyond them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from slurm_rl_plugin.cli.assembly.hook import model_path
from slurm_rl_plugin.cli.progress import progress_bar
from slurm_rl_plugin.cli.reproduce.claim_tables import print_judged_claims, print_reproduction
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.reactive_grid import REACTIVE_GRID
from slurm_rl_plugin.learning.export.network import import_network
from slurm_rl_plugin.papers.study.effort import FULL, QUICK
from slurm_rl_plugin.papers.study.trained_networks import NetworkShelf
from slurm_rl_plugin.policies.network import QNetwork

LEARNED_PAPERS = ("reactive-grids", "non-markovian", "responsive-reserve")
DEFAULT_SEEDS = 30


def reproduce_learned(options: argparse.Namespace, traces: Path | None) -> int:
    """Train, measure, draw and print.

    Args:
        options: of the command line.
        traces: folder with LPC-EGEE, or None.

    Raises:
        ConfigurationError: options that do not go together, or no LPC-EGEE in the folder.
    """
    seeds = DEFAULT_SEEDS if options.seeds is None else options.seeds
    if seeds < 2:
        raise ConfigurationError(f"--seeds {seeds}: an interval over the seeds needs at least 2.")
    if traces is None:
        sys.stderr.write("No traces are named: the parts on LPC-EGEE are left out.\n")
    run = {
        "reactive-grids": _reactive_grids,
        "non-markovian": _non_markovian,
        "responsive-reserve": _responsive_reserve,
    }[options.paper]
    with _models(options.models) as folder:
        effort = QUICK if options.quick else FULL
        size = {"seeds": seeds, "traces": traces, "effort": effort}
        claims, figures = run(options, size, _Folders(folder, options.plot))
    print_reproduction(options, range(seeds), claims, figures, print_judged_claims)
    return 0


@contextmanager
def _models(named: Path | None) -> Iterator[Path]:
    if named is not None:
        yield named
        return
    with TemporaryDirectory() as folder:
        yield Path(folder)


class _Folders(NamedTuple):
    """Where networks are kept, and where figures go, if any are wanted."""

    models: Path
    figures: Path | None


class _Steps:
    """Counts logs and training steps for the progress bar."""

    def __init__(self, progress: Any, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def add(self, steps: int) -> None:
        self._done += steps
        self._progress(self._done, self._done / self._total)

    def add_log(self) -> None:
        self.add(1)


def _run(
    plan: Any, reproduce: Callable[..., Any], draw: Callable[..., list[str]], options: _Folders
) -> tuple[Any, list[str]]:
    """Run a plan behind a progress bar; its claims and the paths of its figures."""
    with progress_bar("training and simulating", plan.steps, "part") as progress:
        steps = _Steps(progress, plan.steps)
        found = reproduce(plan, NetworkShelf(options.models, steps.add), steps.add_log)
    return found.claims, [] if options.figures is None else draw(options.figures, found)


def _reactive_grids(
    options: argparse.Namespace, size: Mapping[str, Any], folders: _Folders
) -> tuple[Any, list[str]]:
    from slurm_rl_plugin.papers.reactive_grids_2008 import experiment as reactive_grids  # noqa: PLC0415
    from slurm_rl_plugin.papers.reactive_grids_2008 import figures as reactive_grid_figures  # noqa: PLC0415

    policy = None if options.policy is None else _given_network(options.policy)
    plan = reactive_grids.Plan(**size, policy=policy)
    draw = reactive_grid_figures.draw_reactive_grids
    return _run(plan, reactive_grids.reproduce, draw, folders)


def _given_network(path: Path) -> QNetwork:
    network = import_network(path)
    if network.schema != REACTIVE_GRID:
        raise ConfigurationError(
            f"model {path} is of schema {network.schema.name}: give one of {REACTIVE_GRID.name}, "
            "which `slurm-rl train --algorithm sarsa` writes."
        )
    return network


def _non_markovian(
    options: argparse.Namespace, size: Mapping[str, Any], folders: _Folders
) -> tuple[Any, list[str]]:
    from slurm_rl_plugin.papers.non_markovian_2011 import experiment as non_markovian  # noqa: PLC0415
    from slurm_rl_plugin.papers.non_markovian_2011 import figures as non_markovian_figures  # noqa: PLC0415

    if options.policy is not None:
        raise ConfigurationError("--policy is not for non-markovian: it compares four networks.")
    plan = non_markovian.Plan(**size)
    return _run(plan, non_markovian.reproduce, non_markovian_figures.draw_non_markovian, folders)


def _responsive_reserve(
    options: argparse.Namespace, size: Mapping[str, Any], folders: _Folders
) -> tuple[Any, list[str]]:
    from slurm_rl_plugin.papers.responsive_reserve import experiment as responsive_reserve  # noqa: PLC0415
    from slurm_rl_plugin.papers.responsive_reserve import figure as responsive_reserve_figure  # noqa: PLC0415

    reserve = import_network(options.policy or model_path("responsive-reserve"))
    plan = responsive_reserve.Plan(**size, reserve=reserve)
    draw = responsive_reserve_figure.draw_responsive_reserve
    return _run(plan, responsive_reserve.reproduce, draw, folders)
