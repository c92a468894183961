"""`ablation`: what each group of features is worth, held out, as a study."""

from __future__ import annotations

from functools import partial

from slurm_rl_plugin.papers.heldout.ablation import ablate, ablation_claims, training_steps
from slurm_rl_plugin.papers.heldout.ablation_figure import drawings_of
from slurm_rl_plugin.papers.heldout.experiment import HeldoutPlan
from slurm_rl_plugin.papers.study.result_store import ResultStore
from slurm_rl_plugin.papers.study.study import Asked, Outcome


def run(asked: Asked) -> Outcome:
    """Train every variant and measure."""
    plan = HeldoutPlan.of(asked)
    with asked.bar("training and measuring", training_steps(plan)) as add:
        found = ablate(plan, ResultStore(asked.models, add), partial(add, 1))
    return Outcome(
        claims=list(ablation_claims(found)),
        seeds=range(plan.seeds),
        facts={"best_heuristic": {name: log.best for name, log in found.items()}},
        drawings=drawings_of(found),
    )
