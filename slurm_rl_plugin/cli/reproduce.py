"""`slurm-rl reproduce`: run a paper's experiment again, its figures beside ours."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slurm_rl_plugin.cli.progress import progress_bar
from slurm_rl_plugin.cli.tables import print_json, print_table
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.reproduce import heuristics, rlscheduler
from slurm_rl_plugin.reproduce.claims import Claim
from slurm_rl_plugin.reproduce.sampled_claims import SampledClaim

#: Where the traces are when the command line does not say it.
_TRACES_VARIABLE = "SLURM_RL_TRACES"
_DEFAULT_SEEDS = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("paper", choices=("rlscheduler", "heuristics"), help="which experiment")
    parser.add_argument(
        "traces",
        nargs="?",
        type=Path,
        metavar="TRACES_DIR",
        help=f"directory of the paper's job logs (default: ${_TRACES_VARIABLE})",
    )
    parser.add_argument(
        "--seeds",
        type=int,
        metavar="N",
        help=f"generated logs of each kind, for heuristics (default: {_DEFAULT_SEEDS})",
    )
    parser.add_argument("--plot", type=Path, metavar="DIR", help="draw the comparison as PNG")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def main(options: argparse.Namespace) -> int:
    """Reproduce and print."""
    if options.paper == "heuristics":
        return _reproduce_heuristics(options)
    if options.seeds is not None:
        raise ConfigurationError("--seeds is for heuristics: rlscheduler's sequences are given.")
    claims = rlscheduler.reproduce(_traces(options.traces))
    document: dict[str, Any] = {
        "paper": options.paper,
        "seeds": list(rlscheduler.SEQUENCE_STARTS),
        "claims": [claim.as_json() for claim in claims],
        "figures": [] if options.plot is None else [_plot(options.plot, claims)],
    }
    if options.json:
        print_json(document)
    else:
        _print_claims(claims)
    return 0


def _reproduce_heuristics(options: argparse.Namespace) -> int:
    seeds = _DEFAULT_SEEDS if options.seeds is None else options.seeds
    if seeds < 2:
        raise ConfigurationError(f"--seeds {seeds}: a standard error needs at least 2.")
    named = options.traces or os.environ.get(_TRACES_VARIABLE)
    if not named:
        sys.stderr.write("No traces are named: the segments of LPC-EGEE are left out.\n")
    folder = Path(named) if named else None
    logs = heuristics.steps(seeds, with_segments=folder is not None)
    with progress_bar("simulating", logs, "fifo_mean_wait") as progress:
        claims = heuristics.reproduce(seeds, folder, progress)
    figures = [] if options.plot is None else _plot_heuristics(options.plot, claims)
    if options.json:
        document: dict[str, Any] = {
            "paper": options.paper,
            "seeds": list(range(seeds)),
            "claims": [claim.as_json() for claim in claims],
            "figures": figures,
        }
        print_json(document)
    else:
        _print_sampled_claims(claims)
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


def _print_sampled_claims(claims: Sequence[SampledClaim]) -> None:
    rows = []
    for claim in claims:
        printed, measured = claim.printed, claim.measured
        error = None if measured.standard_error is None else f"{measured.standard_error:.2g}"
        text = None if printed is None else printed.text
        rows.append([claim.name, text, measured.value, error, claim.because])
    print_table(["CELL", "EARLIER", "MEASURED", "ERROR", "BECAUSE"], rows)
    verdicts = [claim.reproduces for claim in claims if claim.reproduces is not None]
    print(f"\n{sum(verdicts)} of {len(verdicts)} reproduce. What is known of the others:")
    differing = [claim for claim in claims if claim.reproduces is False]
    for remark in dict.fromkeys(claim.remark for claim in differing if claim.remark):
        cells = sum(claim.remark == remark for claim in differing)
        print(f"* {cells} {'cell' if cells == 1 else 'cells'}: {remark}.")


def _plot(folder: Path, claims: Sequence[Claim]) -> str:
    from slurm_rl_plugin.reproduce.comparison_figure import (  # noqa: PLC0415 - matplotlib is heavy
        draw_comparison,
    )

    path = folder / "rlscheduler.png"
    slowdowns = [claim for claim in claims if "mean wait" not in claim.cell]
    draw_comparison(path, slowdowns, "mean bounded slowdown")
    return str(path)


def _plot_heuristics(folder: Path, claims: Sequence[SampledClaim]) -> list[str]:
    from slurm_rl_plugin.reproduce.comparison_figure import (  # noqa: PLC0415 - matplotlib is heavy
        draw_comparison,
    )

    figures = {
        "mean waits (s)": ("mean wait", "interactive mean wait", "batch mean wait"),
        "fractions": ("interactive within 120 s", "U", "R", "J"),
    }
    paths = [folder / "heuristics-waits.png", folder / "heuristics-fractions.png"]
    for path, (quantity, columns) in zip(paths, figures.items(), strict=True):
        drawn = [
            Claim(
                group=claim.group,
                cell=f"{claim.policy}, {claim.column}",
                published=claim.printed.value,
                measured=claim.measured.value,
            )
            for claim in claims
            if claim.printed is not None and claim.column in columns
        ]
        draw_comparison(path, drawn, quantity)
    return [str(path) for path in paths]
