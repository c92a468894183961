"""`ablation`: what each group of features is worth, held out, as a study with its figure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from slurm_rl_plugin.papers.heldout.ablation import (
    FITTED_Q,
    TO_ALL,
    VARIANTS,
    AblatedLog,
    ablate,
    ablation_claims,
    training_steps,
)
from slurm_rl_plugin.papers.heldout.experiment import HeldoutPlan
from slurm_rl_plugin.papers.heldout.seed_ratios import ratio_over_seeds
from slurm_rl_plugin.papers.study.result_store import ResultStore
from slurm_rl_plugin.papers.study.study import Asked, Drawings, Outcome


def drawings_of(found: Mapping[str, AblatedLog]) -> Drawings:
    """The one figure."""
    return {"ablation.png": lambda: _ratios(found)}


def _ratios(found: Mapping[str, AblatedLog]) -> Any:
    """One panel a log: each variant's seeds as points, their median with its interval."""
    figure, axes = plt.subplots(
        1, len(found), figsize=(4 * len(found), 3.5), sharey=True, layout="constrained"
    )
    variants = [*list(VARIANTS)[1:], FITTED_Q]
    for axis, (name, log) in zip(np.atleast_1d(axes), found.items(), strict=True):
        for place, variant in enumerate(reversed(variants)):
            rows = log.ratios(variant, TO_ALL)
            median = ratio_over_seeds(rows, log.block)
            low, high = median.ends
            axis.plot([low, high], [place, place], color="C0", linewidth=2)
            axis.plot(np.exp(rows.mean(axis=1)), [place] * len(rows), ".", color="tab:grey")
            axis.plot(median.value, place, "o", color="C0")
        axis.axvline(1.0, color="black", linewidth=0.8)
        axis.set_yticks(range(len(variants)), variants[::-1])
        axis.set_title(name)
    figure.supxlabel(f"{TO_ALL}: geometric mean over windows, 95 % interval; grey: seeds")
    return figure


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
