"""What groups of jobs wait in two replays of the same jobs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slurm_rl_plugin.learning.evaluation.group_waits import (
    LEAST_LOSS,
    groupings_of,
)
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import HOUR, FloatArray, IntArray
from slurm_rl_plugin.utility.summary import ScheduledJobs
from slurm_rl_plugin.what_if.blocks import Blocks
from slurm_rl_plugin.what_if.committee.hours_waited import (
    GROUPED_BY,
    GroupHours,
    HoursWaited,
)
from slurm_rl_plugin.what_if.effects import ALL, judged_effect


def hours_in_replays(
    prepared: PreparedLog,
    before: ScheduledJobs,
    after: ScheduledJobs,
    counted: slice,
    rng: np.random.Generator,
) -> HoursWaited:
    """Mean hours that a job of each group waits, with intervals over weeks or days drawn again.

    Args:
        prepared: the jobs.
        before: all of them under the order that is compared with.
        after: the same under the other.
        counted: places of those that are measured, at least one.
        rng: draws weeks or days.
    """
    blocks = Blocks.over(prepared.log.submit[counted], rng)
    waits = before.wait[counted], after.wait[counted]
    every = np.arange(len(waits[0]))
    rows = [_row(ALL, ALL, every, waits, blocks)]
    for by, group, jobs in _members(prepared, counted):
        rows.append(_row(by, group, jobs, waits, blocks))
    return HoursWaited.of(rows, blocks, each=True)


def _members(prepared: PreparedLog, counted: slice) -> Iterator[tuple[str, str, IntArray]]:
    """Kind and name of each group, and the places of its jobs among those counted."""
    for by, grouping in groupings_of(prepared).items():
        if by not in GROUPED_BY:
            continue
        of = grouping.place[counted]
        order = np.argsort(of, kind="stable")
        ends = np.searchsorted(of[order], np.arange(len(grouping.names) + 1))
        for place, name in enumerate(grouping.names):
            jobs = order[ends[place] : ends[place + 1]]
            if len(jobs):
                yield by, name, jobs


def _row(
    by: str,
    group: str,
    jobs: IntArray,
    waits: tuple[FloatArray, FloatArray],
    blocks: Blocks,
) -> GroupHours:
    old, new = waits[0][jobs], waits[1][jobs]
    drawn = blocks.means(old, jobs), blocks.means(new, jobs)
    means = float(old.mean()), float(new.mean())
    effect = judged_effect("mean_wait", means, drawn, blocks, LEAST_LOSS)
    return GroupHours(
        by=by,
        group=group,
        jobs=len(jobs),
        before=effect.before / HOUR,
        after=effect.after / HOUR,
        longest_before=float(old.max()) / HOUR,
        longest_after=float(new.max()) / HOUR,
        ratio=effect.ratio,
        ratio_ci95=effect.ratio_ci95,
        word=effect.verdict,
    )
