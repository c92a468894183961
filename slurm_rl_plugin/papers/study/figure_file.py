"""Where every figure of a reproduction ends: a whole PNG file, its legend off the lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

from slurm_rl_plugin.papers.study.study import Drawings
from slurm_rl_plugin.whole_file import replacing

mpl.use("Agg")  # head nodes have no display
from matplotlib import pyplot as plt


def draw_all(folder: Path, drawings: Drawings) -> list[str]:
    """Draw each figure into the folder, which is made where it does not exist; their paths.

    Args:
        folder: of the PNG files.
        drawings: of a study.
    """
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
