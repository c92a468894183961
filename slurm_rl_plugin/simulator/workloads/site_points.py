"""The priority that a site's slurm.conf gives the jobs of a log: weights times factors."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain.machine import Machine, ResourceLimit
from slurm_rl_plugin.domain.resources import CPUS, ResourceRequests
from slurm_rl_plugin.simulator.scoring.site_priority import SitePriority
from slurm_rl_plugin.simulator.workloads.machine_load import completed_requests, partition_of
from slurm_rl_plugin.units import MINUTE, FloatArray, IntArray

#: Of PriorityFlags: weights of resources count amounts, not parts of the partition's; and size is
#: over the minutes that a job asks for.
_AMOUNTS, _OVER_TIME = "NO_NORMAL_TRES", "SMALL_RELATIVE_TO_TIME"
#: Of PriorityFlags: fair share is the classic one.
_CLASSIC = "NO_FAIR_TREE"


def site_priority(log: JobLog, machine: Machine) -> SitePriority:
    """What slurmctld would give each job: factors of what it asked for, not of what it gets.

    Args:
        log: the jobs; each is of a partition of the machine.
        machine: with its weights.
    """
    weights, partition = machine.weights, partition_of(log, machine)
    asked = completed_requests(log, machine)
    points = weights.size * _sizes(log, asked, machine)
    points += weights.partition * _partition_factors(machine)[partition]
    points += weights.qos * _qos_factors(log, machine)
    points += _resource_points(asked, machine, partition)
    return SitePriority(
        points=points,
        age=float(weights.age),
        highest_age=float(weights.highest_age),
        fairshare=float(weights.fairshare),
        period=float(weights.period),
        fair_tree=_CLASSIC not in weights.flags,
    )


def _sizes(log: JobLog, asked: ResourceRequests, machine: Machine) -> FloatArray:
    """Mean of the parts of all nodes and of all CPUs that a job asks for, shape [n].

    By a flag the larger of the two, over the whole minutes of its limit.
    """
    nodes = np.maximum(asked.nodes, 1) / machine.nodes
    cpus = asked.of(CPUS) / machine.capacity[0]
    size: FloatArray = (nodes + cpus) / 2
    if _OVER_TIME in machine.weights.flags:
        known = np.isfinite(log.time_limit) & (log.time_limit > 0)
        limit = np.where(known, log.time_limit, log.run_time)  # as everywhere (definitions)
        size = np.maximum(nodes, cpus) / np.maximum(np.ceil(limit / MINUTE), 1.0)
    return 1.0 - size if machine.weights.favours_small else size


def _partition_factors(machine: Machine) -> FloatArray:
    factors = np.array([float(each.priority_factor) for each in machine.partitions])
    return factors / max(factors.max(initial=0.0), 1.0)


def _qos_factors(log: JobLog, machine: Machine) -> FloatArray:
    highest = max((each.priority for each in machine.qos.values()), default=0.0)
    if highest <= 0.0:
        return np.zeros(len(log))
    none = ResourceLimit()
    found = [machine.qos.get(name, none).priority / highest for name in log.qos]
    return np.array(found, dtype=np.float64)


def _resource_points(asked: ResourceRequests, machine: Machine, partition: IntArray) -> FloatArray:
    """PriorityWeightTRES: of parts of what the partition has, or of amounts; shape [n]."""
    points = np.zeros(len(asked))
    for name, weight in machine.weights.resources.items():
        amounts = asked.of(name)
        if _AMOUNTS not in machine.weights.flags:
            amounts = amounts / np.maximum(_of_partitions(machine, name)[partition], 1.0)
        points += weight * amounts
    return points


def _of_partitions(machine: Machine, name: str) -> FloatArray:
    """What the nodes of each partition have of a resource, shape [partitions]."""
    if name not in machine.resources:
        return np.zeros(len(machine.partitions))
    place = machine.resources.index(name)
    held = [kind.count * kind.resources[place] for kind in machine.kinds]
    return np.array([sum(held[kind] for kind in each.kinds) for each in machine.partitions])
