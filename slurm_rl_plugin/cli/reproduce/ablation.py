"""`slurm-rl reproduce ablation`: what each group of features is worth, held out."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from slurm_rl_plugin.cli.progress import parts_bar
from slurm_rl_plugin.cli.reproduce.claim_tables import print_judged_claims, print_reproduction
from slurm_rl_plugin.cli.reproduce.heldout import study_plan
from slurm_rl_plugin.papers.heldout.ablation import (
    AblatedLog,
    ablate,
    ablation_claims,
    training_steps,
)
from slurm_rl_plugin.papers.heldout.experiment import Plan
from slurm_rl_plugin.papers.study.trained_networks import NetworkShelf

ABLATION = "ablation"


def reproduce_ablation(options: argparse.Namespace, traces: Path | None) -> int:
    """Train every variant, measure, draw and print.

    Args:
        options: of the command line.
        traces: folder with the logs, or None.

    Raises:
        ConfigurationError: no logs, or no seeds.
    """
    plan = study_plan(options, traces)
    with TemporaryDirectory() as temporary:
        found = _ablated(plan, options.models or Path(temporary))
    claims = list(ablation_claims(found))
    figures = [] if options.plot is None else _drawn(options.plot, found)
    facts = {"best_heuristic": {name: log.best for name, log in found.items()}}
    print_reproduction(options, range(plan.seeds), claims, figures, print_judged_claims, facts)
    return 0


def _ablated(plan: Plan, models: Path) -> dict[str, AblatedLog]:
    with parts_bar("training and measuring", training_steps(plan)) as add:
        return ablate(plan, NetworkShelf(models, add), lambda: add(1))


def _drawn(folder: Path, found: Mapping[str, AblatedLog]) -> list[str]:
    from slurm_rl_plugin.papers.heldout.ablation_figure import (  # noqa: PLC0415 - matplotlib is heavy
        draw_ablation,
    )

    return draw_ablation(folder, found)
