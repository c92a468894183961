"""`heldout`: learned orders against the best simple rule on what they have not seen, as a study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from slurm_rl_plugin.learning.evaluation.heldout import WindowFigures
from slurm_rl_plugin.learning.evaluation.paired_windows import ratio_over_windows
from slurm_rl_plugin.papers.heldout.experiment import (
    HeldoutPlan,
    LogStudy,
    figure_of,
    study_claims,
    study_log,
)
from slurm_rl_plugin.papers.heldout.goals import GOALS, TO_BEST
from slurm_rl_plugin.papers.study.claim_tables import TextTable
from slurm_rl_plugin.papers.study.figure_file import legend_above
from slurm_rl_plugin.papers.study.result_store import ResultStore
from slurm_rl_plugin.papers.study.study import Add, Asked, Drawings, Outcome
from slurm_rl_plugin.simulator.workloads.log_shares import SHARES_WORDS
from slurm_rl_plugin.units import HOUR


def drawings_of(studies: Mapping[str, LogStudy]) -> Drawings:
    """Ratios of every policy, and what the hook does to them."""
    return {
        "heldout-ratios.png": lambda: _ratios(studies),
        "heldout-effects.png": lambda: _effects(studies),
    }


def _ratios(studies: Mapping[str, LogStudy]) -> Any:
    """One panel a log: every policy's ratio with its interval; goals as marks."""
    figure, axes = plt.subplots(
        1, len(studies), figsize=(5 * len(studies), 6), sharey=True, layout="constrained"
    )
    for axis, (name, study) in zip(np.atleast_1d(axes), studies.items(), strict=True):
        policies = [*study.learned, *study.rules]
        for place, policy in enumerate(reversed(policies)):
            found = figure_of(study, policy, TO_BEST)
            low, high = found.ends
            colour = "C0" if policy in study.learned else "tab:grey"
            axis.plot([low, high], [place, place], color=colour, linewidth=2)
            axis.plot(found.value, place, "o", color=colour)
            for goal in GOALS.get(name, ()):
                if (goal.policy, goal.column) == (policy, TO_BEST):
                    axis.plot(float(goal.bound), place, "|", color="C3", markersize=16)
        axis.axvline(1.0, color="black", linewidth=0.8)
        axis.set_xscale("log")
        axis.set_yticks(range(len(policies)), policies[::-1])
        axis.set_title(f"{name}: {TO_BEST} ({study.best})")
        axis.set_xlabel("geometric mean over windows, 95 % interval; red: goal")
    return figure


def _effects(studies: Mapping[str, LogStudy]) -> Any:
    """What influence, cycle and old scores make of one fine-tuned network, over the best rule."""
    figure, axis = plt.subplots(figsize=(9, 5), layout="constrained")
    for name, study in studies.items():
        best = study.rules[study.best].bounded_slowdown
        ratios = [
            float(np.exp(np.log(each.bounded_slowdown / best).mean()))
            for each in study.effects.values()
        ]
        axis.plot(range(len(ratios)), ratios, "o-", label=name)
    axis.axhline(1.0, color="black", linewidth=0.8)
    labels = list(next(iter(studies.values())).effects)
    axis.set_xticks(range(len(labels)), labels, rotation=30, ha="right")
    axis.set_ylabel(TO_BEST)
    legend_above(figure, axis)
    return figure


def run(asked: Asked) -> Outcome:
    """Train, choose on the past of each log, and measure on what came after."""
    plan = HeldoutPlan.of(asked)
    with asked.bar("training and measuring", plan.steps) as add:
        studies = _studies(plan, ResultStore(asked.models, add), add)
    facts = {name: _facts(study) for name, study in studies.items()}
    return Outcome(
        claims=list(study_claims(studies)),
        seeds=range(plan.seeds),
        more=list(_passages(facts)),
        facts={"logs": facts},
        drawings=drawings_of(studies),
    )


def _studies(plan: HeldoutPlan, store: ResultStore, add: Add) -> dict[str, LogStudy]:
    studies = {}
    for name in plan.logs:
        studies[name] = study_log(name, plan, store)
        add(1)
    return studies


def _facts(study: LogStudy) -> dict[str, Any]:
    """What was chosen on the past of a log, and what the hook does to the scores."""
    plain = study.effects["as it decides"]
    return {
        "best_heuristic": study.best,
        "shares": study.shares,
        "shares_from": study.shares_from,
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
        "misdelivered": float(figures.misdelivered.mean()),
    }


def _passages(facts: Mapping[str, Mapping[str, Any]]) -> Iterator[str | TextTable]:
    """The same facts for people, a sentence and a table a log."""
    for name, log in facts.items():
        yield (
            f"\n{name}: best rule of the past {log['best_heuristic']}; part kept free of batch "
            f"work, by seed: {', '.join(f'{part:g}' for part in log['reserves'])}; starvation "
            f"bound {log['starvation_hours']:g} h. {SHARES_WORDS[log['shares_from']]}"
        )
        rows = []
        for label, each in log["effects"].items():
            interval = "-" if each["ci95"] is None else "{:.3f}-{:.3f}".format(*each["ci95"])
            row = [label, each["mean_bounded_slowdown"], each["to_as_it_decides"], interval]
            rows.append([*row, each["mean_max_wait"] / HOUR, each["misdelivered"]])
        header = ["HOOK", "BSLD", "TO AS IT DECIDES", "(95 %)", "MAXWAIT-H", "MISDELIVERED"]
        yield TextTable(header, rows)
