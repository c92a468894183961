"""The picture of a study: mean and longest wait of every group, before and after."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl

from slurm_rl_plugin.cli.evaluate.study.text import shown_groups
from slurm_rl_plugin.units import HOUR, MINUTE
from slurm_rl_plugin.whole_file import replacing

mpl.use("Agg")  # head nodes have no display
from matplotlib import pyplot as plt

#: Waits below are drawn there: one minute, in hours.
_SHORTEST = MINUTE / HOUR
_MEASURES = {"mean_wait": "mean wait", "longest_wait": "longest wait"}


def draw_groups(path: Path, study: Mapping[str, Any]) -> Path:
    """Draw one PNG; it never appears half written.

    Args:
        path: of the file.
        study: as JSON has it.
    """
    figure, axes = plt.subplots(1, 2, figsize=(11, 8), sharey=True, layout="constrained")
    draw_group_waits(axes, study)
    with replacing(path) as file:
        figure.savefig(file, dpi=120, format="png")
    plt.close(figure)
    return path


def draw_group_waits(axes: Any, study: Mapping[str, Any]) -> None:
    """A row a group: from its wait under the order compared with to that under the judged one.

    Args:
        axes: for the mean and for the longest wait.
        study: as JSON has it; the judged policy is its model, else the last of those judged.
    """
    base = study["compared_with"]
    model = study.get("model") or next(reversed(study["losers"]), base)
    rows = [
        (f"{by}: {group}", groups[group]["waits"])
        for by, groups in study["groups"].items()
        for group in shown_groups(by, groups)
    ]
    for axis, (measure, title) in zip(axes, _MEASURES.items(), strict=True):
        before = [max(waits[base][measure] / HOUR, _SHORTEST) for _, waits in rows]
        after = [max(waits[model][measure] / HOUR, _SHORTEST) for _, waits in rows]
        _draw_changes(axis, before, after, (base, model))
        axis.set_title(title)
    axes[0].set_yticks(range(len(rows)), [name for name, _ in rows])
    axes[0].invert_yaxis()
    axes[0].legend()


def _draw_changes(
    axis: Any, before: list[float], after: list[float], names: tuple[str, str]
) -> None:
    """Red where a group waits longer, green where shorter."""
    both = zip(before, after, strict=True)
    colours = ["tab:red" if new > old else "tab:green" for old, new in both]
    places = range(len(before))
    axis.hlines(places, before, after, colors=colours, linewidth=2.5)
    axis.plot(before, places, "o", color="grey", label=names[0])
    axis.plot(after, places, "D", color="black", label=names[1])
    axis.set_xscale("log")
    axis.set_xlabel("hours (below a minute drawn there)")
    axis.grid(axis="x", alpha=0.3)
