"""`responsive-reserve`: networks that hold processors, against their goals, as a study."""

from __future__ import annotations

from functools import partial

from slurm_rl_plugin.learning.export.network import import_network
from slurm_rl_plugin.papers.responsive_reserve.experiment import reproduce, steps
from slurm_rl_plugin.papers.responsive_reserve.figure import drawings_of
from slurm_rl_plugin.papers.study.effort import Plan
from slurm_rl_plugin.papers.study.result_store import ResultStore
from slurm_rl_plugin.papers.study.study import Asked, Outcome


def run(asked: Asked) -> Outcome:
    """Train on the load of 2008, and try the shipped network, or a given one, on LPC-EGEE."""
    plan = Plan.of(asked)
    reserve = import_network(asked.policy or asked.shipped(asked.paper))
    with asked.bar("training and simulating", steps(plan)) as add:
        found = reproduce(plan, reserve, ResultStore(asked.models, add), partial(add, 1))
    return Outcome(claims=found.claims, seeds=range(plan.seeds), drawings=drawings_of(found))
