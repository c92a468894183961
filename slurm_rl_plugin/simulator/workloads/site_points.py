"""The priority that a site's slurm.conf gives the jobs of a log: weights times factors."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain.machine import Machine, PriorityWeights, ResourceLimit
from slurm_rl_plugin.domain.resources import CPUS, ResourceRequests
from slurm_rl_plugin.simulator.scoring.site_priority import SitePriority
from slurm_rl_plugin.simulator.workloads.machine_load import completed_requests, partition_of
from slurm_rl_plugin.units import FloatArray, IntArray

#: Of PriorityFlags: weights of resources count amounts, not parts of the partition's.
_AMOUNTS = "NO_NORMAL_TRES"


def site_priority(log: JobLog, machine: Machine) -> SitePriority:
    """What slurmctld would give each job: factors of what it asked for, not of what it gets.

    Args:
        log: the jobs; each is of a partition of the machine.
        machine: with its weights.
    """
    weights, partition = machine.weights, partition_of(log, machine)
    asked = completed_requests(log, machine)
    points = weights.size * _sizes(asked, machine, weights)
    points += weights.partition * _partition_factors(machine)[partition]
    points += weights.qos * _qos_factors(log, machine)
    points += _resource_points(asked, machine, partition)
    return SitePriority(
        points=points,
        age=float(weights.age),
        highest_age=float(weights.highest_age),
        fairshare=float(weights.fairshare),
        period=float(weights.period),
    )


def _sizes(asked: ResourceRequests, machine: Machine, weights: PriorityWeights) -> FloatArray:
    """Mean of the parts of all nodes and of all CPUs that a job asks for, shape [n]."""
    nodes = np.maximum(asked.nodes, 1) / machine.nodes
    size: FloatArray = (nodes + asked.of(CPUS) / machine.capacity[0]) / 2
    return 1.0 - size if weights.favours_small else size


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
