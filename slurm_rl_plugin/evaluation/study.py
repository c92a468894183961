"""What orders do to a site's users: figures of every policy, waits of every group, who loses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.learning.evaluation.group_waits import (
    Loser,
    groupings_of,
    losers,
    waits_of_groups,
)
from slurm_rl_plugin.learning.evaluation.schedule_waits import (
    ScheduleWaits,
    median_ratios,
    partition_figures,
    resource_figures,
    waits_of,
)
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.utility.summary import ScheduledJobs, summarise
from slurm_rl_plugin.utility.time_utility import bounded_slowdown
from slurm_rl_plugin.what_if.effects import GroupEffects

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

#: Accounts shown, those with most jobs; --json has them all.
ACCOUNTS = 8
#: Policies that the others' figures are put over, where they are there.
BELOW = ("fifo", "multifactor")


def absent() -> Any:
    """A field of a document that JSON leaves out where it is None."""
    return field(default=None, metadata={"left_out": True})


def as_json(document: DataclassInstance) -> dict[str, Any]:
    """A document as JSON has it."""
    found = asdict(document)
    left_out = [each.name for each in fields(document) if "left_out" in each.metadata]
    return {key: each for key, each in found.items() if key not in left_out or each is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanAndLongest:
    """Waits of some jobs, seconds."""

    mean_wait: float
    longest_wait: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """How many jobs a group has, and what they wait under each policy."""

    jobs: int
    waits: dict[str, MeanAndLongest]


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """What acts on a configured policy; None for no bound."""

    backfilling: str
    influence_hours: float | None
    refresh_seconds: float | None
    starvation_hours: float | None
    reserve_most: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OnNodes:
    """A machine of nodes, and its `resources` and `partitions` under each policy, for JSON."""

    machine: dict[str, Any]
    policies: dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """Every policy and every group."""

    counted_jobs: int
    processors: int
    class_rule: str
    compared_with: str
    policies: dict[str, ScheduleWaits]
    #: ratio_to_fifo, ratio_to_multifactor: policy -> figure -> ratio to that rule's; None where it
    #: was not simulated
    ratio_to_fifo: dict[str, dict[str, float | None]] | None = absent()
    ratio_to_multifactor: dict[str, dict[str, float | None]] | None = absent()
    groups: dict[str, dict[str, Group]]  #: what jobs are grouped by -> group -> its waits
    losers: dict[str, list[Loser]]  #: policy that is judged -> groups that wait longer under it
    model: str | None = absent()  #: the configured policy; of a site's study alone, as what follows
    settings: InForce | None = absent()
    on_nodes: OnNodes | None = absent()
    own_class_rules: bool | None = absent()
    #: what makes figures another thing than they seem, a sentence each
    notices: list[str] | None = absent()

    @classmethod
    def of(
        cls,
        prepared: PreparedLog,
        schedules: Mapping[str, ScheduledJobs],
        counted: slice,
        base: str,
        judged: Iterable[str],
    ) -> Study:
        """Measure schedules of the same jobs."""
        figures = {name: waits_of(jobs, counted) for name, jobs in schedules.items()}
        groupings = groupings_of(prepared)
        waits = {
            name: {by: waits_of_groups(each, jobs.wait, counted) for by, each in groupings.items()}
            for name, jobs in schedules.items()
        }
        ratios: dict[str, Any] = {
            f"ratio_to_{below}": {
                name: median_ratios([each], [figures[below]]) for name, each in figures.items()
            }
            for below in BELOW
            if below in figures
        }
        return cls(
            counted_jobs=len(prepared.log.submit[counted]),
            processors=prepared.capacity,
            class_rule=prepared.class_rule,
            compared_with=base,
            policies=figures,
            **ratios,
            groups={
                by: {
                    group: Group(
                        jobs=each.jobs,
                        waits={
                            name: MeanAndLongest(
                                mean_wait=found[by][group].mean_wait,
                                longest_wait=found[by][group].longest_wait,
                            )
                            for name, found in waits.items()
                        },
                    )
                    for group, each in groups.items()
                }
                for by, groups in next(iter(waits.values())).items()
            },
            losers={name: losers(waits[base], waits[name]) for name in judged if name != base},
        )


def shown_groups(by: str, groups: Mapping[str, Group | GroupEffects]) -> list[str]:
    """All groups, but of the accounts those with most jobs."""
    if by != "account":
        return list(groups)
    return sorted(groups, key=lambda name: (-groups[name].jobs, name))[:ACCOUNTS]


def policy_entry(
    prepared: PreparedLog, schedule: ScheduledJobs, drop: tuple[int, int], *, users: bool
) -> dict[str, Any]:
    """One policy's figures; where jobs were not eligible at once also the wait since submission."""
    entry = summarise(schedule, drop=drop, accounts=prepared.accounts)
    measured = slice(drop[0], len(schedule.submit) - drop[1])
    if prepared.eligible_after is not None:
        since_submit = schedule.wait + prepared.eligible_after
        entry["mean_wait_since_submit"] = float(since_submit[measured].mean())
    entry.update(figures_on_nodes(prepared, schedule, measured))
    if users:
        names, log = prepared.log.users, prepared.log
        wait = schedule.wait[measured]
        slowdown = np.asarray(bounded_slowdown(wait, log.run_time[measured]), np.float64)
        jobs, waits, slowdowns = (
            np.bincount(log.user[measured], weights=each, minlength=len(names))
            for each in (None, wait, slowdown)
        )
        entry["users"] = {
            names[place]: {
                "jobs": int(jobs[place]),
                "mean_wait": float(waits[place] / jobs[place]),
                "mean_bounded_slowdown": float(slowdowns[place] / jobs[place]),
            }
            for place in np.flatnonzero(jobs).tolist()
        }
    return entry


def machine_entry(machine: Machine) -> dict[str, Any]:
    """Its nodes, what it bills, and what of its configuration is not simulated."""
    weights = {each.name: dict(each.billing) for each in machine.partitions if each.billing}
    factors = {name: each for name, each in machine.billing.factors.items() if each != 1.0}
    return {
        "name": machine.name,
        "nodes": machine.nodes,
        "resources": dict(zip(machine.resources, machine.capacity.tolist(), strict=True)),
        "partitions": [each.name for each in machine.partitions],
        **({"billing_weights": weights} if weights else {}),
        **({"usage_factors": factors} if factors else {}),
        "not_simulated": list(machine.left_out),
    }


def figures_on_nodes(
    prepared: PreparedLog, schedule: ScheduledJobs, measured: slice
) -> dict[str, Any]:
    """`resources` and `partitions` of a policy; empty where jobs ran on a pool of processors."""
    if prepared.machine is None:
        return {}
    counted = np.zeros(len(schedule.submit), dtype=np.bool_)
    counted[measured] = True
    return {
        "resources": resource_figures(prepared, schedule, prepared.machine),
        "partitions": partition_figures(prepared, schedule, prepared.machine, counted),
    }
