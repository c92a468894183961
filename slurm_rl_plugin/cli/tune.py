"""`slurm-rl tune`: search settings of slurm.conf for the site's goals on the past of its log."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from slurm_rl_plugin.cli.argument_types import (
    add_seed_option,
    at_least_one,
    goal_of,
    result_file,
)
from slurm_rl_plugin.cli.log_arguments import add_log_options
from slurm_rl_plugin.cli.progress import (
    parts_bar,
    progress_bar,
    resumable,
    said_if_long,
    say_of_compiling,
)
from slurm_rl_plugin.cli.tables import answer, print_table
from slurm_rl_plugin.cli.what_if import add_result_options, cluster_and_jobs, print_basis
from slurm_rl_plugin.configuration import read_configuration
from slurm_rl_plugin.configuration.sections import RewardSection
from slurm_rl_plugin.evaluation.named_log import LogOptions
from slurm_rl_plugin.evaluation.study import as_json
from slurm_rl_plugin.evaluation.what_if_study import (
    ClusterAndJobs,
    Tuning,
    VariantStudy,
    WhatIfStudy,
    blocks_of,
)
from slurm_rl_plugin.learning.checkpoint import check_checkpoint, digest_of, forget_checkpoint
from slurm_rl_plugin.learning.training_load import TRAINING_FRACTION
from slurm_rl_plugin.measure.intervals import BETTER
from slurm_rl_plugin.readable import printable, span_text
from slurm_rl_plugin.services.candidates import candidate_of
from slurm_rl_plugin.simulator.kernel.kept_code import compiled_before
from slurm_rl_plugin.simulator.workloads.log_workload import PAST_WORK
from slurm_rl_plugin.utility.reward import RewardWeights
from slurm_rl_plugin.what_if.effects import Effect
from slurm_rl_plugin.what_if.replay import ReplayedPair
from slurm_rl_plugin.what_if.tuning.search import (
    BY_RULE,
    TUNED,
    Choice,
    ObjectiveGain,
    TunedCluster,
    TuningPlan,
    TuningTask,
    best_rule,
    choices_of,
    conf_lines,
    gain_of,
    past_of,
    policy_lines,
    stretches_of,
    tune,
)
from slurm_rl_plugin.what_if.variant import AS_IT_IS, HOOK, variant_of
from slurm_rl_plugin.whole_file import write_whole

#: Two orders that are shown in addition to those chosen on the past.
RULE, MODEL = "best rule", "learned order"
_NO_FAIRNESS = (
    "This search ignores fairness and has no bound on misdelivery, because no shares are "
    "configured: give --shares, [shares], or --cluster with sacctmgr's output next to slurm.conf."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The log, the cluster, the length of the search, and where results go."""
    parser.add_argument(
        "log", metavar="LOG", nargs="?", help="an accounting log; not with --from slurm"
    )
    add_log_options(
        parser,
        config="configuration file with [goals], [reward], job-class rules and shares",
    )
    plan = TuningPlan()
    parser.add_argument(
        "--generations",
        type=at_least_one,
        default=plan.generations,
        metavar="N",
        help=f"generations of {plan.population} settings each (default: {plan.generations})",
    )
    parser.add_argument(
        "--model",
        default="default",
        metavar="NAME|MODEL",
        help="learned order to compare with (default: default)",
    )
    add_seed_option(parser)
    parser.add_argument(
        *("-o", "--output"),
        type=Path,
        default=Path("tuned.conf"),
        metavar="FILE",
        help="file for lines of slurm.conf, all commented (default: tuned.conf)",
    )
    add_result_options(parser, "search")


def main(options: argparse.Namespace) -> int:
    """Search on the first 60 % of the log's time, and report the gain on the rest."""
    found = cluster_and_jobs(options.log, LogOptions.of(options), known=TRAINING_FRACTION)
    weights = RewardWeights(**asdict(RewardSection()))
    if options.config is not None:
        weights = read_configuration(options.config).reward
    model = candidate_of(options.model)
    output = result_file("-o", options.output)
    check_checkpoint(options.checkpoint)
    past = past_of(found.placed(found.jobs, found.cluster.machine))
    if past.shares_from == PAST_WORK:
        weights = weights.without_fairness()
        found = replace(found, notes=(*found.notes, _NO_FAIRNESS))
    plan = replace(TuningPlan(), generations=options.generations, seed=options.seed)
    settings = replace(found.settings, capacity=past.capacity)
    short, checks = (
        TuningTask.of(found.cluster, stretches_of(past, count, plan.jobs), settings, weights)
        for count in (plan.stretches, plan.checks)
    )
    key = digest_of(past, settings, weights)
    with resumable(options.checkpoint):
        with progress_bar("tuning", plan.generations, "gain") as progress:
            tuned = tune(short, checks, plan, progress, checkpoint=options.checkpoint, log_key=key)
        with said_if_long("comparing simple rules"):
            choices = choices_of(tuned, short, checks, past.capacity)
            others = {RULE: f"{HOOK} {best_rule(short)}", MODEL: f"{HOOK} {model.name}"}
        study, tuning = _compared(found, tuned, choices, others, weights, options.seed)
    if tuning.lines:
        write_whole(output, "\n".join(tuning.lines) + "\n")
        tuning = replace(tuning, written=options.output.name)
    forget_checkpoint(options.checkpoint)
    document = {**study.as_json(), **as_json(tuning)}
    return answer(options, document, lambda: _print(study, tuning))


