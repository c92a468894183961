"""The machine while it is simulated: nodes, requests and limits; starts and ends on them.

What is free at a later time, when running jobs have ended and others started, is an outlook. It
begins with what is free now; a node is copied when it first changes. Room for a job is sought while
jobs end: only nodes that gain can give room.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.domain.machine import BackfillSettings
from slurm_rl_plugin.simulator.kernel.cluster import Cluster, start_job
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing, compiled_inline
from slurm_rl_plugin.simulator.nodes.node_state import (
    RELEASES,
    ROUNDING,
    SEEN_ARRIVALS,
    SEEN_ENDS,
    NodeBits,
    NodeRequests,
    NodeState,
    has,
    idle_nodes,
    occupy,
    release,
    taken,
)
from slurm_rl_plugin.simulator.nodes.placement import (
    choose_one,
    choose_several,
    find_room,
    holds,
    usable_cpus,
)
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray


class GroupLimits(NamedTuple):
    """Groups of jobs, and the amounts that the running jobs of each may have together."""

    groups: IntArray  #: of each job, shape [n, groups of a job]; -1 for none
    #: Limit of each group for each resource, each licence, nodes, jobs; inf for none; shape
    #: [groups, kinds].
    most: FloatArray
    used: FloatArray  #: by each group now, shape [groups, kinds]
    amounts: FloatArray  #: of each job, shape [n, kinds]

    def of_jobs(self, jobs: IntArray) -> GroupLimits:
        """The same for some of the jobs; a job may come twice."""
        return self._replace(groups=self.groups[jobs], amounts=self.amounts[jobs])


@compiled_borrowing
def within_limits(limits: GroupLimits, job: int) -> bool:
    """Whether the groups of a job have room for it."""
    for place in range(limits.groups.shape[1]):
        group = limits.groups[job, place]
        if group < 0:
            continue
        for kind in range(limits.most.shape[1]):
            wanted = limits.used[group, kind] + limits.amounts[job, kind]
            if limits.amounts[job, kind] > 0.0 and wanted > limits.most[group, kind] + ROUNDING:
                return False
    return True


@compiled_borrowing
def count_in_groups(limits: GroupLimits, job: int, sign: float) -> None:
    """Add a job to its groups (sign 1), or take it from them (-1)."""
    for place in range(limits.groups.shape[1]):
        group = limits.groups[job, place]
        if group < 0:
            continue
        for kind in range(limits.most.shape[1]):
            limits.used[group, kind] += sign * limits.amounts[job, kind]


#: Indices into `Outlook.sought`.
BEST_NODE, SERVING, USABLE, GAINED = 0, 1, 2, 3


class Outlook(NamedTuple):
    """What is free later, and space to find that out."""

    looks: IntArray  #: number of the look, shape [1]
    seen: IntArray  #: number of the last look that copied each node, shape [nodes]
    free: FloatArray  #: on each node then, shape [nodes, resources]
    running: IntArray  #: jobs on each node then
    #: For the job that seeks room: the best node that holds it, -1 for none; how many nodes it
    #: could use, and CPUs on them; 1 where these may suffice; shape [4].
    sought: FloatArray
    #: The last head of the queue, jobs started and ended by then, and when it is expected to find
    #: room; shape [4].
    head: FloatArray
    both: FloatArray  #: space for what is free on a node now and then, shape [resources]
    fails: IntArray  #: number of the last look in which each shape did not fit, shape [shapes]


class MachineNow(NamedTuple):
    """What places jobs."""

    requests: NodeRequests  #: of all jobs
    nodes: NodeState  #: what is free
    limits: GroupLimits  #: of groups of jobs
    outlook: Outlook  #: at a later time
    waiting: IntArray  #: pending jobs of each shape as `any_room` saw them last, shape [shapes]


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
    return machine.nodes.fails[shape] == machine.nodes.counts[RELEASES]


@compiled_borrowing
def find_room_now(machine: MachineNow, shape: int) -> int:
    """`find_room` on all nodes; a shape without room is not tried again until a job ends."""
    nodes = machine.nodes
    if fails_now(machine, shape):
        return 0
    count = find_room(machine.requests, nodes, shape, nodes.none_closed)
    if count == 0:
        nodes.fails[shape] = nodes.counts[RELEASES]
    return count


@compiled_borrowing
def is_free_now(machine: MachineNow, job: int, count: int) -> bool:
    """Whether a job can have the first `count` nodes of `chosen` now.

    Nodes of jobs that have outlived their limits need not be free yet.
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
def start_on_nodes(cluster: Cluster, machine: MachineNow, job: int, count: int) -> None:
    """Start a job on the first `count` nodes of `chosen`."""
    end = cluster.state[0].now + cluster.jobs[job].estimate
    occupy(machine.requests, machine.nodes, job, count, end)
    machine.waiting[machine.requests.shape[job]] -= 1
    count_in_groups(machine.limits, job, 1.0)
    start_job(cluster, job)


