"""The front: what an order gains against how long it lets the unluckiest job wait, as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl

from slurm_rl_plugin.whole_file import replacing

mpl.use("Agg")  # head nodes have no display
from matplotlib import pyplot as plt

#: Waits further apart than so many times are drawn on a logarithmic scale.
_FAR_APART = 10.0


def draw_front(
    path: Path,
    points: Mapping[str, tuple[float, float]],
    axes_names: tuple[str, str],
    joined: Sequence[str] = (),
) -> None:
    """Draw a point for each policy, better towards the lower left corner; whole or not at all.

    Args:
        path: of the PNG.
        points: policy -> mean bounded slowdown and longest wait, in any units above 0.
        axes_names: what they are, with their units.
        joined: policies on one line, in its order.
    """
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    if joined:
        line = [points[name] for name in joined]
        axes.plot(*zip(*line, strict=True), color="tab:grey", linewidth=1, zorder=1)
    for name, (slowdown, wait) in points.items():
        colour = "tab:blue" if name in joined else "tab:orange"
        axes.plot(slowdown, wait, "o", color=colour, zorder=2)
        axes.annotate(name, (slowdown, wait), (5, 4), textcoords="offset points", fontsize=8)
    axes.set(xlabel=axes_names[0], ylabel=axes_names[1])
    waits = [wait for _, wait in points.values()]
    if max(waits) > _FAR_APART * min(waits) > 0.0:
        axes.set_yscale("log")
    axes.margins(x=0.15)
    axes.grid(visible=True, alpha=0.3)
    with replacing(path) as file:
        figure.savefig(file, dpi=120, format="png")
    plt.close(figure)
