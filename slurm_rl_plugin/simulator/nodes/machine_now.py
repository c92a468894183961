"""The machine while it is simulated: nodes, requests, limits, bundled; starts and ends on them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import (
    ENDED,
    NEXT_ARRIVAL,
    PENDING,
    Cluster,
    start_job,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing, compiled_inline
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.nodes.group_limits import (
    GroupLimits,
    count_in_groups,
    within_limits,
)
from slurm_rl_plugin.simulator.nodes.node_state import (
    GIVEN_BACK,
    SEEN_ARRIVALS,
    SEEN_ENDS,
    NodeState,
    give_back,
    occupy,
)
from slurm_rl_plugin.simulator.nodes.placement import find_room, usable_cpus
from slurm_rl_plugin.simulator.nodes.requests import NodeRequests
from slurm_rl_plugin.units import FloatArray, IntArray

#: Indices into `Outlook.sought`.
BEST_NODE, SERVING, USABLE, GAINED = 0, 1, 2, 3


class Outlook(NamedTuple):
    """What is free later, and space to find that out.

    Attributes:
        looks: number of the look, shape [1].
        seen: number of the look that touched a node last, shape [nodes]; others are as now.
        free: on each node then, shape [nodes, resources].
        running: jobs on each node then.
        sought: of the job that room is sought for: the best node that holds it, -1 for none; how
            many nodes it could use, and CPUs on them; 1 where these may suffice; shape [4].
        head: the head of the queue that was looked at last, jobs started and ended by then, and
            when it is expected to find room; shape [4].
        both: space for what a node has free now and then, shape [resources].
        fails: number of the look in which a shape was found not to fit now and then, shape
            [shapes].
    """

    looks: IntArray
    seen: IntArray
    free: FloatArray
    running: IntArray
    sought: FloatArray
    head: FloatArray
    both: FloatArray
    fails: IntArray


class MachineNow(NamedTuple):
    """All that places jobs.

    Attributes:
        requests: of all jobs.
        nodes: what is free.
        limits: of groups of jobs.
        outlook: at a later time.
        waiting: pending jobs of each shape as `any_room` saw them last, shape [shapes].
    """

    requests: NodeRequests
    nodes: NodeState
    limits: GroupLimits
    outlook: Outlook
    waiting: IntArray


def no_outlook(nodes: NodeState) -> Outlook:
    """Space for what is free later."""
    return Outlook(
        looks=np.zeros(1, dtype=np.int64),
        seen=np.full(len(nodes.running), -1),
        free=np.zeros_like(nodes.free),
        running=np.zeros_like(nodes.running),
        sought=np.zeros(4),
        head=np.full(4, -1.0),
        both=np.zeros(nodes.free.shape[1]),
        fails=np.full(len(nodes.fails), -1),
    )


@compiled_inline
def fails_now(machine: MachineNow, shape: int) -> bool:
    """Whether a shape is known to find no room until a job ends."""
    return machine.nodes.fails[shape] == machine.nodes.counts[GIVEN_BACK]


@compiled_borrowing
def find_room_now(machine: MachineNow, shape: int) -> int:
    """`find_room` on all nodes; what found none is not looked for again until a job ends."""
    nodes = machine.nodes
    if fails_now(machine, shape):
        return 0
    count = find_room(machine.requests, nodes, shape, nodes.none_closed)
    if count == 0:
        nodes.fails[shape] = nodes.counts[GIVEN_BACK]
    return count


@compiled_borrowing
def is_free_now(machine: MachineNow, job: int, count: int) -> bool:
    """Whether a job can have the first `count` nodes of `chosen` now.

    What was found beside jobs that have outlived their limits need not be free yet.
    """
    requests, nodes = machine.requests, machine.nodes
    shape = requests.shape[job]
    for place in range(count):
        node = nodes.chosen[place]
        usable = usable_cpus(
            requests, shape, nodes.free[node], nodes.whole[node], nodes.running[node]
        )
        if usable < nodes.chosen_cpus[place]:
            return False
    return True


@compiled_borrowing
def start_on_nodes(
    workload: Workload, cluster: Cluster, machine: MachineNow, job: int, count: int
) -> None:
    """Start a job on the first `count` nodes of `chosen`."""
    occupy(machine.requests, machine.nodes, job, count)
    machine.waiting[machine.requests.shape[job]] -= 1
    count_in_groups(machine.limits, job, 1.0)
    start_job(workload, cluster, job)


@compiled_borrowing
def free_ended(cluster: Cluster, machine: MachineNow) -> None:
    """Give back the nodes of the jobs that have ended since the last call."""
    seen = machine.nodes.counts[SEEN_ENDS]
    for place in range(seen, cluster.counts[ENDED]):
        job = cluster.ended[place]
        give_back(machine.requests, machine.nodes, job)
        count_in_groups(machine.limits, job, -1.0)
    machine.nodes.counts[SEEN_ENDS] = cluster.counts[ENDED]


@compiled_borrowing
def count_arrivals(cluster: Cluster, machine: MachineNow) -> None:
    """Count the jobs of each shape that have come since the last call."""
    seen = machine.nodes.counts[SEEN_ARRIVALS]
    for job in range(seen, cluster.counts[NEXT_ARRIVAL]):
        machine.waiting[machine.requests.shape[job]] += 1
    machine.nodes.counts[SEEN_ARRIVALS] = cluster.counts[NEXT_ARRIVAL]


@compiled_borrowing
def any_room(cluster: Cluster, machine: MachineNow) -> bool:
    """Whether some pending job finds room now."""
    count_arrivals(cluster, machine)
    pending, shapes = cluster.counts[PENDING], len(machine.waiting)
    if machine.limits.groups.shape[1] == 0 and shapes < pending:
        fails, given_back = machine.nodes.fails, machine.nodes.counts[GIVEN_BACK]
        for shape in range(shapes):
            if machine.waiting[shape] == 0 or fails[shape] == given_back:
                continue
            if find_room_now(machine, shape) > 0:
                return True
        return False
    for place in range(pending):
        job = cluster.pending[place]
        shape = machine.requests.shape[job]
        if fails_now(machine, shape) or not within_limits(machine.limits, job):
            continue
        if find_room_now(machine, shape) > 0:
            return True
    return False
