"""The `study` of a JSON document: figures of every policy, waits of every group, who loses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from slurm_rl_plugin.learning.evaluation.group_waits import (
    GroupWaits,
    groupings_of,
    losers,
    waits_of_groups,
)
from slurm_rl_plugin.learning.evaluation.schedule_waits import median_ratios, waits_of
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.utility.summary import ScheduledJobs

#: Policies that the others' figures are put over, where they are there.
BELOW = ("fifo", "multifactor")


def study_entry(
    prepared: PreparedLog,
    schedules: Mapping[str, ScheduledJobs],
    counted: slice,
    base: str,
    judged: Iterable[str],
) -> dict[str, Any]:
    """Everything that a study prints.

    Args:
        prepared: the jobs, with the classes that are reported.
        schedules: policy -> all jobs under it.
        counted: places of the jobs that are measured, at least one.
        base: the policy that others are compared with.
        judged: the policies of which it is told who loses.
    """
    figures = {name: waits_of(jobs, counted) for name, jobs in schedules.items()}
    groups = _waits(prepared, schedules, counted)
    return {
        "counted_jobs": len(prepared.log.submit[counted]),
        "processors": prepared.capacity,
        "class_rule": prepared.class_rule,
        "compared_with": base,
        "policies": {name: asdict(each) for name, each in figures.items()},
        **{
            f"ratio_to_{below}": {
                name: median_ratios([each], [figures[below]]) for name, each in figures.items()
            }
            for below in BELOW
            if below in figures
        },
        "groups": _by_group(groups),
        "losers": {
            name: [asdict(each) for each in losers(groups[base], groups[name])]
            for name in judged
            if name != base
        },
    }


def _waits(
    prepared: PreparedLog, schedules: Mapping[str, ScheduledJobs], counted: slice
) -> dict[str, dict[str, dict[str, GroupWaits]]]:
    """Policy -> what jobs are grouped by -> group -> its waits."""
    groupings = groupings_of(prepared)
    return {
        name: {by: waits_of_groups(each, jobs.wait, counted) for by, each in groupings.items()}
        for name, jobs in schedules.items()
    }


def _by_group(
    waits: Mapping[str, Mapping[str, Mapping[str, GroupWaits]]],
) -> dict[str, dict[str, dict[str, Any]]]:
    """What jobs are grouped by -> group -> its jobs, and mean and longest wait of each policy."""
    first = next(iter(waits.values()))
    return {
        by: {
            group: {
                "jobs": each.jobs,
                "waits": {
                    name: {
                        "mean_wait": found[by][group].mean_wait,
                        "longest_wait": found[by][group].longest_wait,
                    }
                    for name, found in waits.items()
                },
            }
            for group, each in groups.items()
        }
        for by, groups in first.items()
    }
