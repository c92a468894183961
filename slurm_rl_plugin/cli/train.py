"""`slurm-rl train`: accounting logs become an ONNX model with a manifest and a card."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from slurm_rl_plugin.cli.argument_types import add_seed_option, at_least_one, result_file
from slurm_rl_plugin.cli.evaluate import HELDOUT
from slurm_rl_plugin.cli.log_arguments import (
    add_log_options,
    add_reserve_option,
    class_limit_of,
    read_named_logs,
    sampled,
)
from slurm_rl_plugin.cli.progress import progress_bar, resumable, say_of_compiling
from slurm_rl_plugin.cli.tables import answer, print_table
from slurm_rl_plugin.cli.this_cluster import SLURM, print_origin
from slurm_rl_plugin.configuration import read_configuration
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.evaluation.named_log import LogOptions, NamedLog, configured_classifier
from slurm_rl_plugin.features.estimates import ESTIMATE_KINDS
from slurm_rl_plugin.learning.algorithms import ALGORITHMS, PRESETS, Settings, settings_of
from slurm_rl_plugin.learning.onnx_file import import_network
from slurm_rl_plugin.learning.sarsa import SarsaSettings
from slurm_rl_plugin.learning.training import TrainingPlan, train_model
from slurm_rl_plugin.learning.training_load import TrainedPolicy
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.policies.registry import named_policy
from slurm_rl_plugin.services.hook import model_path
from slurm_rl_plugin.simulator.kernel.class_limit import LIMIT
from slurm_rl_plugin.simulator.kernel.dispatch import BACKFILLING
from slurm_rl_plugin.simulator.kernel.kept_code import compiled_before
from slurm_rl_plugin.simulator.workloads.log_workload import PAST_WORK

#: Windows taken from either part of a log.
_RUNS = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The logs, the algorithm with its settings, and where model and figures go."""
    parser.add_argument(
        "logs",
        metavar="LOG",
        nargs="*",
        help="accounting logs, files of `convert`, or generators mmn:... or egee:...; after an @ a "
        "part of it or another load; not with --from slurm",
    )
    parser.add_argument(
        *("-o", "--output"),
        type=Path,
        required=True,
        metavar="MODEL.onnx",
        help="the model to write, with its manifest (.json) and card (.md)",
    )
    parser.add_argument(
        "--algorithm",
        choices=list(ALGORITHMS),
        default="policy-search",
        help="training algorithm (default: policy-search)",
    )
    parser.add_argument(
        "--preset",
        choices=PRESETS,
        help="paper: the settings of the paper; slowdown: for parallel machines",
    )
    parser.add_argument(
        "--estimates",
        action="append",
        choices=ESTIMATE_KINDS,
        help="run times that the policy assumes; may be repeated (default: requested)",
    )
    add_log_options(
        parser,
        or_model=True,
        config="configuration file with [goals], [reward], job-class rules and shares",
    )
    parser.add_argument(
        "--backfill",
        choices=sorted(BACKFILLING),
        help="simulated backfilling (default: none)",
    )
    add_reserve_option(parser)
    parser.add_argument("--hidden", type=at_least_one, metavar="N", help="hidden units")
    parser.add_argument(
        "--steps", type=at_least_one, metavar="N", help="generations, sweeps, iterations or rounds"
    )
    parser.add_argument(
        "--hold", action="store_true", help="also learn how many processors to keep free"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="setting of the algorithm, such as epsilon=0.3 or reward=literal; may be repeated",
    )
    parser.add_argument(
        "--runs",
        type=at_least_one,
        metavar="N",
        help=f"training runs through each log, each without 2 %% of the jobs (default: {_RUNS})",
    )
    add_seed_option(parser)
    parser.add_argument(
        "--seeds",
        type=at_least_one,
        default=1,
        metavar="N",
        help="train N times, from --seed on, and keep the model that validates best",
    )
    parser.add_argument(
        "--protocol",
        choices=[HELDOUT],
        help="heldout: do not use the last 40 %% of each LOG; if no training beats the best rule, "
        "the model is that rule",
    )
    parser.add_argument("--plot", type=Path, metavar="DIR", help="draw the learning curve as PNG")
    parser.add_argument("--json", action="store_true", help="print the manifest as JSON")


