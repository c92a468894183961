"""`slurm-rl evaluate --protocol continuous`: a log in one run, and whom an order lets wait."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.cli.evaluate.entries import backfilling
from slurm_rl_plugin.cli.evaluate.goal_option import goals_of
from slurm_rl_plugin.cli.evaluate.rule_table import print_rules
from slurm_rl_plugin.cli.evaluate.study.in_force import settings_in_force
from slurm_rl_plugin.cli.evaluate.study.text import print_figures
from slurm_rl_plugin.cli.logs.named_log import configured_classifier, site_in_file
from slurm_rl_plugin.cli.progress import progress_bar
from slurm_rl_plugin.cli.tables import print_table
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.evaluation.best_rule import rules_on_training_part
from slurm_rl_plugin.learning.evaluation.continuous import (
    ContinuousProtocol,
    ContinuousRun,
    Replayed,
    ratios_to,
    replay_continuously,
)
from slurm_rl_plugin.learning.evaluation.heldout import NODE_HEURISTICS, best_heuristic
from slurm_rl_plugin.learning.evaluation.paired import Candidate, knowing_recent_runs
from slurm_rl_plugin.learning.evaluation.schedule_waits import FIGURES
from slurm_rl_plugin.learning.load_windows import class_known_at_submission, training_jobs
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import DAY
from slurm_rl_plugin.utility.intervals import FEWEST_BLOCKS

#: Always replayed: what the others are compared with, and what most sites run.
FIRST_COME, MULTIFACTOR = "fifo", "multifactor"
_LEGEND = (
    "The whole log in one run, {backfilling} backfilling; figures of the last {counted_jobs} jobs, "
    "medians of {runs} runs, each without 2 % of the jobs."
)


def continuous_entry(
    candidates: Sequence[Candidate], prepared: PreparedLog, options: argparse.Namespace
) -> dict[str, Any]:
    """The `continuous` part of `evaluate --json`.

    Args:
        candidates: the policies asked for.
        prepared: the log; its classes may come from actual run times.
        options: `config` (what is in force at a site), `cycle`, `runs` and `seed`.

    Raises:
        ConfigurationError: a log too short, or an unknown policy.
    """
    protocol = ContinuousProtocol(
        runs=options.runs or ContinuousProtocol().runs,
        seed=options.seed,
        by_days=prepared.machine is not None,
    )
    known = class_known_at_submission(prepared, configured_classifier(options.config))
    settings = _settings(options, prepared.capacity)
    bases, chosen = [FIRST_COME, MULTIFACTOR], {}
    if prepared.machine is not None:
        chosen = _best_rule(known, settings, protocol)
        known = knowing_recent_runs(known, known.workload(RequestedLimit()), settings)
        bases.append(chosen["best_heuristic"])
    replayed = _replayed(candidates, bases)
    steps = protocol.runs * len(replayed)
    with progress_bar("continuous replay", steps, "bounded slowdown") as progress:
        runs = replay_continuously(replayed, known, settings, protocol, progress=progress)
    compared = {name: runs.pop(_base(name)) for name in dict.fromkeys(bases)}
    runs = {**runs, **{name: runs.get(name, each) for name, each in compared.items()}}
    over = [("fifo", FIRST_COME), ("multifactor", MULTIFACTOR)]
    over += [("best_heuristic", chosen["best_heuristic"])] if chosen else []
    found: dict[str, Any] = {
        "runs": protocol.runs,
        "backfilling": settings.backfilling,
        "counted_jobs": len(prepared.log) - training_jobs(prepared),
        "class_rule": known.class_rule,
        **chosen,
        "policies": {name: _medians(each) for name, each in runs.items()},
    }
    for key, name in over:
        found[f"ratio_to_{key}"] = ratios_to(
            runs, compared[name], options.seed, protocol.drawn_together
        )
    if options.plot is not None:
        found["figures"] = [_draw(options.plot, found["ratio_to_fifo"])]
    return found


def _best_rule(
    known: PreparedLog, settings: SimulationSettings, protocol: ContinuousProtocol
) -> dict[str, Any]:
    """Every simple rule on the training part, and the best of them."""
    steps = protocol.runs * len(NODE_HEURISTICS)
    with progress_bar("training part", steps, "bounded slowdown") as progress:
        rules = rules_on_training_part(
            NODE_HEURISTICS, known, settings.without_hook, protocol, progress=progress
        )
    return {
        "best_heuristic": best_heuristic(rules),
        "training_bounded_slowdown": rules,
        "days": _days(known),
    }


def _days(known: PreparedLog) -> int:
    """Days of submissions behind the training part, of which an interval is drawn."""
    submit = known.log.submit[training_jobs(known) :]
    return int((submit[-1] - submit[0]) // DAY) + 1


def _settings(options: argparse.Namespace, capacity: int) -> SimulationSettings:
    """EASY, on nodes as asked for, with what the hook makes of scores at the site of --config."""
    settings = SimulationSettings(capacity=capacity, cycle=options.cycle)
    if options.config is not None:
        settings = settings_in_force(site_in_file(options.config), capacity, options.cycle)
    goals = goals_of(options, settings.goals)
    return replace(settings, backfilling=backfilling(options), goals=goals)


def _draw(folder: Path, ratios: dict[str, dict[str, Any]]) -> str:
    from slurm_rl_plugin.cli.evaluate.front_figure import draw_front  # noqa: PLC0415 - matplotlib is heavy

    folder.mkdir(parents=True, exist_ok=True)
    points = {
        name: (each["bounded_slowdown"], each["longest_wait"])
        for name, each in ratios.items()
        if each["longest_wait"] is not None
    }
    over = "over that of first come, first served"
    path = folder / "front.png"
    draw_front(path, points, (f"mean bounded slowdown {over}", f"longest wait {over}"))
    return str(path)


def _base(name: str) -> str:
    """What the runs of a rule are called that others are compared with: without the hook."""
    return f"{name} alone"


def _replayed(candidates: Sequence[Candidate], rules: Sequence[str]) -> list[Replayed]:
    """The policies asked for, and what they are compared with."""
    asked = [Replayed(name=each.name, candidate=each) for each in candidates]
    bases = [
        Replayed(name=_base(name), candidate=Candidate(name=name), alone=True)
        for name in dict.fromkeys(rules)
    ]
    return [*asked, *bases]


def _medians(runs: Sequence[ContinuousRun]) -> dict[str, float]:
    """Median over the runs of each figure, seconds where it is a wait."""
    return {name: float(np.median([getattr(run.waits, name) for run in runs])) for name in FIGURES}


def print_continuous(continuous: dict[str, Any]) -> None:
    """One row a policy: its figures, then those that are ratios to first come, first served.

    On a machine of nodes before them how the rule was chosen, and behind them the ratios to it.
    """
    if "best_heuristic" in continuous:
        print_rules(continuous["training_bounded_slowdown"])
        print()
    print_figures(continuous)
    if "best_heuristic" in continuous:
        _print_ratios_to_best(continuous)
    print(_LEGEND.format(**continuous))
    print(f"class that policies see: {continuous['class_rule']}")


def _print_ratios_to_best(continuous: dict[str, Any]) -> None:
    """Each policy over the best rule; the interval is of days, of which a short log has few."""
    rows: list[list[Any]] = []
    about = f"the interval by {continuous['days']} days"
    for name, ratio in continuous["ratio_to_best_heuristic"].items():
        interval = ratio["ci95"]
        if interval is None:
            about = f"without intervals, which need two runs, and jobs on {FEWEST_BLOCKS} days"
        shown = None if interval is None else "{:.3f}-{:.3f}".format(*interval)
        rows.append([name, ratio["bounded_slowdown"], shown, ratio["longest_wait"]])
    best = continuous["best_heuristic"]
    print(f"\nbest heuristic: {best}; over its figures, {about}:")
    print_table(["POLICY", "BSLD", "(95 %)", "MAXWAIT"], rows)
