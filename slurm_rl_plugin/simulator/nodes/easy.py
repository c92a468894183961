"""EASY backfilling over nodes: jobs behind the head of the queue do not take its nodes."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import Cluster, forget_started
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing, compiled_inline
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
from slurm_rl_plugin.simulator.nodes.node_state import RELEASES, first_of
from slurm_rl_plugin.simulator.nodes.placement import choose_one, choose_several, usable_cpus
from slurm_rl_plugin.units import IntArray

#: Not looked for yet.
_UNKNOWN = -1.0
_ONE = np.uint64(1)


@compiled_borrowing
def head_start(cluster: Cluster, machine: MachineNow, head: int) -> float:
    """When the head is expected to find room, inf for never; the outlook is what is free then.

    Running jobs that are expected to end at one time count as ended together; a job that has
    outlived its estimate counts as ending now. Limits of groups are ignored.
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
    """`head_start`, which does not change before its time while no job starts or ends."""
    known, state = machine.outlook.head, cluster.state[0]
    same = known[0] == head and known[1] == state.started and known[2] == state.ended
    if not same or known[3] <= state.now:
        known[0], known[1], known[2] = head, state.started, state.ended
        known[3] = head_start(cluster, machine, head)
    return float(known[3])


@compiled_inline
def _usable_beside_head(machine: MachineNow, shape: int, node: int) -> float:
    """`usable_cpus` of a node of what is free both now and when the head has started."""
    nodes, outlook = machine.nodes, machine.outlook
    bring_into_outlook(machine, node)
    for resource in range(len(outlook.both)):
        outlook.both[resource] = min(nodes.free[node, resource], outlook.free[node, resource])
    running = max(nodes.running[node], outlook.running[node])
    return float(usable_cpus(machine.requests, shape, outlook.both, nodes.whole[node], running))


@compiled_borrowing
def _one_beside_head(machine: MachineNow, shape: int) -> int:
    """The node that a job of one node may take of those with room now; -1 for none."""
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
    """As `find_room`, fill `chosen` from what is free both now and when the head has started.

    For a shape of one node, the set of nodes with room now is up to date.
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
    cluster: Cluster, machine: MachineNow, order: IntArray, count: int
) -> tuple[int, int]:
    started = 0
    for place in range(count):
        job = order[place]
        if not within_limits(machine.limits, job):
            continue
        found = find_room_now(machine, machine.requests.shape[job])
        if found == 0:
            return place, started
        start_on_nodes(cluster, machine, job, found)
        started += 1
    return count, started


@compiled_borrowing
def _start_behind(
    cluster: Cluster, machine: MachineNow, order: IntArray, head: int, count: int
) -> int:
    started, shadow = 0, _UNKNOWN
    nodes, outlook, now = machine.nodes, machine.outlook, cluster.state[0].now
    shapes, releases = machine.requests.shape, nodes.counts[RELEASES]
    for place in range(head + 1, count):
        job = order[place]
        shape = shapes[job]
        if nodes.fails[shape] == releases:  # saves a call
            continue
        outlasts = now + cluster.jobs[job].estimate > shadow
        if shadow != _UNKNOWN and outlasts and outlook.fails[shape] == outlook.looks[0]:
            continue
        if not within_limits(machine.limits, job):
            continue
        found = find_room_now(machine, shape)
        if found == 0:
            continue
        if shadow == _UNKNOWN:
            shadow = _known_start(cluster, machine, order[head])
            outlasts = now + cluster.jobs[job].estimate > shadow
            found = find_room_now(machine, shape)  # the look at the head used the space
        if outlasts:
            found = _room_beside_head(machine, shape)
            take_from_outlook(machine, shape, found)
        for each in range(found):  # the start changes them
            bring_into_outlook(machine, nodes.chosen[each])
        if found > 0:
            start_on_nodes(cluster, machine, job, found)
            started += 1
    return started


@compiled_borrowing
def start_in_order_on_nodes(
    cluster: Cluster, machine: MachineNow, order: IntArray, count: int, backfills: bool
) -> int:
    """Start jobs in order until the first without room, the head; how many started.

    A job that limits of its groups hold back is passed over and reserves nothing. If it backfills,
    jobs behind the head start that do not delay it (EASY).
    """
    head, started = _start_until_head(cluster, machine, order, count)
    if backfills:
        started += _start_behind(cluster, machine, order, head, count)
    if started:
        forget_started(cluster)
    return started