def main(options: argparse.Namespace) -> int:
    """Train, and print how the model compares."""
    if options.output.suffix != ".onnx":
        raise ConfigurationError(f"-o {options.output} must end in .onnx.")
    options.output = result_file("-o", options.output)
    _check_protocol(options)
    settings = _settings(options)
    start = None if options.start is None else _start(options.start)
    logs = read_named_logs([sampled(each) for each in options.logs], LogOptions.of(options))
    for log in () if options.json else logs:
        print_origin(log.origin, log.whence, log.prepared)
        print(f"{log.name}: {log.shares_sentence}")
    if isinstance(settings, SarsaSettings) and settings.pretraining == "recorded":
        logs = [log.with_starts() for log in logs]
    settings = _without_fairness(options, logs, settings)
    plan = _plan(options, logs, settings, start)
    how = ALGORITHMS[plan.algorithm]
    say_of_compiling(compiled_before)
    begin = time.monotonic()
    kept = options.output.with_name(f"{options.output.name}.checkpoint")
    bar = progress_bar("training", plan.steps, how.measure)
    with resumable(kept, several=True), bar as progress:
        trained, manifest = train_model(plan, options.output, progress=progress)
    seconds = time.monotonic() - begin
    if options.plot is not None:
        from slurm_rl_plugin.evaluation.figures import draw_learning_curve  # noqa: PLC0415 - matplotlib

        name = options.output.stem
        path = options.plot / f"{name}-learning-curve.png"
        draw_learning_curve(path, trained.curve, how.steps[1], name, how.measure)
    rows = [[row["policy"], row["objective"]] for row in manifest["validation"]]

    def show() -> None:
        print_table(["POLICY", how.measure.upper()], rows)
        for line in _told(manifest, trained):
            print(line)
        print(f"trained in {seconds:.0f} s on {trained.simulated_jobs:,} simulated jobs")
        print(f"wrote {options.output} with its manifest (.json) and card (.md)")

    return answer(options, manifest, show)


def _start(model: str) -> QNetwork:
    """The network to start from, by its path or as one that is shipped."""
    named = named_policy(model)
    if named is not None and named.is_rule:
        raise ConfigurationError(
            f"--from {model}: a rule is no network to start from: give a model, or the rule in "
            "--set start=RULE (policy-search) or --set order=RULE (site-utility)."
        )
    return import_network(model_path(model))


def _without_fairness(
    options: argparse.Namespace, logs: list[NamedLog], settings: Settings
) -> Settings:
    """The settings without the weight of fairness if the shares of a recorded log are derived."""
    derived = [
        log.name for log in logs if log.prepared.shares_from == PAST_WORK and log.is_recorded
    ]
    if options.config is None or not derived or settings.weights.fairness == 0.0:
        return settings
    print(
        f"slurm-rl: [reward] fairness has no weight in this training: shares of "
        f"{', '.join(derived)} are derived from past work.",
        file=sys.stderr,
    )
    return dataclasses.replace(settings, weights=settings.weights.without_fairness())


def _settings(options: argparse.Namespace) -> Settings:
    changes: dict[str, str] = {}
    for text in options.set:
        key, sign, value = text.partition("=")
        if not sign:
            raise ConfigurationError(f"--set {text}: write name=value.")
        changes[key.strip()] = value.strip()
    counted = ALGORITHMS[options.algorithm].steps[0]
    for key, given in (("hidden", options.hidden), (counted, options.steps)):
        if given is not None:
            changes[key] = str(given)
    if options.hold:
        changes["hold"] = "true"
    settings = settings_of(options.algorithm, changes, preset=options.preset)
    reward = settings.weights
    if options.config is not None and ALGORITHMS[options.algorithm].orders:
        reward = read_configuration(options.config).reward
    return dataclasses.replace(settings, seed=options.seed, weights=reward)


def _check_protocol(options: argparse.Namespace) -> None:
    if options.protocol is None:
        return
    fault = ""
    if options.estimates not in (None, ["requested"]) or options.backfill not in (None, "easy"):
        fault = "trains with requested times under EASY: leave out --estimates and --backfill."
    elif not ALGORITHMS[options.algorithm].heldout:
        fault = f"does not take {options.algorithm}: choose another."
    elif options.reserve_as == LIMIT:
        fault = "learns no limit on batch jobs: leave out --reserve-as."
    elif options.runs is not None:
        fault = "trains on windows: leave out --runs."
    if fault:
        raise ConfigurationError(f"--protocol heldout {fault}")


