"""Pictures of the held-out study: ratios to the best rule, and what the hook does to the gain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from slurm_rl_plugin.papers.heldout.experiment import LogStudy, figure_of
from slurm_rl_plugin.papers.heldout.goals import GOALS, TO_BEST
from slurm_rl_plugin.papers.study.figure_file import legend_above
from slurm_rl_plugin.papers.study.study import Drawings


def drawings_of(studies: Mapping[str, LogStudy]) -> Drawings:
    """Ratios of every policy, and what the hook does to them."""
    return {
        "heldout-ratios.png": lambda: _ratios(studies),
        "heldout-effects.png": lambda: _effects(studies),
    }


def _ratios(studies: Mapping[str, LogStudy]) -> Any:
    """One panel a log: every policy's ratio with its interval; goals as marks."""
    figure, axes = plt.subplots(
        1, len(studies), figsize=(5 * len(studies), 6), sharey=True, layout="constrained"
    )
    for axis, (name, study) in zip(np.atleast_1d(axes), studies.items(), strict=True):
        policies = [*study.learned, *study.rules]
        for place, policy in enumerate(reversed(policies)):
            found = figure_of(study, policy, TO_BEST)
            low, high = found.ends
            colour = "C0" if policy in study.learned else "tab:grey"
            axis.plot([low, high], [place, place], color=colour, linewidth=2)
            axis.plot(found.value, place, "o", color=colour)
            for goal in GOALS.get(name, ()):
                if (goal.policy, goal.column) == (policy, TO_BEST):
                    axis.plot(float(goal.bound), place, "|", color="C3", markersize=16)
        axis.axvline(1.0, color="black", linewidth=0.8)
        axis.set_xscale("log")
        axis.set_yticks(range(len(policies)), policies[::-1])
        axis.set_title(f"{name}: {TO_BEST} ({study.best})")
        axis.set_xlabel("geometric mean over windows, 95 % interval; red: goal")
    return figure


def _effects(studies: Mapping[str, LogStudy]) -> Any:
    """What influence, cycle and old scores make of one fine-tuned network, over the best rule."""
    figure, axis = plt.subplots(figsize=(9, 5), layout="constrained")
    for name, study in studies.items():
        best = study.rules[study.best].bounded_slowdown
        ratios = [
            float(np.exp(np.log(each.bounded_slowdown / best).mean()))
            for each in study.effects.values()
        ]
        axis.plot(range(len(ratios)), ratios, "o-", label=name)
    axis.axhline(1.0, color="black", linewidth=0.8)
    labels = list(next(iter(studies.values())).effects)
    axis.set_xticks(range(len(labels)), labels, rotation=30, ha="right")
    axis.set_ylabel(TO_BEST)
    legend_above(figure, axis)
    return figure
