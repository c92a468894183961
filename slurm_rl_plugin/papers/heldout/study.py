"""`heldout`: learned orders against the best simple rule on what they have not seen, as a study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from slurm_rl_plugin.learning.evaluation.heldout import WindowFigures
from slurm_rl_plugin.learning.evaluation.paired_windows import ratio_over_windows
from slurm_rl_plugin.papers.heldout.experiment import HeldoutPlan, LogStudy, study_claims, study_log
from slurm_rl_plugin.papers.heldout.figures import drawings_of
from slurm_rl_plugin.papers.study.claim_tables import TextTable
from slurm_rl_plugin.papers.study.result_store import ResultStore
from slurm_rl_plugin.papers.study.study import Add, Asked, Outcome
from slurm_rl_plugin.units import HOUR


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


def _passages(facts: Mapping[str, Mapping[str, Any]]) -> Iterator[str | TextTable]:
    """The same facts for people, a sentence and a table a log."""
    for name, log in facts.items():
        yield (
            f"\n{name}: best rule of the past {log['best_heuristic']}; part kept free of batch "
            f"work, by seed: {', '.join(f'{part:g}' for part in log['reserves'])}; starvation "
            f"bound {log['starvation_hours']:g} h"
        )
        rows = []
        for label, each in log["effects"].items():
            interval = "-" if each["ci95"] is None else "{:.3f}-{:.3f}".format(*each["ci95"])
            row = [label, each["mean_bounded_slowdown"], each["to_as_it_decides"], interval]
            rows.append([*row, each["mean_max_wait"] / HOUR])
        yield TextTable(["HOOK", "BSLD", "TO AS IT DECIDES", "(95 %)", "MAXWAIT-H"], rows)
