"""`rlscheduler`: the heuristics of RLScheduler, and a search in-sample where asked, as a study."""

from __future__ import annotations

from typing import Any

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.papers.rlscheduler_2020.claims import fixed_claims
from slurm_rl_plugin.papers.rlscheduler_2020.experiment import SEQUENCE_STARTS, reproduce
from slurm_rl_plugin.papers.rlscheduler_2020.search import (
    FULL,
    QUICK,
    SearchPlan,
    described,
    search_all,
    search_claims,
    search_facts,
)
from slurm_rl_plugin.papers.study.comparison_figure import comparison
from slurm_rl_plugin.papers.study.study import Asked, Outcome

_NO_TRACES = "no traces: give their directory, or name it in the variable SLURM_RL_TRACES."


def run(asked: Asked) -> Outcome:
    """Simulate the ten sequences of each trace under every rule."""
    if asked.seeds is not None and not asked.search:
        raise ConfigurationError(
            "--seeds is for heuristics: rlscheduler's sequences are given, but for --search."
        )
    plan = _search_plan(asked) if asked.search else None
    claims = reproduce(asked.traces_or_refuse(_NO_TRACES))
    more: list[str] = []
    facts: dict[str, Any] = {}
    if plan is not None:
        with asked.bar("searching", plan.steps) as add:
            found = search_all(plan, lambda _: add(1))
        claims += search_claims(found)
        more, facts = [described(plan, found)], {"search": search_facts(plan, found)}
    slowdowns = [claim for claim in claims if not claim.cell.column]
    return Outcome(
        claims=claims,
        seeds=SEQUENCE_STARTS,
        table=fixed_claims,
        more=more,
        facts=facts,
        drawings={"rlscheduler.png": lambda: comparison(slowdowns, "mean bounded slowdown")},
    )


def _search_plan(asked: Asked) -> SearchPlan:
    return SearchPlan(
        settings=QUICK if asked.quick else FULL,
        seeds=range(asked.number_of_seeds(fewest=1, why="a search needs at least 1")),
        traces=asked.traces_or_refuse(_NO_TRACES),
    )
