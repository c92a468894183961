"""Published and measured figures of an experiment over each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib import pyplot as plt

from slurm_rl_plugin.papers.study.claims import Claim


def comparison(claims: Sequence[Claim], quantity: str) -> Any:
    """One row of cells a group, on a logarithmic scale.

    Args:
        claims: with published figures, positive and in one unit.
        quantity: name and unit of the figures.
    """
    groups = list(dict.fromkeys(claim.cell.group for claim in claims))
    figure, axes = plt.subplots(
        len(groups), 1, figsize=(10, 3.2 * len(groups)), squeeze=False, layout="constrained"
    )
    for axis, group in zip(axes[:, 0], groups, strict=True):
        _draw_group(axis, [claim for claim in claims if claim.cell.group == group])
        axis.set_title(group)
        axis.set_ylabel(quantity)
    axes[0, 0].legend()
    return figure


def _draw_group(axis: Any, claims: Sequence[Claim]) -> None:
    places = range(len(claims))
    published = [claim.printed.value for claim in claims if claim.printed is not None]
    measured = [claim.measured.value for claim in claims]
    axis.plot(places, published, "o", markersize=10, markerfacecolor="none", label="published")
    axis.plot(places, measured, "x", label="measured")
    axis.set_yscale("log")
    names = [claim.cell.in_group for claim in claims]
    axis.set_xticks(places, names, rotation=45, ha="right", fontsize=8)
    axis.grid(alpha=0.3)
