"""`slurm-rl train`: accounting logs become an ONNX model with a manifest and a card."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slurm_rl_plugin.cli.argument_types import at_least_one, result_file, whole_number
from slurm_rl_plugin.cli.evaluate import HELDOUT
from slurm_rl_plugin.cli.log_arguments import add_log_options, read_named_logs
from slurm_rl_plugin.cli.log_excerpt import sampled
from slurm_rl_plugin.cli.policy_arguments import add_reserve_option, reserve_words
from slurm_rl_plugin.cli.progress import progress_bar, say_of_compiling, told_if_interrupted
from slurm_rl_plugin.cli.tables import print_json, print_table
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
from slurm_rl_plugin.simulator.kernel.dispatch import BACKFILLING
from slurm_rl_plugin.simulator.kernel.kept_code import compiled_before
from slurm_rl_plugin.simulator.workloads.log_shares import PAST_WORK

#: Windows taken from either part of a log.
_RUNS = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The logs, the algorithm with its settings, and where model and figures go."""
    parser.add_argument(
        "logs",
        metavar="LOG",
        nargs="*",
        help="accounting logs, what `convert` made of them, or mmn:... or egee:...; "
        "behind an @ a part of it or another load; "
        "none with --from slurm",
    )
    parser.add_argument(
        *("-o", "--output"),
        type=Path,
        required=True,
        metavar="MODEL.onnx",
        help="the model; its manifest (.json) and its card (.md) lie beside it",
    )
    parser.add_argument(
        "--algorithm",
        choices=list(ALGORITHMS),
        default="policy-search",
        help="how it is trained (default: policy-search)",
    )
    parser.add_argument(
        "--preset",
        choices=PRESETS,
        help="paper: the settings that the paper printed; slowdown: for parallel machines",
    )
    parser.add_argument(
        "--estimates",
        action="append",
        choices=ESTIMATE_KINDS,
        help="what run times the policy believes; repeat to train for several (default: requested)",
    )
    add_log_options(
        parser,
        or_model=True,
        config="take goals ([reward]), job-class rules and shares from a TOML file",
    )
    parser.add_argument(
        "--backfill", choices=sorted(BACKFILLING), help="of the simulated system (default: none)"
    )
    add_reserve_option(parser)
    parser.add_argument("--hidden", type=at_least_one, metavar="N", help="hidden units")
    parser.add_argument(
        "--steps", type=at_least_one, metavar="N", help="generations, sweeps, iterations or rounds"
    )
    parser.add_argument(
        "--hold", action="store_true", help="also learn how many processors to keep for interactive"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="another setting of the algorithm, such as epsilon=.3 or reward=literal; repeat",
    )
    parser.add_argument(
        "--runs",
        type=at_least_one,
        metavar="N",
        help=f"through each log that train, each without other 2 %% of the jobs (default: {_RUNS})",
    )
    parser.add_argument(
        "--seed", type=whole_number(0), default=1, help="of all that is drawn (default: 1)"
    )
    parser.add_argument(
        "--seeds",
        type=at_least_one,
        default=1,
        metavar="N",
        help="train N times from --seed on, keep what validates best",
    )
    parser.add_argument(
        "--leave-one-out",
        action="store_true",
        help="also train without each LOG in turn, and say what that is worth on it",
    )
    parser.add_argument(
        "--protocol",
        choices=[HELDOUT],
        help="heldout: leave the last 40 %% of each LOG untouched; where no training beats the "
        "best rule, the model is that rule",
    )
    parser.add_argument("--plot", type=Path, metavar="DIR", help="draw the learning curve as PNG")
    parser.add_argument("--json", action="store_true", help="print the manifest as JSON")


