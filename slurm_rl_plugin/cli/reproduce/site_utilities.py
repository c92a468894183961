"""`slurm-rl reproduce site-utilities`: brokers over three simulated sites, side by side."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from slurm_rl_plugin import __version__
from slurm_rl_plugin.cli.assembly.hook import model_path
from slurm_rl_plugin.cli.progress import parts_bar
from slurm_rl_plugin.cli.reproduce.claim_tables import print_judged_claims, print_reproduction
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.learning.export.manifest import file_checksum, write_manifest
from slurm_rl_plugin.learning.export.network import import_network

if TYPE_CHECKING:
    from slurm_rl_plugin.papers.site_utilities_2008.experiment import SiteUtilities

SITE_UTILITIES = "site-utilities"
DEFAULT_SEEDS = 30
#: The local scheduler of every site: the network of the 2008 paper.
_LOCAL = "reactive-grids"


def reproduce_site_utilities(options: argparse.Namespace, traces: Path | None) -> int:
    """Fit, route, draw and print.

    Args:
        options: of the command line.
        traces: folder with LPC-EGEE, or None.

    Raises:
        ConfigurationError: no folder, no LPC-EGEE in it, or too few seeds.
    """
    if traces is None:
        raise ConfigurationError(
            "no traces: give the directory of LPC-EGEE, or name it in SLURM_RL_TRACES."
        )
    seeds = DEFAULT_SEEDS if options.seeds is None else options.seeds
    if seeds < 2:
        raise ConfigurationError(f"--seeds {seeds}: an interval over the seeds needs at least 2.")
    local = Path(options.policy or model_path(_LOCAL))
    with TemporaryDirectory() as temporary:
        found = _reproduced(options, traces, seeds, local, options.models or Path(temporary))
    facts = {"local_scheduler": file_checksum(local), "models": dict(found.models)}
    figures = [] if options.plot is None else _drawn(options.plot, found)
    if figures:
        words = ["slurm-rl", "reproduce", SITE_UTILITIES, str(traces), "--seeds", str(seeds)]
        if options.quick:
            words.append("--quick")  # whose figures are no reproduction
        command = shlex.join(words)
        _write_manifest(options.plot, figures, {"command": command, "seeds": seeds, **facts})
    print_reproduction(options, range(seeds), found.claims, figures, print_judged_claims, facts)
    return 0


def _reproduced(
    options: argparse.Namespace, traces: Path, seeds: int, local: Path, models: Path
) -> SiteUtilities:
    from slurm_rl_plugin.papers.site_utilities_2008.experiment import (  # noqa: PLC0415 - compiles the simulator
        Plan,
        reproduce,
    )
    from slurm_rl_plugin.papers.site_utilities_2008.models import (  # noqa: PLC0415
        FULL_SIZE,
        QUICK_SIZE,
    )

    plan = Plan(
        seeds=seeds,
        traces=traces,
        network=import_network(local),
        models=models,
        size=QUICK_SIZE if options.quick else FULL_SIZE,
    )
    with parts_bar("fitting and routing", plan.steps) as add:
        return reproduce(plan, lambda: add(1))


def _drawn(folder: Path, found: SiteUtilities) -> list[str]:
    from slurm_rl_plugin.papers.site_utilities_2008.figures import (  # noqa: PLC0415 - matplotlib
        draw_site_utilities,
    )

    return draw_site_utilities(folder, found)


def _write_manifest(folder: Path, figures: list[str], facts: dict[str, Any]) -> None:
    """Beside the figures: what they were made of."""
    drawn = {Path(path).name: file_checksum(Path(path)) for path in figures}
    manifest = {"version": __version__, "figures": drawn, **facts}
    write_manifest(folder / f"{SITE_UTILITIES}.json", manifest)
