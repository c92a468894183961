"""What is free on each node at a later time, when running jobs have ended and others started.

A look begins with what is free now; a node is copied when it is first touched. Room for a job is
sought while jobs end: only nodes that gain can give any.
"""

from __future__ import annotations

from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing, compiled_inline
from slurm_rl_plugin.simulator.nodes.machine_now import (
    BEST_NODE,
    GAINED,
    SERVING,
    USABLE,
    MachineNow,
)
from slurm_rl_plugin.simulator.nodes.node_state import taken
from slurm_rl_plugin.simulator.nodes.placement import choose_one, choose_several, holds, usable_cpus
from slurm_rl_plugin.simulator.nodes.requests import NodeBits, has


@compiled_inline
def look_from_now(machine: MachineNow) -> None:
    """Make the outlook what is free now."""
    machine.outlook.looks[0] += 1


@compiled_inline
def bring_into_outlook(machine: MachineNow, node: int) -> None:
    """Copy what a node has free now, where this look has not touched it yet."""
    nodes, outlook = machine.nodes, machine.outlook
    if outlook.seen[node] == outlook.looks[0]:
        return
    outlook.seen[node] = outlook.looks[0]
    outlook.running[node] = nodes.running[node]
    for resource in range(outlook.free.shape[1]):
        outlook.free[node, resource] = nodes.free[node, resource]


@compiled_borrowing
def seek(machine: MachineNow, shape: int, closed: NodeBits, has_room: bool) -> None:
    """Begin to seek room for a job in the outlook, which is as now.

    Args:
        has_room: whether open nodes may have room now for a job of several.
    """
    sought = machine.outlook.sought
    sought[BEST_NODE], sought[GAINED] = -1.0, 1.0 * has_room
    if machine.requests.most[shape] != 1:
        _fill_usable(machine, shape, closed)


@compiled_inline
def _usable_then(machine: MachineNow, shape: int, node: int) -> float:
    """`usable_cpus` of a node in the outlook."""
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
    """What a node that has more free now gives to the job that is sought for."""
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
    """Fill `chosen` where the job that is sought for finds room; how many nodes, 0 for none."""
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
        _fill_usable(machine, shape, closed)  # the choice has used it up
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