def _plan(
    options: argparse.Namespace, logs: list[NamedLog], settings: Settings, start: QNetwork | None
) -> TrainingPlan:
    return TrainingPlan(
        logs=[log.prepared for log in logs],
        sources=[log.source for log in logs],
        estimates=options.estimates or ["requested"],
        backfilling=options.backfill or ("none" if options.protocol is None else "easy"),
        runs=options.runs or _RUNS,
        algorithm=options.algorithm,
        settings=settings,
        command=_command(options, logs),
        seeds=options.seeds,
        heldout=options.protocol == HELDOUT,
        classifier=configured_classifier(options.config),
        start=start,
        class_limit=class_limit_of(options),
        goals=None if options.config is None else read_configuration(options.config).goals,
    )


def _command(options: argparse.Namespace, logs: list[NamedLog]) -> str:
    """The command that makes the same model, without the folders of the logs."""
    own = options.protocol is None
    start = None if options.start is None else Path(options.start).name
    processors, shares = options.processors, options.shares
    for log in logs:  # as given, or as read from Slurm on that day
        if log.whence.get("processors_from") == "sinfo":
            processors = log.prepared.capacity
        if log.whence.get("shares_from") == "sshare":
            both = zip(log.prepared.accounts, log.prepared.shares.tolist(), strict=True)
            shares = dict(both)
    given: list[tuple[str, Any]] = [
        ("-o", options.output.name),
        ("--algorithm", options.algorithm),
        ("--preset", options.preset),
        *(("--estimates", kind) for kind in (options.estimates or ["requested"]) if own),
        ("--backfill", (options.backfill or "none") if own else None),
        ("--protocol", options.protocol),
        ("--from", f"./{start}" if start == SLURM else start),
        ("--hidden", options.hidden),
        ("--steps", options.steps),
        ("--reserve-as", LIMIT if options.reserve_as == LIMIT else None),
        ("--hold", "" if options.hold else None),
        *(("--set", each) for each in options.set),
        ("--config", options.config and options.config.name),
        ("--cluster", options.cluster and Path(options.cluster).name),
        ("--partitions", _pairs(options.partitions, "")),
        ("--whole-nodes-of", options.whole_nodes_of if options.whole_nodes_of > 1 else None),
        ("--kill-at-limit", "" if options.kill_at_limit else None),
        ("--processors", processors),
        ("--shares", _pairs(shares, ".9g")),
        ("--runs", (options.runs or _RUNS) if own else None),
        ("--seed", options.seed),
        ("--seeds", options.seeds if options.seeds > 1 else None),
    ]
    words = [f"{name} {value}".strip() for name, value in given if value is not None]
    return " ".join(["slurm-rl train", *(log.words for log in logs), *words])


def _pairs(values: Mapping[str, float] | None, form: str) -> str | None:
    if values is None:
        return None
    return ",".join(f"{name}={value:{form}}" for name, value in values.items())


def _told(manifest: Mapping[str, Any], trained: TrainedPolicy) -> Iterator[str]:
    """Sentences on the model's quality in the manifest, and simpler predictions as good as it."""
    if "too_small" in manifest:
        yield f"warning: {manifest['too_small']}"
    if heldout := manifest.get("heldout"):
        for log, ratio in heldout["validation_ratio"].items():
            rule = heldout["best_heuristic"][log]
            yield f"{log}: bounded slowdown {ratio:.3f} of {rule}'s on the validation part"
        beaten = "the trained network does not beat the best rule"
        if heldout["shipped"] != "network":
            yield (
                f"{beaten}: the written model is the rule {heldout['shipped']} as a network, which "
                "is not worse for the site."
            )
        elif not heldout["beats_best_rule"]:
            yield (f"{beaten}, but the best of those that a network can represent: it is written.")
    for name, value in trained.compared:
        if trained.validation_objective <= value:
            yield (
                f"the model predicts no better than the {name}: train on longer logs, and do not "
                "publish utilities from this one."
            )
