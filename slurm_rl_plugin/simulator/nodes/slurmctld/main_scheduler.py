"""A pass of Slurm's main scheduler: jobs in order, and whoever finds no room closes his partition.

As schedule() of slurmctld has it (Slurm 26.05): behind the first job of a partition that does not
start, no other job of it starts and none on any of its nodes; only backfill looks further.
"""

from __future__ import annotations

from typing import NamedTuple

from slurm_rl_plugin.simulator.kernel.cluster import Cluster, forget_started
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.nodes.machine_now import (
    MachineNow,
    fails_now,
    start_on_nodes,
    within_limits,
)
from slurm_rl_plugin.simulator.nodes.placement import find_room
from slurm_rl_plugin.simulator.nodes.requests import NodeBits
from slurm_rl_plugin.units import BoolArray, IntArray


class MainPasses(NamedTuple):
    """Which nodes are whose, and space for a pass."""

    partition: IntArray  #: of each job, shape [n]
    serves: NodeBits  #: the nodes of each partition as a set, shape [partitions, words]
    asks: IntArray  #: each partition with a shape that any of its jobs have, shape [pairs, 2]
    #: Partitions of which a job found no room in this pass, or that have none waiting.
    failed: BoolArray
    closed: NodeBits  #: nodes of these, as a set


@compiled_borrowing
def _close_partition(passes: MainPasses, partition: int) -> None:
    passes.failed[partition] = True
    for word in range(len(passes.closed)):
        passes.closed[word] |= passes.serves[partition, word]


@compiled_borrowing
def _open_asked(passes: MainPasses, waiting: IntArray) -> int:
    """Open the partitions of which jobs may wait; how many these are."""
    for partition in range(len(passes.failed)):
        passes.failed[partition] = True
    opened = 0
    for pair in range(len(passes.asks)):
        partition, shape = passes.asks[pair, 0], passes.asks[pair, 1]
        if waiting[shape] > 0 and passes.failed[partition]:
            passes.failed[partition] = False
            opened += 1
    for word in range(len(passes.closed)):
        passes.closed[word] = 0
    return opened


@compiled_borrowing
def start_in_main_pass(
    workload: Workload,
    cluster: Cluster,
    machine: MachineNow,
    passes: MainPasses,
    order: IntArray,
    count: int,
) -> int:
    """Start jobs in order, each partition up to the first of its jobs that finds no room.

    Args:
        machine: changed in place; `waiting` counts all that wait.

    Returns:
        How many jobs started.
    """
    started, left_open = 0, _open_asked(passes, machine.waiting)
    for place in range(count):
        if left_open == 0:
            break
        job = order[place]
        partition, shape = passes.partition[job], machine.requests.shape[job]
        if passes.failed[partition] or not within_limits(machine.limits, job):
            continue
        found = 0
        if not fails_now(machine, shape):
            found = find_room(machine.requests, machine.nodes, shape, passes.closed)
        if found == 0:
            _close_partition(passes, partition)
            left_open -= 1
            continue
        start_on_nodes(workload, cluster, machine, job, found)
        started += 1
    if started:
        forget_started(cluster)
    return started
