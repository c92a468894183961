"""Waits by group of jobs: an order that is better on average may be worse for some groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.domain.job_groups import Grouping, grouped_by_limit, grouped_by_width
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.simulator.workloads.machine_load import completed_requests, partition_of
from slurm_rl_plugin.units import MINUTE, BoolArray, FloatArray

#: Smallest growth of a wait that counts as a loss, seconds.
LEAST_LOSS = MINUTE


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWaits:
    """Waits of the jobs of one group under one schedule."""

    jobs: int  #: number of jobs
    mean_wait: float  #: seconds
    longest_wait: float  #: seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Loser:
    """A group that waits longer under one order than under another; waits in seconds."""

    by: str  #: the grouping
    group: str
    jobs: int  #: number of jobs
    #: mean_wait, longest_wait: under the reference order, and under the other.
    mean_wait: tuple[float, float]
    longest_wait: tuple[float, float]

    @property
    def mean_growth(self) -> float:
        """Growth of the mean wait, seconds."""
        return self.mean_wait[1] - self.mean_wait[0]

    @property
    def longest_growth(self) -> float:
        """Growth of the longest wait, seconds."""
        return self.longest_wait[1] - self.longest_wait[0]


def groupings_of(prepared: PreparedLog) -> dict[str, Grouping]:
    """Groupings of the jobs of a log: class, width, requested limit, account.

    On a machine of nodes also by partition, and by the resource that a job requests the largest
    part of, if there are several.
    """
    log = prepared.log
    return {
        "class": _classes(prepared.interactive),
        "width": grouped_by_width(log.processors, prepared.capacity),
        "limit": grouped_by_limit(log.time_limit),
        "account": Grouping(names=tuple(log.accounts), place=log.account),
        **({} if prepared.machine is None else _on_nodes(prepared, prepared.machine)),
    }


def groupings_of_workload(
    jobs: Workload, capacity: int, accounts: Sequence[str], resources: Sequence[str] = ()
) -> dict[str, Grouping]:
    """Groupings of the jobs of a simulation: class, width, limit, account, resource if known.

    `accounts` names the numbers of `jobs.account`, and `resources` the columns of `jobs.asked`; ()
    without a grouping by resource.
    """
    asked = jobs.asked
    several = len(resources) == asked.shape[1] and bool((asked[:, 1:] > 0.0).any())
    return {
        "class": _classes(jobs.interactive),
        "width": grouped_by_width(jobs.processors, capacity),
        "limit": grouped_by_limit(jobs.time_limit),
        "account": Grouping(names=tuple(accounts), place=jobs.account),
        **({"resource": _resources(asked, resources)} if several else {}),
    }


def _on_nodes(prepared: PreparedLog, machine: Machine) -> dict[str, Grouping]:
    found: dict[str, Grouping] = {}
    if len(machine.partitions) > 1:
        names = tuple(each.name for each in machine.partitions)
        found["partition"] = Grouping(names=names, place=partition_of(prepared.log, machine))
    parts = completed_requests(prepared.log, machine).total[:, : len(machine.resources)]
    parts = parts / np.maximum(machine.capacity, 1.0)
    if (parts[:, 1:] > 0.0).any():
        found["resource"] = _resources(parts, machine.resources)
    return found


def waits_of_groups(
    grouping: Grouping, wait: FloatArray, counted: slice | BoolArray
) -> dict[str, GroupWaits]:
    """Group -> waits of its counted jobs; `wait` is in seconds, of all jobs, shape [n]."""
    place, wait = grouping.place[counted], wait[counted]
    jobs = np.bincount(place, minlength=len(grouping.names))
    total = np.bincount(place, weights=wait, minlength=len(grouping.names))
    longest = np.full(len(grouping.names), -np.inf)
    np.maximum.at(longest, place, wait)
    return {
        grouping.names[each]: GroupWaits(
            jobs=int(jobs[each]),
            mean_wait=float(total[each] / jobs[each]),
            longest_wait=float(longest[each]),
        )
        for each in np.flatnonzero(jobs).tolist()
    }


def losers(
    before: Mapping[str, Mapping[str, GroupWaits]], after: Mapping[str, Mapping[str, GroupWaits]]
) -> list[Loser]:
    """Groups whose mean or longest wait grows by a minute or more, the largest mean growth first.

    Both arguments: grouping -> group -> its waits.
    """
    found = [
        Loser(
            by=by,
            group=group,
            jobs=old.jobs,
            mean_wait=(old.mean_wait, after[by][group].mean_wait),
            longest_wait=(old.longest_wait, after[by][group].longest_wait),
        )
        for by, groups in before.items()
        for group, old in groups.items()
    ]
    lose = [each for each in found if max(each.mean_growth, each.longest_growth) >= LEAST_LOSS]
    return sorted(lose, key=lambda each: -each.mean_growth)


def _classes(interactive: BoolArray) -> Grouping:
    return Grouping(names=("interactive", "batch"), place=(~interactive).astype(np.int64))


def _resources(parts: FloatArray, names: Sequence[str]) -> Grouping:
    return Grouping(names=tuple(names), place=np.argmax(parts, axis=1).astype(np.int64))
