"""What a schedule did with the nodes of a machine: each resource, each partition."""

from __future__ import annotations

from typing import Any

import numpy as np

from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.simulator.workloads.machine_load import completed_requests, partition_of
from slurm_rl_plugin.units import INTERACTIVE_WAIT_GOAL, BoolArray
from slurm_rl_plugin.utility.responsiveness import bounded_slowdown
from slurm_rl_plugin.utility.summary import ScheduledJobs


def machine_figures(
    prepared: PreparedLog, schedule: ScheduledJobs, machine: Machine, counted: BoolArray
) -> dict[str, Any]:
    """`resources` and `partitions` of a policy's entry in `evaluate --json`.

    Args:
        prepared: the jobs, on this machine.
        schedule: the same with their starts.
        machine: whose nodes they ran on.
        counted: which of them count for partitions, shape [n].
    """
    return {
        "resources": resource_figures(prepared, schedule, machine),
        "partitions": partition_figures(prepared, schedule, machine, counted),
    }


def resource_figures(
    prepared: PreparedLog, schedule: ScheduledJobs, machine: Machine
) -> dict[str, Any]:
    """Of each resource that the machine has: its amount, and which part was asked for and in use.

    `utilization` is the part in use from the first submission to the last end, `load` what jobs
    asked for until the last submission over what there was.
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
    """Waits of the jobs of each partition that has any."""
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
