"""`heuristics`: the rules that need no learning, as a study."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from slurm_rl_plugin.papers.heuristics.experiment import reproduce, steps
from slurm_rl_plugin.papers.study.claim_tables import sampled_claims
from slurm_rl_plugin.papers.study.claims import Claim
from slurm_rl_plugin.papers.study.comparison_figure import comparison
from slurm_rl_plugin.papers.study.study import Asked, Outcome

#: File -> name and unit of the figures that it shows, and their columns.
_FIGURES = {
    "heuristics-waits.png": (
        "mean waits (s)",
        ("mean wait", "interactive mean wait", "batch mean wait"),
    ),
    "heuristics-fractions.png": ("fractions", ("interactive within 120 s", "U", "R", "J")),
}


def run(asked: Asked) -> Outcome:
    """Simulate every rule on every load."""
    seeds = asked.number_of_seeds(why="a standard error needs at least 2")
    traces = asked.traces_or_less("the segments of LPC-EGEE are left out")
    with asked.bar("simulating", steps(seeds, with_segments=traces is not None)) as add:
        claims = reproduce(seeds, traces, partial(add, 1))
    return Outcome(
        claims=claims,
        seeds=range(seeds),
        table=sampled_claims,
        drawings={file: partial(_drawn, claims, *shown) for file, shown in _FIGURES.items()},
    )


def _drawn(claims: Sequence[Claim], quantity: str, columns: Collection[str]) -> Any:
    drawn = [claim for claim in claims if claim.printed and claim.cell.column in columns]
    return comparison(drawn, quantity)
