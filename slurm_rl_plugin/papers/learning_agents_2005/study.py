"""`learning-agents`: many independent agents share a grid (2005), as a study."""

from __future__ import annotations

import os
from dataclasses import asdict

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.papers.learning_agents_2005.claims import claims_of
from slurm_rl_plugin.papers.learning_agents_2005.experiment import FULL, QUICK, reproduce, steps
from slurm_rl_plugin.papers.learning_agents_2005.figures import drawings_of
from slurm_rl_plugin.papers.study.result_store import ResultStore
from slurm_rl_plugin.papers.study.study import Asked, Outcome


def run(asked: Asked) -> Outcome:
    """Simulate every rule on every grid, and judge."""
    seeds = asked.number_of_seeds()
    if asked.policy or asked.traces_given:
        raise ConfigurationError(
            f"{asked.paper} takes no traces and no --policy: its grids are generated."
        )
    size = QUICK if asked.quick else FULL
    with asked.bar("simulating", steps(size, seeds)) as add:
        found = reproduce(size, seeds, add, ResultStore(asked.models), threads=os.cpu_count() or 1)
    claims = claims_of(found)
    return Outcome(
        claims=claims,
        seeds=range(seeds),
        drawings=drawings_of(found),
        manifest={"size": asdict(size), "claims": [claim.as_json() for claim in claims]},
    )
