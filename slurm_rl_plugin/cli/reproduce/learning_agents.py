"""`slurm-rl reproduce learning-agents`: many independent agents share a grid (2005)."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from slurm_rl_plugin import __version__
from slurm_rl_plugin.cli.progress import parts_bar
from slurm_rl_plugin.cli.reproduce.claim_tables import print_judged_claims, print_reproduction
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.learning.export.manifest import file_checksum, write_manifest
from slurm_rl_plugin.papers.learning_agents_2005.claims import claims_of
from slurm_rl_plugin.papers.learning_agents_2005.experiment import (
    FULL,
    QUICK,
    Measured,
    Size,
    reproduce,
    steps,
)
from slurm_rl_plugin.papers.learning_agents_2005.result_store import GridShelf
from slurm_rl_plugin.papers.study.sampled_claims import SampledClaim

LEARNING_AGENTS = "learning-agents"
_SEEDS = 30


def reproduce_learning_agents(options: argparse.Namespace, folder: Path | None = None) -> int:
    """Simulate, judge, draw and print.

    Args:
        options: of the command line.
        folder: of traces; none is needed.

    Raises:
        ConfigurationError: too few seeds, or options that are for other papers.
    """
    del folder
    seeds = _SEEDS if options.seeds is None else options.seeds
    if seeds < 2:
        raise ConfigurationError(f"--seeds {seeds}: an interval over the seeds needs at least 2.")
    if options.policy or options.traces:
        raise ConfigurationError(
            f"{LEARNING_AGENTS} takes no traces and no --policy: its grids are generated."
        )
    size = QUICK if options.quick else FULL
    with parts_bar("simulating", steps(size, seeds)) as add:
        shelf = GridShelf(options.models)
        found = reproduce(size, seeds, add, shelf, threads=os.cpu_count() or 1)
    claims = claims_of(found)
    figures = [] if options.plot is None else _drawn(options.plot, found)
    if options.plot is not None:
        _write_manifest(options.plot, size, seeds, claims, figures)
    print_reproduction(options, range(seeds), claims, figures, print_judged_claims)
    return 0


def _drawn(folder: Path, found: Mapping[str, Measured]) -> list[str]:
    from slurm_rl_plugin.papers.learning_agents_2005.figures import (  # noqa: PLC0415 - matplotlib is heavy
        draw_learning_agents,
    )

    return draw_learning_agents(folder, found)


def _write_manifest(
    folder: Path, size: Size, seeds: int, claims: Sequence[SampledClaim], figures: Sequence[str]
) -> None:
    words = ["slurm-rl", "reproduce", LEARNING_AGENTS, "--seeds", str(seeds)]
    write_manifest(
        folder / f"{LEARNING_AGENTS}.json",
        {
            "command": shlex.join([*words, *(["--quick"] if size == QUICK else [])]),
            "version": __version__,
            "size": asdict(size),
            "claims": [claim.as_json() for claim in claims],
            "sha256": {Path(path).name: file_checksum(Path(path)) for path in figures},
        },
    )
