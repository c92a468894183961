"""Figures of a schedule: slowdown, waits that its mean hides, resources and partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.simulator.workloads.machine_load import completed_requests, partition_of
from slurm_rl_plugin.units import INTERACTIVE_WAIT_GOAL, SHORT_JOB_RUN_TIME, BoolArray
from slurm_rl_plugin.utility.fairness import fairness_at_starts
from slurm_rl_plugin.utility.summary import ScheduledJobs, service_of
from slurm_rl_plugin.utility.time_utility import bounded_slowdown

#: Part of the counted jobs that are wide, by processors; the shown high quantile of the waits.
WIDE_PART, HIGH_WAIT = 0.1, 0.999
#: Figures shown as ratios, in the order of a report.
RATIOS = ("bounded_slowdown", "longest_wait", "p999_wait", "wide_wait", "mean_wait")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleWaits:
    """Figures of one schedule over the counted jobs; docs/research/definitions.md defines them."""

    bounded_slowdown: float  #: mean bounded slowdown
    #: mean_wait, longest_wait, p999_wait: seconds.
    mean_wait: float
    longest_wait: float
    p999_wait: float
    wide_wait: float  #: mean wait of the widest tenth, seconds
    short_within_120s: float  #: share of the jobs that ran less than 900 s
    fairness: float  #: mean of F_j
    misdelivered: float  #: part of a fortnight's service that went to the wrong account


#: Their names.
FIGURES = tuple(ScheduleWaits.__annotations__)


def waits_of(jobs: ScheduledJobs, counted: slice | BoolArray) -> ScheduleWaits:
    """The figures of the counted jobs of one schedule, one at least."""
    wait, run_time, processors = (
        each[counted] for each in (jobs.wait, jobs.run_time, jobs.processors)
    )
    at_once = wait[run_time < SHORT_JOB_RUN_TIME] <= INTERACTIVE_WAIT_GOAL
    wide = processors >= np.quantile(processors, 1.0 - WIDE_PART)
    fairness = fairness_at_starts(
        jobs.start, jobs.run_time, jobs.charged, jobs.account, jobs.shares
    )
    return ScheduleWaits(
        bounded_slowdown=float(np.mean(bounded_slowdown(wait, run_time))),
        mean_wait=float(wait.mean()),
        longest_wait=float(wait.max()),
        p999_wait=float(np.quantile(wait, HIGH_WAIT)),
        wide_wait=float(wait[wide].mean()),
        short_within_120s=float(at_once.mean()) if len(at_once) else 1.0,
        fairness=float(fairness[counted].mean()),
        misdelivered=service_of(jobs, counted).misdelivered,
    )


def median_ratios(
    mine: Sequence[ScheduleWaits], others: Sequence[ScheduleWaits]
) -> dict[str, float | None]:
    """Medians over pairs of the ratios of RATIOS; None if a wait of the others is 0."""
    found: dict[str, float | None] = {}
    for key in RATIOS:
        above, below = ([getattr(each, key) for each in waits] for waits in (mine, others))
        found[key] = float(np.median(np.divide(above, below))) if min(below) > 0.0 else None
    return found


def resource_figures(
    prepared: PreparedLog, schedule: ScheduledJobs, machine: Machine
) -> dict[str, Any]:
    """Capacity, use and demand of each resource of the machine.

    `utilization` is the part in use from the first submission to the last end, `load` the requested
    part from the first to the last submission.
    """
    asked, whole = completed_requests(prepared.log, machine), machine.capacity
    work = schedule.run_time @ asked.total
    first = schedule.submit.min()
    until_end = float((schedule.start + schedule.run_time).max() - first)
    until_last = float(schedule.submit.max() - first)
    return {
        name: {
            "capacity": float(whole[place]),
            "utilization": _part(work[place], whole[place] * until_end),
            "load": _part(work[place], whole[place] * until_last),
            "jobs": int((asked.total[:, place] > 0).sum()),
        }
        for place, name in enumerate(machine.resources)
        if whole[place] > 0
    }


def partition_figures(
    prepared: PreparedLog, schedule: ScheduledJobs, machine: Machine, counted: BoolArray
) -> dict[str, Any]:
    """Waits of the counted jobs, shape [n], of each partition with one."""
    partition = partition_of(prepared.log, machine)
    wait = schedule.start - schedule.submit
    slowdown = bounded_slowdown(wait, schedule.run_time)
    found = {}
    for place, each in enumerate(machine.partitions):
        mine = counted & (partition == place)
        if mine.any():
            found[each.name] = {
                "jobs": int(mine.sum()),
                "mean_wait": float(wait[mine].mean()),
                "median_wait": float(np.median(wait[mine])),
                "p95_wait": float(np.quantile(wait[mine], 0.95)),
                "max_wait": float(wait[mine].max()),
                "within_120s": float((wait[mine] <= INTERACTIVE_WAIT_GOAL).mean()),
                "mean_bounded_slowdown": float(slowdown[mine].mean()),
            }
    return found


def _part(of: float, whole: float) -> float | None:
    return float(of / whole) if whole > 0 else None
