"""`switchback`: how often experiments on drawn clusters find what is there, as a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.papers.study.claim_tables import TextTable
from slurm_rl_plugin.papers.study.study import Asked, Outcome
from slurm_rl_plugin.papers.switchback.claims import never_off, switchback_claims
from slurm_rl_plugin.papers.switchback.experiment import (
    HARM,
    KINDS,
    QUICK,
    HeldTrial,
    TrialLength,
    held_trials,
)
from slurm_rl_plugin.papers.switchback.figures import drawings_of
from slurm_rl_plugin.utility.intervals import BETTER, WORSE
from slurm_rl_plugin.what_if.switchback.costs import GOALS

#: Clusters of each kind that --quick takes where nobody says how many.
_QUICK_SEEDS = 4


def run(asked: Asked) -> Outcome:
    """Hold experiments on clusters of which it is known what there is to find."""
    asked.refuse_policy("its orders are made for it")
    if asked.traces_given:
        raise ConfigurationError(f"{asked.paper} takes no traces: its clusters are drawn.")
    seeds = asked.number_of_seeds()
    if asked.quick and asked.seeds is None:
        seeds = _QUICK_SEEDS
    length = QUICK if asked.quick else TrialLength()
    with asked.bar("holding experiments", len(KINDS) * seeds) as add:
        found = held_trials(seeds, length, add)
    claims = list(switchback_claims(found))
    by_goal = {kind: _by_goal(trials) for kind, trials in found.items()}
    unnoticed = never_off(found[HARM])
    return Outcome(
        claims=claims,
        seeds=range(seeds),
        more=[
            "\nBy goal, parts of the clusters:",
            TextTable(
                ["CLUSTERS", "GOAL", "BETTER", "WORSE", "ESTIMATE"],
                [
                    [kind, goal, *(f"{value:.3f}" for value in row.values())]
                    for kind, goals in by_goal.items()
                    for goal, row in goals.items()
                ],
            ),
            f"\nNever off, of {seeds} with harm: {len(unnoticed)}.",
        ],
        facts={
            "experiment": length._asdict(),
            "by_goal": by_goal,
            "never_off": unnoticed,
        },
        drawings=drawings_of(found),
    )


def _by_goal(trials: Sequence[HeldTrial]) -> Mapping[str, Mapping[str, float]]:
    """Goal -> how often it was said to be better or worse, and the mean estimate, as a log."""
    found: dict[str, dict[str, float]] = {}
    for place, goal in enumerate(GOALS):
        looked = [each.found[place] for each in trials]
        found[goal] = {
            "better": float(np.mean([each.word == BETTER for each in looked])),
            "worse": float(np.mean([each.word == WORSE for each in looked])),
            "estimate": float(np.mean([each.effect.estimate for each in looked])),
        }
    return found