@compiled_borrowing
def free_ended(cluster: Cluster, machine: MachineNow) -> None:
    """Release the nodes of the jobs that have ended since the last call."""
    seen = machine.nodes.counts[SEEN_ENDS]
    for place in range(seen, cluster.state[0].ended):
        job = cluster.ended[place]
        release(machine.requests, machine.nodes, job)
        count_in_groups(machine.limits, job, -1.0)
    machine.nodes.counts[SEEN_ENDS] = cluster.state[0].ended


@compiled_borrowing
def count_arrivals(cluster: Cluster, machine: MachineNow) -> None:
    """Count the jobs of each shape that have come since the last call."""
    seen = machine.nodes.counts[SEEN_ARRIVALS]
    for job in range(seen, cluster.state[0].next_arrival):
        machine.waiting[machine.requests.shape[job]] += 1
    machine.nodes.counts[SEEN_ARRIVALS] = cluster.state[0].next_arrival


@compiled_borrowing
def any_room(cluster: Cluster, machine: MachineNow) -> bool:
    """Whether some pending job finds room now."""
    count_arrivals(cluster, machine)
    pending, shapes = cluster.state[0].pending, len(machine.waiting)
    if machine.limits.groups.shape[1] == 0 and shapes < pending:
        fails, releases = machine.nodes.fails, machine.nodes.counts[RELEASES]
        for shape in range(shapes):
            if machine.waiting[shape] == 0 or fails[shape] == releases:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMachine:
    """What a simulation on nodes needs in addition to the workload."""

    whole: FloatArray  #: what each node has, shape [nodes, resources], CPUs first
    weight: IntArray  #: nodes of less weight are taken first, shape [nodes]
    requests: NodeRequests  #: of the jobs of the workload
    limits: GroupLimits  #: of groups of jobs; nothing used
    partition: IntArray  #: of each job, shape [n]
    tier: IntArray  #: of each job's partition, shape [n]
    user: IntArray  #: of each job, shape [n]; -1 where unknown
    serves: BoolArray  #: whether a node belongs to a partition, shape [partitions, nodes]
    kinds: tuple[str, ...]  #: names of the columns of `limits`, CPUs first
    together: Mapping[str, float]  #: what all nodes have of each resource, by name
    #: When and how far slurmctld backfills, where it is simulated.
    backfill: BackfillSettings = field(default_factory=BackfillSettings)

    def of_jobs(self, jobs: IntArray) -> NodeMachine:
        """The same for some of the jobs; a job may come twice."""
        return replace(
            self,
            requests=self.requests.of_jobs(jobs),
            limits=self.limits.of_jobs(jobs),
            partition=self.partition[jobs],
            tier=self.tier[jobs],
            user=self.user[jobs],
        )

    def idle(self) -> MachineNow:
        """The machine before the first submission."""
        nodes = idle_nodes(self.whole, self.weight, self.requests)
        limits = self.limits._replace(used=np.zeros_like(self.limits.most))
        return MachineNow(
            requests=self.requests,
            nodes=nodes,
            limits=limits,
            outlook=no_outlook(nodes),
            waiting=np.zeros(len(nodes.fails), dtype=np.int64),
        )


@compiled_inline
def look_from_now(machine: MachineNow) -> None:
    """Make the outlook what is free now."""
    machine.outlook.looks[0] += 1


@compiled_inline
def bring_into_outlook(machine: MachineNow, node: int) -> None:
    """Copy what is free on a node now, unless this look has copied it."""
    nodes, outlook = machine.nodes, machine.outlook
    if outlook.seen[node] == outlook.looks[0]:
        return
    outlook.seen[node] = outlook.looks[0]
    outlook.running[node] = nodes.running[node]
    for resource in range(outlook.free.shape[1]):
        outlook.free[node, resource] = nodes.free[node, resource]


