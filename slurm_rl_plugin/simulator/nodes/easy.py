"""EASY backfilling over nodes: nobody behind the head of the queue takes what it will start on."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import Cluster, forget_started
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing, compiled_inline
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.nodes.machine_now import (
    MachineNow,
    bring_into_outlook,
    count_as_ended,
    find_room_now,
    look_from_now,
    room_found,
    seek,
    start_on_nodes,
    take_from_outlook,
    within_limits,
)
from slurm_rl_plugin.simulator.nodes.node_state import GIVEN_BACK
from slurm_rl_plugin.simulator.nodes.placement import choose_one, choose_several, usable_cpus
from slurm_rl_plugin.simulator.nodes.requests import first_of
from slurm_rl_plugin.units import IntArray

#: Not looked for yet.
_UNKNOWN = -1.0
_ONE = np.uint64(1)


@compiled_borrowing
def head_start(cluster: Cluster, machine: MachineNow, head: int) -> float:
    """When the head is expected to find room; the outlook becomes what is free besides it then.

    Running jobs that are expected to end at one time are counted as ended together; one that has
    outlived its estimate is taken to end now. Where room comes never, which limits of groups
    cannot tell, inf.
    """
    now, closed = cluster.state[0].now, machine.nodes.none_closed
    shape = machine.requests.shape[head]
    look_from_now(machine)
    seek(machine, shape, closed, False)
    place = 0
    while place < cluster.state[0].running:
        time = max(cluster.running[place].expected_end, now)
        while place < cluster.state[0].running and cluster.running[place].expected_end <= time:
            count_as_ended(machine, cluster.running[place].expected_job, shape, closed)
            place += 1
        count = room_found(machine, shape, closed)
        if count > 0:
            take_from_outlook(machine, shape, count)
            return time
    return np.inf


@compiled_borrowing
def _known_start(cluster: Cluster, machine: MachineNow, head: int) -> float:
    """`head_start`, which stays what it was while no job starts or ends and its time is to come."""
    known, state = machine.outlook.head, cluster.state[0]
    same = known[0] == head and known[1] == state.started and known[2] == state.ended
    if not same or known[3] <= state.now:
        known[0], known[1], known[2] = head, state.started, state.ended
        known[3] = head_start(cluster, machine, head)
    return float(known[3])


@compiled_inline
def _usable_beside_head(machine: MachineNow, shape: int, node: int) -> float:
    """`usable_cpus` of a node in what is free both now and when the head has started."""
    nodes, outlook = machine.nodes, machine.outlook
    bring_into_outlook(machine, node)
    for resource in range(len(outlook.both)):
        outlook.both[resource] = min(nodes.free[node, resource], outlook.free[node, resource])
    running = max(nodes.running[node], outlook.running[node])
    return float(usable_cpus(machine.requests, shape, outlook.both, nodes.whole[node], running))


@compiled_borrowing
def _one_beside_head(machine: MachineNow, shape: int) -> int:
    """The node that a job of one node may take; -1 for none. It is one that has room now."""
    requests, room = machine.requests, machine.nodes.room
    pool = requests.pool[shape]
    for place in range(room.class_first[pool], room.class_first[pool + 1]):
        for word in range(room.class_nodes.shape[1]):
            left = room.fits[shape, word] & room.class_nodes[place, word]
            while left:
                node = (word << 6) + first_of(left)
                if _usable_beside_head(machine, shape, node) >= requests.cpus[shape]:
                    return node
                left &= left - _ONE
    return -1


@compiled_borrowing
def _room_beside_head(machine: MachineNow, shape: int) -> int:
    """Fill `chosen` from what is free both now and when the head has started, as `find_room`.

    The set of nodes with room now of a shape of one node is up to date.
    """
    requests, nodes = machine.requests, machine.nodes
    if requests.most[shape] == 1:
        count = choose_one(requests, nodes, shape, _one_beside_head(machine, shape))
    else:
        serving, cpus, pool = 0, 0.0, requests.pool[shape]
        for place in range(requests.pool_first[pool], requests.pool_first[pool + 1]):
            node = requests.pool_node[place]
            usable = _usable_beside_head(machine, shape, node)
            nodes.usable[node] = usable
            serving += usable > 0.0
            cpus += usable
        count = choose_several(requests, nodes, shape, serving, cpus)
    if count == 0:
        machine.outlook.fails[shape] = machine.outlook.looks[0]
    return int(count)


@compiled_borrowing
def _start_until_head(
    workload: Workload, cluster: Cluster, machine: MachineNow, order: IntArray, count: int
) -> tuple[int, int]:
    """Start jobs in order; the place of the first without room, and how many started."""
    started = 0
    for place in range(count):
        job = order[place]
        if not within_limits(machine.limits, job):
            continue
        found = find_room_now(machine, machine.requests.shape[job])
        if found == 0:
            return place, started
        start_on_nodes(workload, cluster, machine, job, found)
        started += 1
    return count, started


@compiled_borrowing
def _start_behind(
    workload: Workload,
    cluster: Cluster,
    machine: MachineNow,
    order: IntArray,
    head: int,
    count: int,
) -> int:
    """Start jobs behind the head that do not delay it; how many."""
    started, shadow = 0, _UNKNOWN
    nodes, outlook, now = machine.nodes, machine.outlook, cluster.state[0].now
    shapes, given_back = machine.requests.shape, nodes.counts[GIVEN_BACK]
    for place in range(head + 1, count):
        job = order[place]
        shape = shapes[job]
        if nodes.fails[shape] == given_back:  # a call would pass every array of the machine
            continue
        outlasts = now + workload.jobs[job].estimate > shadow
        if shadow != _UNKNOWN and outlasts and outlook.fails[shape] == outlook.looks[0]:
            continue
        if not within_limits(machine.limits, job):
            continue
        found = find_room_now(machine, shape)
        if found == 0:
            continue
        if shadow == _UNKNOWN:
            shadow = _known_start(cluster, machine, order[head])
            outlasts = now + workload.jobs[job].estimate > shadow
            found = find_room_now(machine, shape)  # the look at the head used the space
        if outlasts:
            found = _room_beside_head(machine, shape)
            take_from_outlook(machine, shape, found)
        for each in range(found):  # which the start changes
            bring_into_outlook(machine, nodes.chosen[each])
        if found > 0:
            start_on_nodes(workload, cluster, machine, job, found)
            started += 1
    return started


@compiled_borrowing
def start_in_order_on_nodes(
    workload: Workload,
    cluster: Cluster,
    machine: MachineNow,
    order: IntArray,
    count: int,
    backfills: bool,
) -> int:
    """Start jobs in order until the first without room, the head; behind it who does not delay it.

    A job that limits of its groups hold back is passed over and reserves nothing. How many started.

    Args:
        order: job numbers, the first to be looked at first.
        count: how many of `order` there are.
        backfills: EASY; else nobody passes the head.
    """
    head, started = _start_until_head(workload, cluster, machine, order, count)
    if backfills:
        started += _start_behind(workload, cluster, machine, order, head, count)
    if started:
        forget_started(cluster)
    return started
