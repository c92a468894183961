"""The figure of the shadow report: who would move, and waits of classes and of every group."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl

from slurm_rl_plugin.cli.evaluate.schedule_figures import draw_wait_curve
from slurm_rl_plugin.cli.evaluate.study.figure import draw_group_waits
from slurm_rl_plugin.hook.audit.summary import AuditSummary
from slurm_rl_plugin.utility.summary import ScheduledJobs
from slurm_rl_plugin.whole_file import replacing

mpl.use("Agg")  # head nodes have no display
from matplotlib import pyplot as plt

#: Accounts drawn; the largest.
ACCOUNTS = 10


def draw_shadow(
    path: Path,
    summary: AuditSummary,
    further_than: int,
    study: Mapping[str, Any],
    schedules: Mapping[str, ScheduledJobs],
) -> None:
    """Draw one PNG; it never appears half written.

    Args:
        path: of the file, in a folder that exists.
        summary: of the audit log.
        further_than: ranks from which on a job counts as moved.
        study: of the replay, as JSON has it.
        schedules: policy -> the replayed jobs under it; {} where there was no replay.
    """
    figure = plt.figure(figsize=(15, 12 if schedules else 4), layout="constrained")
    rows = figure.subfigures(2 if schedules else 1, 1, squeeze=False)[:, 0]
    axes = rows[0].subplots(1, 3)
    _draw_moves(axes[0], summary, further_than)
    for axis, interactive in zip(axes[1:], (True, False), strict=True):
        _draw_waits(axis, schedules, interactive)
    for each in rows[1:]:
        draw_group_waits(each.subplots(1, 2, sharey=True), study)
    with replacing(path) as file:
        figure.savefig(file, dpi=120, format="png")
    plt.close(figure)


def _draw_moves(axis: Any, summary: AuditSummary, further_than: int) -> None:
    """Bars to the right: shares that would start earlier; to the left: later."""
    accounts = sorted(summary.by_account.items(), key=lambda each: -each[1].count)[:ACCOUNTS]
    rows = {"all jobs": summary.all_moves, **summary.by_class, **dict(accounts)}
    known = [(name, each.shares(further_than)) for name, each in rows.items() if each.count]
    for place, (_, (earlier, later)) in enumerate(known):
        axis.barh(place, earlier or 0.0, color="tab:green")
        axis.barh(place, -(later or 0.0), color="tab:red")
    axis.set_yticks(range(len(known)), [name for name, _ in known])
    axis.invert_yaxis()
    axis.axvline(0.0, color="black", linewidth=0.8)
    axis.set_xlabel(f"later   share moved more than {further_than} ranks   earlier")
    axis.set_title("the decided order beside the site's")


def _draw_waits(axis: Any, schedules: Mapping[str, ScheduledJobs], interactive: bool) -> None:
    for name, jobs in schedules.items():
        draw_wait_curve(axis, jobs, interactive, name)
    axis.set_xscale("log")
    axis.set_xlabel("wait (s, below 1 s drawn at 1 s)")
    axis.set_ylabel("share of the jobs")
    axis.set_title("interactive jobs, replayed" if interactive else "batch jobs, replayed")
    if axis.lines:
        axis.legend()