@compiled_borrowing
def seek(machine: MachineNow, shape: int, closed: NodeBits, has_room: bool) -> None:
    """Begin to seek room on open nodes of the outlook; `has_room`: they may have it now."""
    sought = machine.outlook.sought
    sought[BEST_NODE], sought[GAINED] = -1.0, 1.0 * has_room
    if machine.requests.most[shape] != 1:
        _fill_usable(machine, shape, closed)


@compiled_inline
def _usable_then(machine: MachineNow, shape: int, node: int) -> float:
    requests, nodes, outlook = machine.requests, machine.nodes, machine.outlook
    if outlook.seen[node] == outlook.looks[0]:
        free, running = outlook.free[node], outlook.running[node]
    else:
        free, running = nodes.free[node], nodes.running[node]
    return float(usable_cpus(requests, shape, free, nodes.whole[node], running))


@compiled_borrowing
def _fill_usable(machine: MachineNow, shape: int, closed: NodeBits) -> None:
    requests, sought = machine.requests, machine.outlook.sought
    pool = requests.pool[shape]
    sought[SERVING] = sought[USABLE] = 0.0
    for place in range(requests.pool_first[pool], requests.pool_first[pool + 1]):
        node = requests.pool_node[place]
        usable = 0.0 if has(closed, node) else _usable_then(machine, shape, node)
        machine.nodes.usable[node] = usable
        sought[SERVING] += usable > 0.0
        sought[USABLE] += usable


@compiled_inline
def count_as_ended(machine: MachineNow, job: int, shape: int, closed: NodeBits) -> None:
    """Count a running job as ended in the outlook, while room is sought for another."""
    requests, nodes, outlook = machine.requests, machine.nodes, machine.outlook
    own, part = requests.shape[job], nodes.first_part[job]
    while part >= 0:
        node = nodes.part_node[part]
        bring_into_outlook(machine, node)
        outlook.running[node] -= 1
        for resource in range(outlook.free.shape[1]):
            outlook.free[node, resource] += taken(requests, own, resource, nodes.part_cpus[part])
        if has(requests.serves[requests.pool[shape]], node) and not has(closed, node):
            _gain(machine, shape, node)
        part = nodes.part_next[part]


@compiled_inline
def _gain(machine: MachineNow, shape: int, node: int) -> None:
    """Count what a node that has gained gives to the job that seeks room."""
    requests, nodes, outlook = machine.requests, machine.nodes, machine.outlook
    sought = outlook.sought
    if requests.most[shape] == 1:
        best = int(sought[BEST_NODE])
        if best >= 0 and (nodes.weight[best], best) <= (nodes.weight[node], node):
            return
        free, running = outlook.free[node], outlook.running[node]
        if holds(requests, shape, free, nodes.whole[node], running):
            sought[BEST_NODE] = node
        return
    before, usable = nodes.usable[node], _usable_then(machine, shape, node)
    nodes.usable[node] = usable
    sought[SERVING] += (usable > 0.0) - 1.0 * (before > 0.0)
    sought[USABLE] += usable - before
    if usable > 0.0:
        sought[GAINED] = 1.0


@compiled_inline
def room_found(machine: MachineNow, shape: int, closed: NodeBits) -> int:
    """Fill `chosen` if the job that seeks room finds it; how many nodes, 0 for none."""
    requests, nodes, sought = machine.requests, machine.nodes, machine.outlook.sought
    if requests.most[shape] == 1:
        return int(choose_one(requests, nodes, shape, int(sought[BEST_NODE])))
    if sought[GAINED] == 0.0:
        return 0
    sought[GAINED] = 0.0
    if sought[SERVING] < requests.fewest[shape] or sought[USABLE] < requests.cpus[shape]:
        return 0
    count = choose_several(requests, nodes, shape, int(sought[SERVING]), sought[USABLE])
    if count == 0:
        _fill_usable(machine, shape, closed)  # the choice used it up
    return int(count)


@compiled_borrowing
def take_from_outlook(machine: MachineNow, shape: int, count: int) -> None:
    """Take the first `count` nodes of `chosen` out of what is free later."""
    requests, nodes, outlook = machine.requests, machine.nodes, machine.outlook
    for place in range(count):
        node, cpus = nodes.chosen[place], nodes.chosen_cpus[place]
        bring_into_outlook(machine, node)
        outlook.running[node] += 1
        for resource in range(outlook.free.shape[1]):
            outlook.free[node, resource] -= taken(requests, shape, resource, cpus)
