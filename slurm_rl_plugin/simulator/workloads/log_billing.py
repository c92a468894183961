"""What the site bills the jobs of a log for each second, where it has weights for that."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain.billing import Billing, billed_each_second
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.domain.resources import CPUS, MEMORY, ResourceRequests
from slurm_rl_plugin.simulator.workloads.machine_load import all_requests, partition_of
from slurm_rl_plugin.units import FloatArray, IntArray


def billed_on_machine(log: JobLog, machine: Machine) -> FloatArray | None:
    """Billing units of each job for a second, shape [n]; None where it bills CPUs alone.

    A job that gets whole nodes is billed for the CPUs and generic resources that any node of its
    partition has at least, and for the memory that it asks for, as Slurm does.

    Args:
        log: the jobs; each is of a partition of the machine.
        machine: whose weights and usage factors hold.
    """
    billing = machine.billing
    if billing.counts_cpus:
        return None
    partition = partition_of(log, machine)
    asked = _with_whole_nodes(all_requests(log, machine), partition, machine)
    processors = np.maximum(log.processors, np.ceil(asked.of(CPUS))).astype(np.int64)
    names = [each.name for each in machine.partitions]
    return billed_each_second(billing, names, partition, processors, asked, log.qos)


def billed_in_log(log: JobLog, billing: Billing | None) -> FloatArray | None:
    """The same by what the log alone tells: CPUs that jobs got and what else they asked for."""
    if billing is None or billing.counts_cpus:
        return None
    return billed_each_second(
        billing, log.partitions, log.partition, log.processors, log.requests, log.qos
    )


def _with_whole_nodes(
    asked: ResourceRequests, partition: IntArray, machine: Machine
) -> ResourceRequests:
    alone = np.array([each.whole_nodes or machine.whole_nodes for each in machine.partitions])
    whole = asked.exclusive | alone[partition]
    if not whole.any():
        return asked
    least = _least_of_any_node(machine)[partition] * np.maximum(asked.nodes, 1)[:, None]
    given = np.pad(least, ((0, 0), (0, len(asked.names) - len(machine.resources))))
    return replace(
        asked, total=np.where(whole[:, None], np.maximum(asked.total, given), asked.total)
    )


def _least_of_any_node(machine: Machine) -> FloatArray:
    """What each node of a partition has at least, memory left out; [partitions, resources]."""
    each = np.array([kind.resources for kind in machine.kinds], dtype=np.float64)
    least = np.zeros((len(machine.partitions), len(machine.resources)))
    for place, partition in enumerate(machine.partitions):
        if partition.kinds:
            least[place] = each[list(partition.kinds)].min(axis=0)
    if MEMORY in machine.resources:
        least[:, machine.resources.index(MEMORY)] = 0.0
    return least
