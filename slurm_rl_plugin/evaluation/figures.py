"""Pictures of what is compared: schedules, groups before and after, changes, learning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from slurm_rl_plugin.evaluation.study import Study, shown_groups
from slurm_rl_plugin.evaluation.what_if_study import VariantStudy
from slurm_rl_plugin.hook.audit.log import AuditSummary
from slurm_rl_plugin.measure.intervals import BETTER, INCONCLUSIVE, NO_DIFFERENCE, WORSE
from slurm_rl_plugin.units import HOUR, MINUTE
from slurm_rl_plugin.utility.summary import ScheduledJobs
from slurm_rl_plugin.whole_file import replacing

mpl.use("Agg")  # head nodes have no display
from matplotlib import pyplot as plt

#: Waits of groups below are drawn there: one minute, in hours.
_SHORTEST = MINUTE / HOUR
#: Ratios of a change beyond are drawn at the edge.
_EDGE = 100.0
#: Accounts whose moves are drawn; the largest.
_MOVED_ACCOUNTS = 10
_COLOURS = {BETTER: "tab:green", WORSE: "tab:red", NO_DIFFERENCE: "tab:blue", INCONCLUSIVE: "0.6"}
#: Lines that may lie on each other differ in their dashes.
_STYLES = ("-", "-", "-", "--", ":")


def save_png(figure: Any, path: Path) -> str:
    """Write a figure, whole or not at all, and forget it; its path."""
    with replacing(path) as file:
        figure.savefig(file, dpi=120, format="png")
    plt.close(figure)
    return str(path)


def draw_schedules(folder: Path, schedules: Mapping[str, ScheduledJobs]) -> str:
    """Draw wait-cdf.png, the waits of both classes with a line for each policy; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    _draw_waits(axes, schedules)
    return save_png(figure, folder / "wait-cdf.png")


def _draw_waits(axes: Any, schedules: Mapping[str, ScheduledJobs]) -> None:
    """The share of each class that started within each wait; nothing where it has no jobs."""
    for axis, interactive in zip(axes, (True, False), strict=True):
        for (name, jobs), style in zip(schedules.items(), cycle(_STYLES), strict=False):
            waits = np.sort(jobs.wait[jobs.interactive == interactive])
            if len(waits):
                share = np.arange(1, len(waits) + 1) / len(waits)
                axis.plot(np.maximum(waits, 1.0), share, style, label=name, drawstyle="steps-post")
        axis.set(xscale="log", xlabel="wait (s, below 1 s drawn at 1 s)")
        axis.set(
            ylabel="share of the jobs", title="interactive jobs" if interactive else "batch jobs"
        )
        axis.grid(visible=True, alpha=0.3)
        if axis.lines:
            axis.legend()


def draw_groups(path: Path, study: Study) -> str:
    """Mean and longest wait of every group, before and after."""
    figure, axes = plt.subplots(1, 2, figsize=(11, 8), sharey=True, layout="constrained")
    _draw_group_waits(axes, study)
    return save_png(figure, path)


def _draw_group_waits(axes: Any, study: Study) -> None:
    """A row a group: from its wait under the order compared with to that under the judged one."""
    base = study.compared_with
    model = study.model or next(reversed(study.losers), base)
    rows = {
        f"{by}: {name}": groups[name].waits
        for by, groups in study.groups.items()
        for name in shown_groups(by, groups)
    }
    places = range(len(rows))
    for axis, measure in zip(axes, ("mean_wait", "longest_wait"), strict=True):
        before, after = (
            [max(getattr(waits[each], measure) / HOUR, _SHORTEST) for waits in rows.values()]
            for each in (base, model)
        )
        both = zip(before, after, strict=True)
        colours = ["tab:red" if new > old else "tab:green" for old, new in both]
        axis.hlines(places, before, after, colors=colours, linewidth=2.5)
        axis.plot(before, places, "o", color="grey", label=base)
        axis.plot(after, places, "D", color="black", label=model)
        axis.set(xscale="log", xlabel="hours (below a minute drawn there)")
        axis.set_title(measure.replace("_", " "))
        axis.grid(axis="x", alpha=0.3)
    axes[0].set_yticks(places, list(rows))
    axes[0].invert_yaxis()
    axes[0].legend()


