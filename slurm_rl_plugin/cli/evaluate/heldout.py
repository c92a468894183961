"""`slurm-rl evaluate --protocol heldout`: the later part of a log, the earlier one's best rule."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from slurm_rl_plugin.cli.evaluate.rule_table import print_rules
from slurm_rl_plugin.cli.logs.named_log import configured_classifier
from slurm_rl_plugin.cli.progress import progress_bar
from slurm_rl_plugin.cli.tables import print_table
from slurm_rl_plugin.learning.evaluation.heldout import (
    HeldoutProtocol,
    WindowFigures,
    best_heuristic,
    figures_of_windows,
    heuristics_on_training_part,
    training_and_test_windows,
)
from slurm_rl_plugin.learning.evaluation.paired import Candidate
from slurm_rl_plugin.learning.evaluation.paired_windows import (
    overlapping_windows,
    ratio_over_windows,
)
from slurm_rl_plugin.learning.evaluation.run_time_scores import run_time_scores
from slurm_rl_plugin.learning.load_windows import class_known_at_submission, training_jobs
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import HOUR

#: Always reported: the plain queue, and what most sites run.
ALWAYS_REPORTED = ("fifo", "multifactor")


def heldout_entry(
    candidates: Sequence[Candidate], prepared: PreparedLog, options: argparse.Namespace
) -> dict[str, Any]:
    """The `heldout` part of `evaluate --json`.

    Args:
        candidates: the policies asked for.
        prepared: the log; its classes may come from actual run times.
        options: `config` (job-class rules), `cycle`, `windows` and `seed`.

    Raises:
        ConfigurationError: a log too short for one window, or an unknown policy.
    """
    protocol = HeldoutProtocol(
        cycle=options.cycle, windows=options.windows or HeldoutProtocol().windows
    )
    training, test = training_and_test_windows(prepared, protocol)
    known = class_known_at_submission(prepared, configured_classifier(options.config))
    # an unknown policy is told before the work, not after
    figures_of_windows(candidates, known, test[:1], protocol)
    with progress_bar("training part", len(training), "bounded slowdown") as progress:
        rules = heuristics_on_training_part(known, training, protocol, progress=progress)
    best = best_heuristic(rules)
    compared = _with_rules(candidates, (*ALWAYS_REPORTED, best))
    with progress_bar("test part", len(test), "bounded slowdown") as progress:
        figures = figures_of_windows(compared, known, test, protocol, progress=progress)
    block = overlapping_windows(test, protocol.jobs)
    part = len(prepared.log) - training_jobs(prepared)
    return {
        "windows": len(test),
        "independent_windows": round(protocol.independent_windows(part), 1),
        "best_heuristic": best,
        "training_bounded_slowdown": rules,
        "ratio_to_best_heuristic": _ratios(figures, best, block, options.seed),
        "ratio_to_multifactor": _ratios(figures, "multifactor", block, options.seed),
        "policies": {name: _pooled(each) for name, each in figures.items()},
        "run_time_scores": run_time_scores(known, training_jobs(known), len(known.log)),
        "class_rule": known.class_rule,
        "jobs_without_request": _jobs_without_request(prepared),
    }


def _with_rules(candidates: Sequence[Candidate], rules: Sequence[str]) -> list[Candidate]:
    """The policies asked for and the rules, none twice, in that order."""
    compared = {each.name: each for each in candidates}
    for name in rules:
        compared.setdefault(name, Candidate(name=name))
    return list(compared.values())


def _ratios(
    figures: dict[str, WindowFigures], to: str, block: int, seed: int
) -> dict[str, dict[str, Any]]:
    """Every policy's bounded slowdown over that of one of them; all draw the same windows."""
    ratios = {}
    for name, each in figures.items():
        ratio = ratio_over_windows(
            each.bounded_slowdown,
            figures[to].bounded_slowdown,
            np.random.default_rng(seed),
            block=block,
        )
        ratios[name] = {
            "mean": ratio.mean,
            "geometric_mean": ratio.geometric_mean,
            "ci95": None if ratio.ci95 is None else list(ratio.ci95),
        }
    return ratios


def _pooled(figures: WindowFigures) -> dict[str, float | None]:
    short = float(figures.short_jobs.sum())
    return {
        "mean_bounded_slowdown": float(figures.bounded_slowdown.mean()),
        "short_within_120s": float(figures.short_within_120s.sum()) / short if short else None,
        "mean_max_wait": float(figures.max_wait.mean()),
        "misdelivered": float(figures.misdelivered.mean()),
    }


def _jobs_without_request(prepared: PreparedLog) -> int:
    """Jobs whose run time stands for the request (definitions): their policies are no forecast."""
    limit = prepared.log.time_limit
    return int((~(np.isfinite(limit) & (limit > 0))).sum())


def print_heldout(heldout: dict[str, Any]) -> None:
    """How the rule was chosen, then one row a policy; max wait in hours, short jobs in per cent."""
    print_rules(heldout["training_bounded_slowdown"], "geometric mean over windows")
    print(
        f"\nbest heuristic: {heldout['best_heuristic']}; windows of the test part: "
        f"{heldout['windows']}, independent: {heldout['independent_windows']}; GEO: geometric mean "
        "of the ratios in the windows"
    )
    header = ["POLICY", "BSLD", "TO-BEST", "GEO", "(95 %)", "TO-MULTIFACTOR", "GEO", "(95 %)"]
    rows = []
    for name, entry in heldout["policies"].items():
        row: list[Any] = [name, entry["mean_bounded_slowdown"]]
        for to in ("ratio_to_best_heuristic", "ratio_to_multifactor"):
            ratio = heldout[to][name]
            interval = ratio["ci95"]
            row += [ratio["mean"], ratio["geometric_mean"]]
            row.append(None if interval is None else "{:.3f}-{:.3f}".format(*interval))
        share = entry["short_within_120s"]
        row.append(None if share is None else 100 * share)
        row += [entry["mean_max_wait"] / HOUR, entry["misdelivered"]]
        rows.append(row)
    print_table([*header, "SHORT<=120S%", "MAXWAIT-H", "MISDELIVERED"], rows)
    _print_run_time_scores(heldout["run_time_scores"])
    print(f"\nclass that policies see: {heldout['class_rule']}")
    if unknown := heldout["jobs_without_request"]:
        print(f"jobs that asked for no time, whose run time stands for the request: {unknown}")


def _print_run_time_scores(scores: Mapping[str, Any]) -> None:
    """Errors of what past runs tell as jobs come, beside the request."""
    print("\nrun times as predicted when jobs come, on the test part:")
    names = ("log_score", "crps", "log_error", "log_error_requested")
    header = ["LOG-SCORE", "CRPS", "LOG10-ERROR", "OF THE REQUEST"]
    print_table(header, [[scores[name] for name in names]])
