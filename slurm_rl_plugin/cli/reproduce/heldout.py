"""`slurm-rl reproduce heldout`: learned orders against the best simple rule, held out."""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from slurm_rl_plugin.cli.progress import parts_bar
from slurm_rl_plugin.cli.reproduce.claim_tables import print_judged_claims, print_reproduction
from slurm_rl_plugin.cli.tables import print_table
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.learning.evaluation.heldout import WindowFigures
from slurm_rl_plugin.learning.evaluation.paired_windows import ratio_over_windows
from slurm_rl_plugin.papers.heldout.experiment import LogStudy, Plan, study_claims, study_log
from slurm_rl_plugin.papers.heldout.logs import read_study_logs
from slurm_rl_plugin.papers.heldout.networks import QUICK_STUDY, StudySize
from slurm_rl_plugin.papers.study.trained_networks import NetworkShelf
from slurm_rl_plugin.units import HOUR

HELDOUT_STUDY = "heldout"
DEFAULT_STUDY_SEEDS = 5


def reproduce_heldout(options: argparse.Namespace, traces: Path | None) -> int:
    """Train, measure, draw and print.

    Args:
        options: of the command line.
        traces: folder with the logs, or None.

    Raises:
        ConfigurationError: no logs, or no seeds.
    """
    plan = study_plan(options, traces)
    with TemporaryDirectory() as temporary:
        studies = _studies(plan, options.models or Path(temporary))
    claims = list(study_claims(studies))
    figures = [] if options.plot is None else _drawn(options.plot, studies)
    facts = {"logs": {name: _facts(study) for name, study in studies.items()}}
    print_reproduction(options, range(plan.seeds), claims, figures, print_judged_claims, facts)
    if not options.json:
        _print_studies(studies)
    return 0


def study_plan(options: argparse.Namespace, traces: Path | None) -> Plan:
    """What a study on the logs of parallel machines is asked to train.

    Raises:
        ConfigurationError: no logs, or no seeds.
    """
    seeds = DEFAULT_STUDY_SEEDS if options.seeds is None else options.seeds
    if seeds < 1:
        raise ConfigurationError(f"--seeds {seeds}: give at least 1.")
    if traces is None:
        raise ConfigurationError(f"{options.paper} needs logs: give the directory of the traces.")
    if options.policy is not None:
        raise ConfigurationError(
            f"--policy is not for {options.paper}: it trains its networks itself."
        )
    size = QUICK_STUDY if options.quick else StudySize()
    return Plan(logs=read_study_logs(traces), seeds=seeds, size=size)


def _studies(plan: Plan, models: Path) -> dict[str, LogStudy]:
    with parts_bar("training and measuring", plan.steps) as add:
        shelf = NetworkShelf(models, add)
        return {name: study_log(name, plan, shelf, lambda: add(1)) for name in plan.logs}


def _facts(study: LogStudy) -> dict[str, Any]:
    """What was chosen on the past of a log, and what the hook does to the scores."""
    plain = study.effects["as it decides"]
    return {
        "best_heuristic": study.best,
        "training_bounded_slowdown": study.training_slowdown,
        "reserves": study.reserves,
        "starvation_hours": study.starvation,
        "effects": {
            label: _effect(each, plain, study.block) for label, each in study.effects.items()
        },
    }


def _effect(figures: WindowFigures, plain: WindowFigures, block: int) -> dict[str, Any]:
    ratio = ratio_over_windows(
        figures.bounded_slowdown, plain.bounded_slowdown, np.random.default_rng(0), block=block
    )
    return {
        "mean_bounded_slowdown": float(figures.bounded_slowdown.mean()),
        "to_as_it_decides": ratio.geometric_mean,
        "ci95": None if ratio.ci95 is None else list(ratio.ci95),
        "mean_max_wait": float(figures.max_wait.mean()),
    }


def _print_studies(studies: dict[str, LogStudy]) -> None:
    for name, study in studies.items():
        facts = _facts(study)
        print(
            f"\n{name}: best rule of the past {study.best}; part kept free of batch work, by seed: "
            f"{', '.join(f'{part:g}' for part in study.reserves)}; starvation bound "
            f"{study.starvation:g} h"
        )
        rows = []
        for label, each in facts["effects"].items():
            interval = "-" if each["ci95"] is None else "{:.3f}-{:.3f}".format(*each["ci95"])
            row = [label, each["mean_bounded_slowdown"], each["to_as_it_decides"], interval]
            rows.append([*row, each["mean_max_wait"] / HOUR])
        print_table(["HOOK", "BSLD", "TO AS IT DECIDES", "(95 %)", "MAXWAIT-H"], rows)


def _drawn(folder: Path, studies: dict[str, LogStudy]) -> list[str]:
    from slurm_rl_plugin.papers.heldout.figures import (  # noqa: PLC0415 - matplotlib is heavy
        draw_heldout,
    )

    return draw_heldout(folder, studies)
