"""`reactive-grids`: the paper of 2008 as a study."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.reactive_grid import REACTIVE_GRID
from slurm_rl_plugin.learning.export.network import import_network
from slurm_rl_plugin.papers.reactive_grids_2008.experiment import reproduce, steps
from slurm_rl_plugin.papers.reactive_grids_2008.figures import drawings_of
from slurm_rl_plugin.papers.reactive_grids_2008.on_line import on_line_facts, on_line_report
from slurm_rl_plugin.papers.reactive_grids_2008.shipped_models import (
    shipped_figures,
    shipped_report,
)
from slurm_rl_plugin.papers.study.effort import Plan
from slurm_rl_plugin.papers.study.result_store import ResultStore
from slurm_rl_plugin.papers.study.study import Asked, Outcome
from slurm_rl_plugin.policies.network import QNetwork


def run(asked: Asked) -> Outcome:
    """Train, or take the network that is given, and measure."""
    plan = Plan.of(asked)
    if asked.policy is not None:
        plan = replace(plan, network=_given_network(asked.policy))
    with asked.bar("training and simulating", steps(plan)) as add:
        found = reproduce(plan, ResultStore(asked.models, add), partial(add, 1))
    shipped = shipped_figures(plan.traces, plan.effort, asked.shipped)
    return Outcome(
        claims=found.claims,
        seeds=range(plan.seeds),
        more=[*on_line_report(found.on_line), *shipped_report(shipped)],
        facts={"on_line": on_line_facts(found.on_line), "shipped": shipped},
        drawings=drawings_of(found),
    )


def _given_network(path: Path) -> QNetwork:
    network = import_network(path)
    if network.schema != REACTIVE_GRID:
        raise ConfigurationError(
            f"model {path} is of schema {network.schema.name}: give one of {REACTIVE_GRID.name}, "
            "which `slurm-rl train --algorithm sarsa` writes."
        )
    return network
