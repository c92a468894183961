"""Figures of studies as PNG files: panels, intervals, published and measured figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from slurm_rl_plugin.papers.study.claims import Row
from slurm_rl_plugin.papers.study.study import Drawings
from slurm_rl_plugin.papers.study.trials import NATIVE, PairedTrial
from slurm_rl_plugin.units import DAY, INTERACTIVE_WAIT_GOAL, FloatArray
from slurm_rl_plugin.whole_file import replacing

mpl.use("Agg")  # head nodes have no display
from matplotlib import pyplot as plt


def draw_all(folder: Path, drawings: Drawings) -> list[str]:
    """Draw each figure into the folder, which is made if needed; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, draw in drawings.items():
        figure = draw()
        with replacing(folder / name) as file:
            figure.savefig(file, dpi=120, format="png")
        plt.close(figure)
        paths.append(str(folder / name))
    return paths


def panels(
    titles: Sequence[str], size: tuple[float, float], *, rows: int = 1, share: bool = False
) -> tuple[Any, list[Any]]:
    """A figure with a panel for each title, row by row; `size` of a panel in inches."""
    columns = -(-len(titles) // rows)
    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=(size[0] * columns, size[1] * rows),
        sharey=share,
        squeeze=False,
        layout="constrained",
    )
    for axis, title in zip(axes.flat, titles, strict=False):
        axis.set_title(title, fontsize="medium")
    return figure, list(axes.flat)


def finished(
    figure: Any, axes: Sequence[Any], across: str, up: str, *, log: str = "", columns: int = 4
) -> Any:
    """The figure with labels at its axes, grids, and the longest legend above it.

    Args:
        across: label of the x axes without one.
        up: label of the first panel's y axis.
        log: "x", "y" or both: the logarithmic axes.
    """
    for axis in axes:
        axis.set_xlabel(axis.get_xlabel() or across)
        axis.set(**{f"{each}scale": "log" for each in log})
        axis.grid(alpha=0.3)
    axes[0].set_ylabel(up)
    longest = max(axes, key=lambda axis: len(axis.get_legend_handles_labels()[1]))
    if longest.get_legend_handles_labels()[1]:
        legend_above(figure, longest, columns)
    return figure


def interval_panels(
    claims: Sequence[Row],
    across: str,
    *,
    at: float | None = None,
    panel: str = "group",
    label: str = "policy",
) -> Any:
    """Measured figures with their intervals, the first claim on top; red: the printed ones.

    `panel` and `label` are parts of a claim's cell: what has a panel, and what has a row in it.
    """
    titles = list(dict.fromkeys(getattr(each.cell, panel) for each in claims))
    names = list(dict.fromkeys(getattr(each.cell, label) for each in claims))[::-1]
    share = len(claims) == len(titles) * len(names)
    figure, axes = panels(titles, (4.5, 1.8 + 0.25 * len(names)), share=share)
    for axis, title in zip(axes, titles, strict=True):
        mine = (each for each in claims if getattr(each.cell, panel) == title)
        known = {getattr(each.cell, label): each for each in mine}
        shown = {name: known[name] for name in names if name in known}
        axis.set_yticks(range(len(shown)), shown)
        axis.set_ylim(-0.5, len(shown) - 0.5)
        for place, each in enumerate(shown.values()):
            value, (low, high) = each.measured.value, each.measured.ends
            error = [[value - low], [high - value]]
            axis.errorbar([value], [place], xerr=error, fmt="x", color="tab:blue", capsize=3)
            if each.printed is not None:
                axis.plot(each.printed.value, place, "|", color="C3", markersize=16)
        if at is not None:
            axis.axvline(at, color="black", linewidth=0.8)
        axis.locator_params(axis="x", nbins=5)
    figure.supxlabel(across, fontsize="medium")
    return finished(figure, axes, "", "")


def cumulative_waits(
    trials: Mapping[str, PairedTrial], styles: Mapping[str, tuple[str, str]]
) -> Any:
    """Waits of interactive jobs, a panel for each trial; policy -> its colour and line."""
    figure, axes = panels(list(trials), (4.5, 4.2), rows=-(-len(trials) // 3))
    for axis, trial in zip(axes, trials.values(), strict=False):
        for name, (colour, style) in styles.items():
            if name in trial.schedules:
                waits, _ = trial.pooled(name, interactive=True)
                draw_cumulative(axis, np.maximum(waits, 1.0), style, colour, name)
        axis.axvline(INTERACTIVE_WAIT_GOAL, color="grey", linewidth=0.8)
    across = "wait (s; below 1 s at 1 s; line at 2 minutes)"
    return finished(figure, axes, across, "fraction of interactive jobs", log="x", columns=7)


def fairness_gaps(
    trials: Mapping[str, tuple[PairedTrial, int]], styles: Mapping[str, tuple[str, str]]
) -> Any:
    """Fairness less the native one over time, a panel for each trial and place of its log."""
    figure, axes = panels(list(trials), (4.5, 4.2), rows=-(-len(trials) // 3))
    for axis, (trial, place) in zip(axes, trials.values(), strict=False):
        for name, (colour, style) in styles.items():
            if name != NATIVE:
                seconds, gap = trial.fairness_gap(name, place)
                axis.plot(seconds / DAY, gap, style, color=colour, label=name)
        axis.axhline(0.0, color="black", linewidth=0.8)
    up = "fairness (eq. 4) less that of the native scheduler"
    return finished(figure, axes, "time (days)", up, columns=6)


def draw_cumulative(axis: Any, values: FloatArray, style: str, colour: str, name: str) -> None:
    """Draw the cumulative distribution of some values."""
    levels = np.linspace(0.0, 1.0, 1000)
    axis.plot(np.quantile(values, levels), levels, style, color=colour, label=name)


def legend_above(figure: Any, axis: Any, columns: int = 4) -> None:
    """Draw the legend of an axis above the figure, each name once."""
    lines, labels = axis.get_legend_handles_labels()
    first = dict(reversed(list(zip(labels, lines, strict=True))))
    names = list(dict.fromkeys(labels))
    figure.legend(
        [first[name] for name in names],
        names,
        loc="outside upper center",
        ncols=min(len(names), columns),
    )


def comparison(claims: Sequence[Row], quantity: str, columns: Sequence[str] = ()) -> Any:
    """Published and measured figures, a panel for each group, on a logarithmic scale."""
    drawn = [one for one in claims if one.printed and (not columns or one.cell.column in columns)]
    groups = list(dict.fromkeys(claim.cell.group for claim in drawn))
    figure, axes = panels(groups, (10, 3.2), rows=len(groups))
    for axis, group in zip(axes, groups, strict=True):
        cells = [claim for claim in drawn if claim.cell.group == group]
        places = range(len(cells))
        published = [claim.printed.value for claim in cells if claim.printed is not None]
        measured = [claim.measured.value for claim in cells]
        axis.plot(places, published, "o", markersize=10, markerfacecolor="none", label="published")
        axis.plot(places, measured, "x", label="measured")
        axis.set_yscale("log")
        names = [claim.cell.in_group for claim in cells]
        axis.set_xticks(places, names, rotation=45, ha="right", fontsize=8)
        axis.grid(alpha=0.3)
        axis.set_ylabel(quantity)
    axes[0].legend()
    return figure
