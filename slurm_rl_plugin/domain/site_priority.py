"""The points that Slurm's priority/multifactor gives a job for what it asks, and resets of usage.

The rules are those of slurmctld 22.05 to 26.05. Where they differ from Slurm's documentation, the
daemon wins; `tests/real/test_priorities_of_sprio.py` compares each factor with `sprio`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.domain.machine import Machine, PriorityWeights
from slurm_rl_plugin.domain.resources import CPUS, ResourceRequests
from slurm_rl_plugin.domain.share_tree import ShareTree
from slurm_rl_plugin.units import MINUTE, FloatArray, IntArray

#: Words of PriorityFlags.
AMOUNTS, OVER_TIME, CLASSIC = "NO_NORMAL_TRES", "SMALL_RELATIVE_TO_TIME", "NO_FAIR_TREE"
RAW_PARTITION, RAW_QOS, RAW_ASSOCIATION = "NO_NORMAL_PART", "NO_NORMAL_QOS", "NO_NORMAL_ASSOC"
#: What weights of resources call the nodes of a job.
_NODES = "nodes"


class FixedPoints(NamedTuple):
    """Points that do not change while a job waits, of n jobs."""

    size: FloatArray  #: shape [n]
    partition: FloatArray  #: shape [n]
    qos: FloatArray  #: shape [n]
    association: FloatArray  #: shape [n]
    resources: dict[str, FloatArray]  #: PriorityWeightTRES, by resource, each of shape [n]

    @property
    def total(self) -> FloatArray:
        """Their sum, shape [n]."""
        of_resources = sum(self.resources.values(), np.zeros_like(self.size))
        points: FloatArray = self.size + of_resources + self.standing
        return points

    @property
    def standing(self) -> FloatArray:
        """What partition, QOS and association add, shape [n]."""
        return self.partition + self.qos + self.association


def fixed_points(
    machine: Machine,
    asked: ResourceRequests,
    partition: IntArray,
    qos: Sequence[str],
    time_limit: FloatArray,
    association: FloatArray | None = None,
) -> FixedPoints:
    """Points of what n jobs ask for."""
    weights = machine.weights
    part = np.zeros(len(asked)) if association is None else association
    factors = np.array([float(each.priority_factor) for each in machine.partitions])
    if RAW_PARTITION not in weights.flags:
        factors /= factors.max(initial=1.0)
    highest = max((each.priority for each in machine.qos.values()), default=0.0)
    unit = 1.0 if RAW_QOS in weights.flags else highest
    of_qos = {name: each.priority / unit for name, each in machine.qos.items() if highest > 0.0}
    return FixedPoints(
        size=weights.size * _sizes(machine, asked, time_limit),
        partition=weights.partition * factors[partition],
        qos=weights.qos * np.array([of_qos.get(name, 0.0) for name in qos], dtype=np.float64),
        association=weights.association * part,
        resources={
            name: weight * _parts(machine, asked, partition, name)
            for name, weight in weights.resources.items()
        },
    )


def association_factors(weights: PriorityWeights, tree: ShareTree) -> FloatArray:
    """Priority of each association over the highest, with NO_NORMAL_ASSOC as it is; shape [n]."""
    if RAW_ASSOCIATION in weights.flags:
        return tree.priority
    factors: FloatArray = tree.priority / (float(tree.priority.max()) or 1.0)
    return factors


def next_reset(period: str, last: datetime) -> datetime | None:
    """When PriorityUsageResetPeriod sets all usage to 0 after the last reset, local time.

    None for never: NOW resets once, when slurmctld starts. WEEKLY is on Sundays.
    """
    day = last.replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "DAILY":
        return day + timedelta(days=1)
    if period == "WEEKLY":
        return day + timedelta(days=7 - day.isoweekday() % 7)
    months = {"MONTHLY": 1, "QUARTERLY": 3, "YEARLY": 12}.get(period)
    if months is None:
        return None
    following = (day.month - 1) // months * months + months
    return day.replace(year=day.year + following // 12, month=following % 12 + 1, day=1)


def _sizes(machine: Machine, asked: ResourceRequests, time_limit: FloatArray) -> FloatArray:
    """Mean of the parts of all nodes and of all CPUs that a job asks for, shape [n].

    With SMALL_RELATIVE_TO_TIME the larger of the two over the minutes of the job's limit.
    """
    nodes = np.maximum(asked.nodes, 1) / machine.nodes
    cpus = asked.of(CPUS) / machine.capacity[0]
    size: FloatArray = (nodes + cpus) / 2
    if OVER_TIME in machine.weights.flags:
        size = np.maximum(nodes, cpus) / np.maximum(np.ceil(time_limit / MINUTE), 1.0)
    size = np.clip(size, 0.0, 1.0)
    return 1.0 - size if machine.weights.favours_small else size


def _parts(machine: Machine, asked: ResourceRequests, partition: IntArray, name: str) -> FloatArray:
    """Parts of what the partition has, or with NO_NORMAL_TRES amounts, shape [n]."""
    amounts = np.maximum(asked.nodes, 1) * 1.0 if name == _NODES else asked.of(name)
    if AMOUNTS in machine.weights.flags:
        return amounts
    parts: FloatArray = amounts / np.maximum(_held(machine, name)[partition], 1.0)
    return parts


def _held(machine: Machine, name: str) -> FloatArray:
    """What the nodes of each partition have of a resource, shape [partitions]."""
    if name == _NODES:
        each = [float(kind.count) for kind in machine.kinds]
    elif name in machine.resources:
        place = machine.resources.index(name)
        each = [kind.count * kind.resources[place] for kind in machine.kinds]
    else:
        return np.zeros(len(machine.partitions))
    return np.array([sum(each[kind] for kind in one.kinds) for one in machine.partitions])
