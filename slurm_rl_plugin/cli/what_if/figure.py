"""Pictures of `what-if`: mean waits after a change over those before, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

from slurm_rl_plugin.cli.evaluate.study.text import shown_groups
from slurm_rl_plugin.utility.intervals import BETTER, INCONCLUSIVE, NO_DIFFERENCE, WORSE
from slurm_rl_plugin.whole_file import replacing

mpl.use("Agg")  # head nodes have no display
from matplotlib import pyplot as plt

#: Ratios beyond are drawn at the edge.
_EDGE = 100.0
_COLOURS = {
    BETTER: "tab:green",
    WORSE: "tab:red",
    NO_DIFFERENCE: "tab:blue",
    INCONCLUSIVE: "0.6",
}


def draw_variants(folder: Path, document: Mapping[str, Any]) -> list[str]:
    """One PNG a variant, `variant-1.png` and so on; names of the files.

    Args:
        folder: that is there.
        document: of `what-if`, as JSON has it.
    """
    names = []
    for number, (name, variant) in enumerate(document["variants"].items(), start=1):
        path = folder / f"variant-{number}.png"
        _draw(path, name, variant)
        names.append(path.name)
    return names


def _draw(path: Path, name: str, variant: Mapping[str, Any]) -> None:
    rows = [("all jobs", variant["figures"]["mean_wait"])]
    for by, groups in variant["groups"].items():
        rows += [
            (_title(by, group, variant["service"]), groups[group]["figures"]["mean_wait"])
            for group in shown_groups(by, groups)
        ]
    rows = [row for row in rows if row[1]["ratio"]]
    height = 1.6 + 0.28 * len(rows)
    figure, axis = plt.subplots(figsize=(9, height), layout="constrained")
    for place, (_, effect) in enumerate(rows):
        _draw_effect(axis, place, effect)
    axis.axvline(1.0, color="black", linewidth=0.8)
    axis.set_xscale("log")
    axis.set_yticks(range(len(rows)), [title for title, _ in rows])
    axis.invert_yaxis()
    axis.set_xlabel(
        "mean wait then over now (95 % interval); left is shorter\n"
        "of accounts: service over entitlement, now and then"
    )
    mark = " (cluster not well known)" if variant["inconclusive"] else ""
    axis.set_title(f"{name[:90]}{mark}", fontsize=10)
    axis.grid(axis="x", alpha=0.3)
    for label, colour in _COLOURS.items():
        axis.plot([], [], "o", color=colour, label=label)
    figure.legend(loc="outside lower center", ncols=len(_COLOURS), fontsize=8)
    with replacing(path) as file:
        figure.savefig(file, dpi=120, format="png")
    plt.close(figure)


def _title(by: str, group: str, service: Mapping[str, Any]) -> str:
    """Of accounts with the parts of their entitlement that they got, now and then."""
    title = f"{by}: {group}"
    ratios = service["accounts"].get(group, {}).get("ratio", [None]) if by == "account" else [None]
    if None in ratios:
        return title
    return f"{title} (got {ratios[0]:.2f}, then {ratios[1]:.2f})"


def _draw_effect(axis: Any, place: int, effect: Mapping[str, Any]) -> None:
    ratio, verdict = effect["ratio"], effect["verdict"]
    colour = _COLOURS[verdict]
    bounds: Sequence[float] | None = effect["ratio_ci95"]
    if bounds is not None:
        ends = [min(max(end, 1.0 / _EDGE), _EDGE) for end in bounds]
        axis.hlines(place, *ends, colors=colour, linewidth=2.0)
    shape = "o" if verdict in (BETTER, WORSE) else "D"
    axis.plot([min(max(ratio, 1.0 / _EDGE), _EDGE)], [place], shape, color=colour)
