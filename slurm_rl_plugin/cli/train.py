"""`slurm-rl train`: accounting logs become an ONNX model with a manifest and a card."""

from __future__ import annotations

import argparse
from pathlib import Path

from slurm_rl_plugin.cli.log_arguments import add_log_options, read_named_log
from slurm_rl_plugin.cli.progress import progress_bar
from slurm_rl_plugin.cli.tables import print_json, print_table
from slurm_rl_plugin.configuration import read_configuration
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import ESTIMATE_KINDS
from slurm_rl_plugin.learning.policy_search import PolicySearchSettings
from slurm_rl_plugin.learning.training import TrainingPlan, train_model
from slurm_rl_plugin.simulator.dispatch import BACKFILLING


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "logs", metavar="LOG", nargs="+", help="SWF or sacct logs, or mmn:... or egee:..."
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="MODEL.onnx")
    parser.add_argument("--algorithm", choices=["policy-search"], default="policy-search")
    parser.add_argument(
        "--estimates",
        action="append",
        choices=ESTIMATE_KINDS,
        help="what run times the policy believes; repeat to train for several (default: requested)",
    )
    add_log_options(parser)
    parser.add_argument("--backfill", choices=sorted(BACKFILLING), default="none")
    parser.add_argument("--hidden", type=int, default=6, help="hidden units")
    parser.add_argument(
        "--hold", action="store_true", help="also learn how many processors to keep for interactive"
    )
    parser.add_argument("--generations", type=int, default=120)
    parser.add_argument("--windows", type=int, default=2, help="windows taken from each log")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print the manifest as JSON")


def main(options: argparse.Namespace) -> int:
    """Train and say how it compares."""
    plan = _plan(options)
    folder = options.output.resolve().parent
    if not folder.is_dir():
        raise ConfigurationError(f"folder {folder} does not exist: make it, or give another -o.")
    if options.output.suffix != ".onnx":
        raise ConfigurationError(f"-o {options.output} must end in .onnx.")
    with progress_bar("training", options.generations, "objective") as progress:
        _, manifest = train_model(plan, options.output, progress=progress)
    if options.json:
        print_json(manifest)
        return 0
    rows = [[row["policy"], row["objective"]] for row in manifest["validation"]]
    print_table(["POLICY", "OBJECTIVE"], rows)
    print(f"wrote {options.output} with its manifest (.json) and card (.md)")
    return 0


def _plan(options: argparse.Namespace) -> TrainingPlan:
    if min(options.hidden, options.generations, options.windows) < 1:
        raise ConfigurationError("--hidden, --generations and --windows must be at least 1.")
    logs = [read_named_log(each, options) for each in options.logs]
    reward = read_configuration(options.config).reward
    search = PolicySearchSettings(
        hidden=options.hidden,
        generations=options.generations,
        seed=options.seed,
        weights=reward,
        hold=options.hold,
    )
    estimates = options.estimates or ["requested"]
    names = " ".join(log.name for log in logs)
    kinds = " ".join(f"--estimates {kind}" for kind in estimates)
    command = (
        f"slurm-rl train {names} -o {options.output.name} {kinds} --backfill {options.backfill} "
        f"--hidden {options.hidden} --generations {options.generations} "
        f"--windows {options.windows} --seed {options.seed}" + " --hold" * options.hold
    )
    return TrainingPlan(
        logs=[log.prepared for log in logs],
        sources=[log.source for log in logs],
        estimates=estimates,
        backfilling=options.backfill,
        windows=options.windows,
        search=search,
        command=command,
    )
