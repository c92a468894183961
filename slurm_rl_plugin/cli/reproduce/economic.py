"""`slurm-rl reproduce economic`: the market of 2002 against FCFS and EASY."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from slurm_rl_plugin import __version__
from slurm_rl_plugin.cli.progress import parts_bar
from slurm_rl_plugin.cli.reproduce.claim_tables import print_judged_claims, print_reproduction
from slurm_rl_plugin.cli.tables import print_table
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.papers.economic_2002.claims import economic_claims
from slurm_rl_plugin.papers.economic_2002.experiment import Economic, Plan, reproduce
from slurm_rl_plugin.papers.economic_2002.logs import checked_seeds
from slurm_rl_plugin.papers.economic_2002.result_store import CellShelf
from slurm_rl_plugin.papers.economic_2002.table import combination_rows

ECONOMIC = "economic"
DEFAULT_ECONOMIC_SEEDS = 30


def reproduce_economic(options: argparse.Namespace, traces: Path | None) -> int:
    """Simulate, draw and print.

    Args:
        options: of the command line.
        traces: folder with CTC-SP2, or None.

    Raises:
        ConfigurationError: no CTC-SP2, too few seeds, or an option of other papers.
    """
    if options.policy is not None:
        raise ConfigurationError("--policy is not for economic: it has no network.")
    if traces is None:
        raise ConfigurationError("economic needs CTC-SP2: give the directory of the traces.")
    seeds = checked_seeds(DEFAULT_ECONOMIC_SEEDS if options.seeds is None else options.seeds)
    plan = Plan(traces=traces, seeds=len(seeds), quick=options.quick)
    with parts_bar("simulating", plan.steps) as add:
        found = reproduce(plan, lambda: CellShelf(options.models, add))
    claims = economic_claims(found)
    figures = [] if options.plot is None else _drawn(options.plot, plan, found)
    facts = {"combinations": list(combination_rows(found))}
    judged = [claim for claim in claims if claim.printed is not None]
    print_reproduction(
        options, seeds, claims if options.json else judged, figures, print_judged_claims, facts
    )
    if not options.json:
        _print_combinations(facts["combinations"])
    return 0


def _print_combinations(rows: list[dict[str, Any]]) -> None:
    print("\nAWRT over EASY's with user estimates:")
    print_table(
        ["WORKLOAD", "MACHINES", "WAY", "MF", "UF1", "UF2", "UF3", "UF4", "UF5"],
        [
            [row["workload"], row["machines"], row["way"], row["owner"]]
            + [f"{row[user]:.4f}" for user in ("UF1", "UF2", "UF3", "UF4", "UF5")]
            for row in rows
        ],
    )


def _drawn(folder: Path, plan: Plan, found: Economic) -> list[str]:
    from slurm_rl_plugin.papers.economic_2002.figures import (  # noqa: PLC0415 - matplotlib is heavy
        draw_economic,
    )

    return draw_economic(folder, plan, found, __version__)
