"""`slurm-rl tune`: settings of slurm.conf searched for the site's goals on the past of its log."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.cli.argument_types.folders import make_folder
from slurm_rl_plugin.cli.argument_types.numbers import at_least_one, whole_number
from slurm_rl_plugin.cli.assembly.candidates import candidate_of
from slurm_rl_plugin.cli.logs.arguments import add_log_options
from slurm_rl_plugin.cli.logs.log_options import LogOptions
from slurm_rl_plugin.cli.logs.named_log import site_in_file
from slurm_rl_plugin.cli.progress import progress_bar
from slurm_rl_plugin.cli.tables import print_json
from slurm_rl_plugin.cli.train.place import (
    add_place_options,
    array_settings,
    cost_entry,
    cost_sentence,
    training_place,
)
from slurm_rl_plugin.cli.what_if.document import blocks_of, what_if_document
from slurm_rl_plugin.cli.what_if.tune_text import print_tuning
from slurm_rl_plugin.cli.what_if.what_if import ClusterAndJobs
from slurm_rl_plugin.configuration.keys.goals import RewardSection
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.learning.evaluation.heldout import NODE_HEURISTICS
from slurm_rl_plugin.learning.evaluation.paired import Candidate
from slurm_rl_plugin.learning.load_windows import TRAINING_FRACTION
from slurm_rl_plugin.learning.workplace import ThisMachine
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.utility.reward import RewardWeights
from slurm_rl_plugin.what_if.digest import digest_of
from slurm_rl_plugin.what_if.tuning.gain import ObjectiveGain, gain_of
from slurm_rl_plugin.what_if.tuning.lines import conf_lines
from slurm_rl_plugin.what_if.tuning.search import (
    WORTH,
    TunedCluster,
    TuningPlan,
    TuningTask,
    candidate_objective,
    objective_of,
    past_of,
    stretches_of,
    tune,
)
from slurm_rl_plugin.what_if.tuning.space import words_of
from slurm_rl_plugin.what_if.variant import HOOK, RESERVE, variant_of
from slurm_rl_plugin.whole_file import write_whole

#: Parts of the cluster's CPUs that are tried as a reserve.
_RESERVES = (0.02, 0.05, 0.1)
#: The orders beside the tuned one in a document.
TUNED, RULE, MODEL, WITH_RESERVE = "tuned", "best rule", "learned order", "tuned with a reserve"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The log, the cluster, how long is searched, and where results go."""
    parser.add_argument(
        "log", metavar="LOG", nargs="?", help="sacct, PBS or SWF log; none with --from slurm"
    )
    add_log_options(
        parser, config="take goals ([reward]), job-class rules and shares from a TOML file"
    )
    plan = TuningPlan()
    parser.add_argument(
        "--generations",
        type=at_least_one,
        default=plan.generations,
        metavar="N",
        help=f"of the search, {plan.population} settings each (default: {plan.generations})",
    )
    parser.add_argument(
        "--model",
        default="default",
        metavar="NAME|MODEL",
        help="the learned order that is shown beside (default: default)",
    )
    parser.add_argument("--seed", type=whole_number(0), default=1, metavar="S")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("tuned.conf"),
        metavar="FILE",
        help="where lines for slurm.conf are written, all commented (default: tuned.conf)",
    )
    parser.add_argument(
        "--checkpoint",
        type=Path,
        metavar="FILE",
        help="keeps the progress, so that an interrupted search goes on",
    )
    add_place_options(parser)
    parser.add_argument("--plot", type=Path, metavar="DIR", help="draw each order as PNG")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def main(options: argparse.Namespace) -> int:
    """Search on the first 60 % of the log's time, and show what that gains on the rest."""
    workers = array_settings(options, options.output)
    found = ClusterAndJobs.of(options.log, LogOptions.of(options), known=TRAINING_FRACTION)
    weights = _weights(options.config)
    model = candidate_of(options.model)
    make_folder("--plot", options.plot)
    _check_output(options.output)
    past = past_of(found.placed(found.jobs, found.cluster.machine))
    plan = replace(TuningPlan(), generations=options.generations, seed=options.seed)
    settings = replace(found.settings, capacity=past.capacity)
    short, checks = (
        TuningTask.of(found.cluster, stretches_of(past, count, plan.jobs), settings, weights)
        for count in (plan.stretches, plan.checks)
    )
    key = digest_of(past, settings, weights)
    with (
        training_place(workers) as place,
        progress_bar("tuning", plan.generations, "gain") as progress,
    ):
        tuned = tune(
            short,
            checks,
            plan,
            progress,
            checkpoint=options.checkpoint,
            log_key=key,
            place=place or ThisMachine(),
        )
    beside = _beside(tuned, short, model, past)
    document = _document(found, tuned, beside, weights, options)
    if document["lines"]:
        write_whole(options.output, "\n".join(document["lines"]) + "\n")
        document["written"] = options.output.name
    if place is not None:
        document["workers"] = cost_entry(place.cost)
    if options.json:
        print_json(document)
        return 0
    print_tuning(document)
    if place is not None:
        print(cost_sentence(place.cost))
    return 0