def draw_shadow(
    path: Path,
    summary: AuditSummary,
    further_than: int,
    study: Study | None,
    schedules: Mapping[str, ScheduledJobs],
) -> None:
    """Who would move, and waits of classes and of every group."""
    figure = plt.figure(figsize=(15, 12 if study else 4), layout="constrained")
    rows = figure.subfigures(2 if study else 1, 1, squeeze=False)[:, 0]
    axes = rows[0].subplots(1, 3)
    _draw_moves(axes[0], summary, further_than)
    _draw_waits(axes[1:], schedules)
    if study:
        _draw_group_waits(rows[1].subplots(1, 2, sharey=True), study)
    save_png(figure, path)


def _draw_moves(axis: Any, summary: AuditSummary, further_than: int) -> None:
    """Bars to the right: shares that would start earlier; to the left: later."""
    accounts = sorted(summary.by_account.items(), key=lambda each: -each[1].count)
    rows = {"all jobs": summary.all_moves, **summary.by_class, **dict(accounts[:_MOVED_ACCOUNTS])}
    known = [(name, each.shares(further_than)) for name, each in rows.items() if each.count]
    for place, (_, (earlier, later)) in enumerate(known):
        axis.barh(place, earlier or 0.0, color="tab:green")
        axis.barh(place, -(later or 0.0), color="tab:red")
    axis.set_yticks(range(len(known)), [name for name, _ in known])
    axis.invert_yaxis()
    axis.axvline(0.0, color="black", linewidth=0.8)
    axis.set_xlabel(f"later   share moved more than {further_than} ranks   earlier")
    axis.set_title("the decided order and the site's")


def draw_variants(folder: Path, variants: Mapping[str, VariantStudy]) -> list[str]:
    """Mean waits after each change over those before, with intervals; names of the files."""
    paths = [folder / f"variant-{number + 1}.png" for number in range(len(variants))]
    for path, (name, variant) in zip(paths, variants.items(), strict=True):
        _draw_variant(path, name, variant)
    return [path.name for path in paths]


def _draw_variant(path: Path, name: str, variant: VariantStudy) -> None:
    rows = {"all jobs": variant.figures["mean_wait"]}
    for by, groups in variant.groups.items():
        for group in shown_groups(by, groups):
            account = variant.service.accounts.get(group) if by == "account" else None
            got = ""
            now, then = (None, None) if account is None else account.ratio
            if now is not None and then is not None:
                got = f" (got {now:.2f}, then {then:.2f})"
            rows[f"{by}: {group}{got}"] = groups[group].figures["mean_wait"]
    rows = {title: each for title, each in rows.items() if each.ratio}
    figure, axis = plt.subplots(figsize=(9, 1.6 + 0.28 * len(rows)), layout="constrained")
    for place, effect in enumerate(rows.values()):
        colour = _COLOURS[effect.verdict]
        if effect.ratio_ci95 is not None:
            low, high = np.clip(effect.ratio_ci95, 1.0 / _EDGE, _EDGE)
            axis.hlines(place, low, high, colors=colour, linewidth=2.0)
        shape = "o" if effect.verdict in (BETTER, WORSE) else "D"
        ratio = np.clip(effect.ratio or 1.0, 1.0 / _EDGE, _EDGE)
        axis.plot([ratio], [place], shape, color=colour)
    axis.axvline(1.0, color="black", linewidth=0.8)
    axis.set_xscale("log")
    axis.set_yticks(range(len(rows)), list(rows))
    axis.invert_yaxis()
    axis.set_xlabel(
        "mean wait then over now (95 % interval); left is shorter\n"
        "of accounts: service over entitlement, now and then"
    )
    mark = " (cluster not well known)" if variant.inconclusive else ""
    axis.set_title(f"{name[:90]}{mark}", fontsize=10)
    axis.grid(axis="x", alpha=0.3)
    for label, colour in _COLOURS.items():
        axis.plot([], [], "o", color=colour, label=label)
    figure.legend(loc="outside lower center", ncols=len(_COLOURS), fontsize=8)
    save_png(figure, path)


def draw_learning_curve(
    path: Path, curve: Sequence[tuple[int, float, float]], step: str, name: str, measure: str
) -> None:
    """The objective on training and on validation loads, columns of `curve`, against its steps."""
    path.parent.mkdir(parents=True, exist_ok=True)
    steps, training, validation = (np.array(each) for each in zip(*curve, strict=True))
    best = int(np.argmax(validation))
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    axes.plot(steps, training, color="tab:grey", label="training loads")
    axes.plot(steps, validation, color="tab:blue", label="validation loads")
    axes.plot(steps[best], validation[best], "o", color="tab:blue", label="kept")
    axes.set(title=f"{name}: learning curve", xlabel=step, ylabel=measure)
    axes.legend()
    save_png(figure, path)