def main(options: argparse.Namespace) -> int:
    """Train and say how it compares."""
    options.output = _model_file(options.output)
    _check_protocol(options)
    settings = _settings(options)
    start = None if options.start is None else _start(options.start)
    logs = _read_logs(options)
    if isinstance(settings, SarsaSettings) and settings.pretraining == "recorded":
        logs = [log.with_starts() for log in logs]
    settings = _without_fairness(options, logs, settings)
    plan = _plan(options, logs, settings, start)
    measure = ALGORITHMS[plan.algorithm].measure
    say_of_compiling(compiled_before)
    begin = time.monotonic()
    kept = options.output.with_name(f"{options.output.name}.checkpoint")
    bar = progress_bar("training", plan.steps, measure)
    with told_if_interrupted(kept, several=True), bar as progress:
        trained, manifest = train_model(plan, options.output, progress=progress)
    seconds = time.monotonic() - begin
    if options.plot is not None:
        _plot(options.plot, options.output.stem, plan.algorithm, trained)
    if options.json:
        print_json(manifest)
        return 0
    rows = [[row["policy"], row["objective"]] for row in manifest["validation"]]
    print_table(["POLICY", measure.upper()], rows)
    if "too_small" in manifest:
        print(f"warning: {manifest['too_small']}")
    if "heldout" in manifest:
        _print_heldout(manifest["heldout"])
    if plan.leave_one_out:
        _print_leave_one_out(manifest["leave_one_out"])
    _print_uselessness(trained)
    print(f"trained in {seconds:.0f} s on {trained.simulated_jobs:,} simulated jobs")
    print(f"wrote {options.output} with its manifest (.json) and card (.md)")
    return 0


def _start(model: str) -> QNetwork:
    """The network to start from, by its path or as one that is shipped.

    Raises:
        ConfigurationError: a rule.
        PolicyError: the model cannot be used.
    """
    named = named_policy(model)
    if named is not None and named.is_rule:
        raise ConfigurationError(
            f"--from {model}: a rule is no network to start from: give a model, or the rule in "
            "--set start=RULE (policy-search) or --set order=RULE (site-utility)."
        )
    return import_network(model_path(model))


def _read_logs(options: argparse.Namespace) -> list[NamedLog]:
    logs = read_named_logs([sampled(each) for each in options.logs], LogOptions.of(options))
    if not options.json:
        for log in logs:
            print_origin(log.origin, log.whence, log.prepared)
            print(f"{log.name}: {log.shares_sentence}")
    return logs


def _without_fairness(
    options: argparse.Namespace, logs: list[NamedLog], settings: Settings
) -> Settings:
    """A site's goals without fairness where its shares are derived; drawn logs define theirs.

    Raises:
        ConfigurationError: fairness is the site's only goal.
    """
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


def _model_file(output: Path) -> Path:
    """Where the model is to be written, checked before the training that it is for."""
    if output.suffix != ".onnx":
        raise ConfigurationError(f"-o {output} must end in .onnx.")
    return result_file("-o", output)


def _plot(folder: Path, name: str, algorithm: str, trained: TrainedPolicy) -> None:
    from slurm_rl_plugin.evaluation.figures import draw_learning_curve  # noqa: PLC0415 - matplotlib

    how = ALGORITHMS[algorithm]
    path = folder / f"{name}-learning-curve.png"
    draw_learning_curve(path, trained.curve, how.steps[1], name, how.measure)


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
    """Refuse what the held-out protocol settles itself.

    Raises:
        ConfigurationError: one of those options.
    """
    if options.protocol is None:
        return
    if options.estimates not in (None, ["requested"]) or options.backfill not in (None, "easy"):
        raise ConfigurationError(
            "--protocol heldout trains with requested times under EASY: leave out --estimates and "
            "--backfill."
        )
    if not ALGORITHMS[options.algorithm].heldout:
        raise ConfigurationError(
            f"--protocol heldout does not take {options.algorithm}: choose another."
        )
    if options.reserve_as is not None:
        raise ConfigurationError(
            "--protocol heldout learns no limit on batch jobs: leave out --reserve-as."
        )
    if options.runs is not None:
        raise ConfigurationError("--protocol heldout trains on windows: leave out --runs.")


def _plan(
    options: argparse.Namespace,
    logs: list[NamedLog],
    settings: Settings,
    start: QNetwork | None,
) -> TrainingPlan:
    estimates = options.estimates or ["requested"]
    return TrainingPlan(
        logs=[log.prepared for log in logs],
        sources=[log.source for log in logs],
        estimates=estimates,
        backfilling=options.backfill or ("none" if options.protocol is None else "easy"),
        runs=options.runs or _RUNS,
        algorithm=options.algorithm,
        settings=settings,
        command=_command(options, logs, estimates),
        seeds=options.seeds,
        heldout=options.protocol == HELDOUT,
        classifier=configured_classifier(options.config),
        start=start,
        class_limit=options.reserve_as,
        leave_one_out=options.leave_one_out,
    )