def _check_output(path: Path) -> None:
    """Refuse a file that could not be written once the search is done.

    Raises:
        ConfigurationError: its folder is not there, or may not be written to.
    """
    folder = path.resolve().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ConfigurationError(f"-o {path}: {folder} is no folder that can be written to.")


def _weights(config: Path | None) -> RewardWeights:
    if config is not None:
        return site_in_file(config).reward
    return RewardWeights(**asdict(RewardSection()))


def _beside(
    tuned: TunedCluster, short: TuningTask, model: Candidate, past: PreparedLog
) -> dict[str, str]:
    """What is shown on the rest of the log: its name -> words of a variant."""
    candidates = [Candidate(name=name) for name in NODE_HEURISTICS]
    values = ThisMachine().each(candidate_objective, short, candidates, warm_up=_nothing)
    rule = NODE_HEURISTICS[int(np.argmax(values))]
    words = words_of(tuned.changes)
    found = {RULE: f"{HOOK} {rule}", MODEL: f"{HOOK} {model.name}"}
    if words:
        found = {TUNED: words, **found}
    if reserve := _reserve(tuned, short, past.capacity):
        found[WITH_RESERVE] = "; ".join(filter(None, (words, f"{RESERVE} cpu={reserve}")))
    return found


def _nothing(task: TuningTask) -> None:
    """Threads of this process keep what is compiled."""


def _reserve(tuned: TunedCluster, short: TuningTask, processors: int) -> int:
    """CPUs that are best kept from batch jobs beside the tuned settings on the past; 0 for none."""
    sizes = sorted({max(round(part * processors), 1) for part in _RESERVES})
    changes = dict(tuned.changes)
    values = {size: objective_of(short, changes, size) for size in (0, *sizes)}
    best = max(values, key=values.__getitem__)
    worth = WORTH * abs(values[0] - objective_of(short, {}))
    return best if values[best] > values[0] + worth else 0


def _document(
    found: ClusterAndJobs,
    tuned: TunedCluster,
    beside: Mapping[str, str],
    weights: RewardWeights,
    options: argparse.Namespace,
) -> dict[str, Any]:
    variants = [
        replace(variant_of(words, found.cluster, candidate_of), name=name)
        for name, words in beside.items()
    ]
    pairs = found.replayed(variants, counted_from=TRAINING_FRACTION)
    document = what_if_document(found.read, pairs, options.seed)
    document["notes"] = list(found.notes)
    gains = {
        each.variant.variant.name: gain_of(each, blocks_of(each, options.seed), weights)
        for each in pairs
    }
    sure = TUNED in gains and gains[TUNED].is_sure
    document |= {
        "goals": asdict(weights),
        "search": {
            "tried": tuned.tried,
            "curve": list(tuned.curve),
            "objective_before": tuned.before,
            "objective_after": tuned.after,
            "training_part": TRAINING_FRACTION,
        },
        "words": dict(beside),
        "settings": dict(tuned.changes),
        "gain": {name: {**asdict(each), "sure": each.is_sure} for name, each in gains.items()},
        "lines": _lines(found, tuned, gains) if sure else [],
    }
    if options.plot is not None:
        from slurm_rl_plugin.cli.what_if.figure import draw_variants  # noqa: PLC0415 - matplotlib

        document["figures"] = draw_variants(options.plot, document)
    return document


def _lines(
    found: ClusterAndJobs, tuned: TunedCluster, gains: Mapping[str, ObjectiveGain]
) -> Sequence[str]:
    gain = gains[TUNED]
    assert gain.ci95 is not None
    head = (
        f"# Found on the first {100 * TRAINING_FRACTION:.0f} % of the time of {found.read.name}; "
        f"gain in the site's goals on the rest {gain.gain:.3f} "
        f"[{gain.ci95[0]:.3f}, {gain.ci95[1]:.3f}]. Nothing has been applied."
    )
    return [head, *conf_lines(found.cluster, tuned.changes)]
