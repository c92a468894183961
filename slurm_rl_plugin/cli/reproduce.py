"""`slurm-rl reproduce`: run a paper's experiment again, its figures beside ours."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slurm_rl_plugin.cli.tables import print_json, print_table
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.reproduce.claims import Claim
from slurm_rl_plugin.reproduce.rlscheduler import SEQUENCE_STARTS, reproduce

#: Where the traces are when the command line does not say it.
_TRACES_VARIABLE = "SLURM_RL_TRACES"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("paper", choices=("rlscheduler",), help="whose experiment")
    parser.add_argument(
        "traces",
        nargs="?",
        type=Path,
        metavar="TRACES_DIR",
        help=f"directory of the paper's job logs (default: ${_TRACES_VARIABLE})",
    )
    parser.add_argument("--plot", type=Path, metavar="DIR", help="draw the comparison as PNG")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def main(options: argparse.Namespace) -> int:
    """Reproduce and print."""
    claims = reproduce(_traces(options.traces))
    document: dict[str, Any] = {
        "paper": options.paper,
        "seeds": list(SEQUENCE_STARTS),
        "claims": [claim.as_json() for claim in claims],
        "figures": [] if options.plot is None else [_plot(options.plot, claims)],
    }
    if options.json:
        print_json(document)
    else:
        _print_claims(claims)
    return 0


def _traces(given: Path | None) -> Path:
    folder = given or os.environ.get(_TRACES_VARIABLE)
    if not folder:
        raise ConfigurationError(
            f"no traces: give their directory, or name it in the variable {_TRACES_VARIABLE}."
        )
    return Path(folder)


def _print_claims(claims: Sequence[Claim]) -> None:
    rows = []
    for claim in claims:
        places = claim.decimals
        figures = [f"{claim.published:.{places}f}", f"{claim.measured:.{places}f}"]
        difference = f"{claim.difference:.{places}f}"
        rows.append([claim.name, claim.source, *figures, difference, claim.because])
    print_table(["CELL", "SOURCE", "PUBLISHED", "MEASURED", "DIFFERENCE", "BECAUSE"], rows)
    count = sum(claim.reproduces for claim in claims)
    print(f"\n{count} of {len(claims)} reproduce.")


def _plot(folder: Path, claims: Sequence[Claim]) -> str:
    from slurm_rl_plugin.reproduce.comparison_figure import (  # noqa: PLC0415 - matplotlib is heavy
        draw_comparison,
    )

    path = folder / "rlscheduler.png"
    slowdowns = [claim for claim in claims if "mean wait" not in claim.cell]
    draw_comparison(path, slowdowns, "mean bounded slowdown")
    return str(path)