def _command(options: argparse.Namespace, logs: list[NamedLog], estimates: list[str]) -> str:
    """The command that makes the same model, but for the folders of the logs."""
    words = ["slurm-rl train", *(log.words for log in logs), f"-o {options.output.name}"]
    words += [f"--algorithm {options.algorithm}"]
    words += [f"--preset {options.preset}"] * (options.preset is not None)
    words += [f"--estimates {kind}" for kind in estimates] * (options.protocol is None)
    if options.protocol is None:
        words.append(f"--backfill {options.backfill or 'none'}")
    else:
        words.append(f"--protocol {options.protocol}")
    if options.start is not None:
        name = Path(options.start).name
        words.append(f"--from {f'./{name}' if name == SLURM else name}")
    for name in ("hidden", "steps"):
        if getattr(options, name) is not None:
            words.append(f"--{name} {getattr(options, name)}")
    words += reserve_words(options.reserve_as)
    words += ["--hold"] * options.hold + [f"--set {each}" for each in options.set]
    if options.config is not None:
        words.append(f"--config {options.config.name}")
    words += _words_of_jobs(options, logs)
    if options.protocol is None:
        words.append(f"--runs {options.runs or _RUNS}")
    words.append(f"--seed {options.seed}")
    words += [f"--seeds {options.seeds}"] * (options.seeds > 1)
    words += ["--leave-one-out"] * options.leave_one_out
    return " ".join(words)


def _words_of_jobs(options: argparse.Namespace, logs: list[NamedLog]) -> list[str]:
    """What makes other jobs, sites or shares of the same logs."""
    words = []
    if options.cluster is not None:
        words.append(f"--cluster {Path(options.cluster).name}")
    if options.partitions is not None:
        each = ",".join(f"{name}={size}" for name, size in options.partitions.items())
        words.append(f"--partitions {each}")
    if options.whole_nodes_of > 1:
        words.append(f"--whole-nodes-of {options.whole_nodes_of}")
    words += ["--kill-at-limit"] * options.kill_at_limit
    processors, shares = _size_and_shares(options, logs)
    if processors is not None:
        words.append(f"--processors {processors}")
    if shares is not None:
        each = ",".join(f"{name}={share:.9g}" for name, share in shares.items())
        words.append(f"--shares {each}")
    return words


def _size_and_shares(
    options: argparse.Namespace, logs: list[NamedLog]
) -> tuple[int | None, Mapping[str, float] | None]:
    """What the command must name: as given, or as Slurm said on that day."""
    processors, shares = options.processors, options.shares
    for log in logs:
        prepared = log.prepared
        if log.whence.get("processors_from") == "sinfo":
            processors = prepared.capacity
        if log.whence.get("shares_from") == "sshare":
            shares = dict(zip(prepared.accounts, prepared.shares.tolist(), strict=True))
    return processors, shares


def _print_heldout(heldout: Mapping[str, Any]) -> None:
    """What the held-out protocol made of a training: the `heldout` part of its manifest."""
    for log, ratio in heldout["validation_ratio"].items():
        rule = heldout["best_heuristic"][log]
        print(f"{log}: bounded slowdown {ratio:.3f} of {rule}'s on the validation part")
    if heldout["shipped"] == "network" and not heldout["beats_best_rule"]:
        print(
            "the trained network does not beat the best rule, but the best of those that a network "
            "can stand for: it is written all the same."
        )
    elif heldout["shipped"] != "network":
        print(
            f"the trained network does not beat the best rule: the model written is the rule "
            f"{heldout['shipped']} as a network, so that the site is not worse off."
        )


def _print_leave_one_out(found: Mapping[str, Mapping[str, float]]) -> None:
    """What a training without a log is worth on it: the `leave_one_out` part of a manifest."""
    for log, objectives in found.items():
        values = dict(objectives)
        without, having = values.pop("trained_without"), values.pop("trained_with")
        name = max(list(values), key=values.__getitem__)
        print(
            f"{log}: objective {without:.3f} trained without it, {having:.3f} with it; best rule "
            f"{name} {values[name]:.3f}"
        )


def _print_uselessness(trained: TrainedPolicy) -> None:
    """What else would have told as much, where the algorithm compared its model with anything."""
    for name, value in trained.compared:
        if trained.validation_objective <= value:
            print(
                f"the model tells no more than the {name}: train on longer logs, "
                "and do not publish from this one."
            )