def _compared(
    found: ClusterAndJobs,
    tuned: TunedCluster,
    choices: Mapping[str, Choice],
    others: Mapping[str, str],
    weights: RewardWeights,
    seed: int,
) -> tuple[WhatIfStudy, Tuning]:
    words = {name: each.words for name, each in choices.items() if each.words} | {**others}
    variants = [
        replace(variant_of(each, found.cluster, candidate_of, goal_of), name=name)
        for name, each in words.items()
    ]
    say_of_compiling(compiled_before)
    pairs = found.replayed(variants, parts_bar, counted_from=TRAINING_FRACTION)
    by_name = {each.variant.variant.name: each for each in pairs}

    def gain(pair: ReplayedPair) -> ObjectiveGain:
        return gain_of(pair, blocks_of(pair, seed), weights)

    def document(gain: ObjectiveGain) -> dict[str, Any]:
        return {**asdict(gain), "verdict": gain.verdict}

    gains = {name: gain(pair) for name, pair in by_name.items()}
    chosen = max(choices, key=lambda name: choices[name].objective)
    learned = by_name[MODEL]
    over_chosen = learned if chosen == AS_IT_IS else learned.beside(by_name[chosen])
    return WhatIfStudy.of(found, pairs, seed), Tuning(
        goals=weights,
        search={
            "tried": tuned.tried,
            "curve": list(tuned.curve),
            "objective_before": tuned.before,
            "objective_after": tuned.after,
            "training_part": TRAINING_FRACTION,
        },
        words=words,
        settings=dict(tuned.changes),
        gain={name: document(each) for name, each in gains.items()},
        chosen={
            "name": chosen,
            "objective": {name: each.objective for name, each in choices.items()},
            "learned_order_gain": document(gain(over_chosen)),
        },
        lines=_lines(found, tuned, choices, gains),
    )


def _lines(
    found: ClusterAndJobs,
    tuned: TunedCluster,
    choices: Mapping[str, Choice],
    gains: Mapping[str, ObjectiveGain],
) -> list[str]:
    """Lines for the settings of slurm.conf or the rule that gain significantly; none if neither.

    If both gain, the better one on the past: they were never tried together.
    """
    now = choices[AS_IT_IS].objective
    better = [
        each
        for each in (TUNED, BY_RULE)
        if each in gains and gains[each].verdict == BETTER and choices[each].objective > now
    ]
    if not better:
        return []
    name = max(better, key=lambda each: choices[each].objective)
    what, lines = "settings of slurm.conf", conf_lines(found.cluster, tuned.changes)
    if name == BY_RULE:
        what = "a rule of the daemon, for slurm-rl.toml"
        lines = policy_lines(choices[name].rule)
    gain = gains[name]
    assert gain.ci95 is not None  # the verdict is significant
    head = (
        f"# {what}, found on the first {100 * TRAINING_FRACTION:.0f} % of the time of "
        f"{found.read.name}; gain in the site's goals on the rest {gain.gain:.3f} "
        f"[{gain.ci95[0]:.3f}, {gain.ci95[1]:.3f}]. Nothing has been applied."
    )
    return [head, *lines]


def _print(study: WhatIfStudy, tuning: Tuning) -> None:
    log, search = study.log, tuning.search
    print(
        f"{search['tried']} settings tried on the first {100 * search['training_part']:.0f} % of "
        f"the time of {log['name']}; {log['counted_jobs']} jobs of the rest counted."
    )
    print_basis(study)
    print()
    some = next(iter(study.variants.values()))
    rows = [["as it is", None, None, *_values(some, "before")]]
    for name, variant in study.variants.items():
        gain = tuning.gain[name]
        interval = _interval(gain, "{:.3f} to {:.3f}") or None
        rows.append([name, gain["gain"], interval, *_values(variant, "after")])
    header = ["ORDER", "GAIN", "(95 %)", "BSLD", "WAIT", "LONGEST", "MISDELIVERED"]
    print_table([*header, "INTERACTIVE", "<=120S%"], rows)
    for name, words in tuning.words.items():
        print(printable(f"{name}: {words}"))
    over = tuning.chosen["learned_order_gain"]
    best = f"Best on the past: {tuning.chosen['name']}; gain of the learned order over it: "
    print(printable(f"{best}{over['gain']:.3f}{_interval(over)}."))
    print()
    if not tuning.lines:
        print("No gain is significant: leave slurm.conf as it is, or tune on a longer log.")
        return
    for line in tuning.lines:
        print(printable(line))
    print(printable(f"Written to {tuning.written}, all commented. Nothing was applied."))


def _interval(gain: Mapping[str, Any], form: str = " [{:.3f}, {:.3f}]") -> str:
    return "" if gain["ci95"] is None else form.format(*gain["ci95"])


def _values(variant: VariantStudy, side: str) -> list[Any]:
    interactive = variant.groups["class"].get("interactive")
    quick = variant.figures if interactive is None else interactive.figures
    figures = variant.figures

    def span(effect: Effect) -> str:
        return span_text(getattr(effect, side))

    return [
        getattr(figures["bounded_slowdown"], side),
        span(figures["mean_wait"]),
        span(figures["longest_wait"]),
        getattr(figures["misdelivered"], side),
        span(quick["mean_wait"]),
        100.0 * getattr(quick["within_120s"], side),
    ]
