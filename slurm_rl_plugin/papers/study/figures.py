"""Figures of studies: whole PNG files, legends off the lines, published beside measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

from slurm_rl_plugin.papers.study.claims import Claim
from slurm_rl_plugin.papers.study.study import Drawings
from slurm_rl_plugin.whole_file import replacing

mpl.use("Agg")  # head nodes have no display
from matplotlib import pyplot as plt


def draw_all(folder: Path, drawings: Drawings) -> list[str]:
    """Draw each figure into the folder, which is made where it does not exist; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, draw in drawings.items():
        figure = draw()
        with replacing(folder / name) as file:
            figure.savefig(file, dpi=120, format="png")
        plt.close(figure)
        paths.append(str(folder / name))
    return paths


def legend_above(figure: Any, axis: Any, columns: int = 4) -> None:
    """Put the legend of an axis above the figure, each name once."""
    lines, labels = axis.get_legend_handles_labels()
    first = dict(reversed(list(zip(labels, lines, strict=True))))
    names = list(dict.fromkeys(labels))
    figure.legend(
        [first[name] for name in names],
        names,
        loc="outside upper center",
        ncols=min(len(names), columns),
    )


def comparison(claims: Sequence[Claim], quantity: str, columns: Sequence[str] = ()) -> Any:
    """Published and measured figures, a row of cells for each group, on a logarithmic scale.

    Args:
        columns: that are shown; all of them where none is named.
    """
    drawn = [one for one in claims if one.printed and (not columns or one.cell.column in columns)]
    groups = list(dict.fromkeys(claim.cell.group for claim in drawn))
    figure, axes = plt.subplots(
        len(groups), 1, figsize=(10, 3.2 * len(groups)), squeeze=False, layout="constrained"
    )
    for axis, group in zip(axes[:, 0], groups, strict=True):
        _draw_group(axis, [claim for claim in drawn if claim.cell.group == group])
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
