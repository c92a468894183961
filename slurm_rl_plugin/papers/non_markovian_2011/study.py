"""`non-markovian`: the paper of 2011 as a study."""

from __future__ import annotations

from functools import partial

from slurm_rl_plugin.papers.non_markovian_2011.experiment import reproduce, steps
from slurm_rl_plugin.papers.non_markovian_2011.figures import drawings_of
from slurm_rl_plugin.papers.non_markovian_2011.run_time_estimates import estimate_report
from slurm_rl_plugin.papers.study.effort import Plan
from slurm_rl_plugin.papers.study.result_store import ResultStore
from slurm_rl_plugin.papers.study.study import Asked, Outcome


def run(asked: Asked) -> Outcome:
    """Train all networks and measure."""
    plan = Plan.of(asked)
    asked.refuse_policy("it compares four networks")
    with asked.bar("training and simulating", steps(plan)) as add:
        store = ResultStore(asked.models, add)
        found = reproduce(plan, store, asked.shipped, partial(add, 1))
    return Outcome(
        claims=found.claims,
        seeds=range(plan.seeds),
        more=estimate_report(found.estimates),
        facts={"estimates": found.estimates},
        drawings=drawings_of(found),
    )
