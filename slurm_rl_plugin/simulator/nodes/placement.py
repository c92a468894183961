"""Which nodes a job gets, in the order of Slurm's select/cons_tres.

As in the sources of Slurm 26.05 (topology/flat): a job of one node gets the first that holds it, by
weight and then by number. Any other job takes from sets of consecutive nodes of equal weight, the
least weight first, then the tightest fit, until it has enough; if that fails, the node with the
fewest CPUs is left out and the search is repeated.
"""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing, compiled_inline
from slurm_rl_plugin.simulator.nodes.node_state import (
    CPU,
    ROUNDING,
    NodeBits,
    NodeRequests,
    NodeState,
    first_open,
    has,
    put_in,
    take_out,
)
from slurm_rl_plugin.units import FloatArray

#: Rows of `NodeState.sets`.
_FIRST, _LAST, _NODES, _CPUS = 0, 1, 2, 3


@compiled_inline
def usable_cpus(
    requests: NodeRequests, shape: int, free: FloatArray, whole: FloatArray, running: int
) -> float:
    """CPUs of one node that a job of this shape could use, in whole tasks; 0 without room."""
    if requests.whole[shape]:
        if running > 0:
            return 0.0
        for resource in range(1, len(free)):
            # memory by CPU is for all CPUs of the node, whatever the job asks for
            wanted = requests.per_cpu[shape, resource] * whole[CPU]
            if requests.per_node[shape, resource] + wanted > free[resource] + ROUNDING:
                return 0.0
        is_free = free[CPU] >= whole[CPU] >= requests.task[shape]
        return whole[CPU] if is_free else 0.0
    cpus = free[CPU]
    for resource in range(1, len(free)):
        left = free[resource] - requests.per_node[shape, resource] + ROUNDING
        if left < 0.0:
            return 0.0
        each = requests.per_cpu[shape, resource]
        if each > 0.0 and cpus * each > left:
            cpus = np.floor(left / each)
    task = requests.task[shape]
    return np.floor(cpus / task) * task if task > 1.0 else cpus


@compiled_inline
def holds(
    requests: NodeRequests, shape: int, free: FloatArray, whole: FloatArray, running: int
) -> bool:
    """Whether one node holds a job of this shape; see `usable_cpus`."""
    cpus = requests.cpus[shape]
    return free[CPU] >= cpus and usable_cpus(requests, shape, free, whole, running) >= cpus


@compiled_inline
def choose_one(requests: NodeRequests, nodes: NodeState, shape: int, node: int) -> int:
    """Fill `chosen` with the node that a job of one node takes; how many: 0 for node -1."""
    if node < 0:
        return 0
    nodes.chosen[0] = node
    cpus = nodes.whole[node, CPU] if requests.whole[shape] else requests.cpus[shape]
    nodes.chosen_cpus[0] = cpus
    return 1


@compiled_borrowing
def _bring_room_up(requests: NodeRequests, nodes: NodeState, shape: int) -> None:
    """Update the set of a shape from the nodes that have changed since."""
    room, pool = nodes.room, requests.pool[shape]
    seen, changes = room.seen[shape], room.changes[0]
    first, last = requests.pool_first[pool], requests.pool_first[pool + 1]
    if seen < 0 or changes - seen >= last - first:
        for place in range(first, last):
            _look_at_node(requests, nodes, shape, requests.pool_node[place])
    else:
        for change in range(seen, changes):
            node = room.changed[change % len(room.changed)]
            if has(requests.serves[pool], node):
                _look_at_node(requests, nodes, shape, node)
    room.seen[shape] = changes


@compiled_inline
def _look_at_node(requests: NodeRequests, nodes: NodeState, shape: int, node: int) -> None:
    if holds(requests, shape, nodes.free[node], nodes.whole[node], nodes.running[node]):
        put_in(nodes.room.fits[shape], node)
    else:
        take_out(nodes.room.fits[shape], node)


@compiled_borrowing
def first_node_now(requests: NodeRequests, nodes: NodeState, shape: int, closed: NodeBits) -> int:
    """Update the set of a shape of one node; the node that its job takes now, -1 for none."""
    _bring_room_up(requests, nodes, shape)
    return first_open(nodes.room, shape, requests.pool[shape], closed)


@compiled_borrowing
def find_room(requests: NodeRequests, nodes: NodeState, shape: int, closed: NodeBits) -> int:
    """Fill `chosen` with nodes for a shape now, none of them closed; how many, 0 without room."""
    if requests.most[shape] == 1:
        node = first_node_now(requests, nodes, shape, closed)
        return choose_one(requests, nodes, shape, node)
    pool = requests.pool[shape]
    serving, cpus = 0, 0.0
    for place in range(requests.pool_first[pool], requests.pool_first[pool + 1]):
        node = requests.pool_node[place]
        usable = 0.0
        if not has(closed, node):
            free, running = nodes.free[node], nodes.running[node]
            usable = usable_cpus(requests, shape, free, nodes.whole[node], running)
        nodes.usable[node] = usable
        serving += usable > 0.0
        cpus += usable
    return choose_several(requests, nodes, shape, serving, cpus)


@compiled_borrowing
def choose_several(
    requests: NodeRequests, nodes: NodeState, shape: int, serving: int, cpus: float
) -> int:
    """Fill `chosen` from `usable`, which is used up; how many, 0 without room."""
    pool = requests.pool[shape]
    first, last = requests.pool_first[pool], requests.pool_first[pool + 1]
    while serving >= requests.fewest[shape] and cpus >= requests.cpus[shape]:
        count = _take_from_sets(requests, nodes, shape, first, last)
        if count > 0:
            return count
        least = -1  # the node with the fewest usable CPUs, the first of equals
        for place in range(first, last):
            node = requests.pool_node[place]
            usable = nodes.usable[node]
            if usable > 0.0 and (least < 0 or usable < nodes.usable[least]):
                least = node
        cpus -= nodes.usable[least]
        nodes.usable[least] = 0.0
        serving -= 1
    return 0


@compiled_borrowing
def _fill_sets(requests: NodeRequests, nodes: NodeState, first: int, last: int) -> int:
    """Sets of consecutive serving nodes of equal weight; how many there are."""
    count = 0
    before = -2
    for place in range(first, last):
        node = requests.pool_node[place]
        usable = nodes.usable[node]
        if usable <= 0.0:
            continue
        if node != before + 1 or nodes.weight[node] != nodes.weight[before]:
            nodes.sets[_FIRST, count] = place
            nodes.sets[_NODES, count] = nodes.sets[_CPUS, count] = 0.0
            count += 1
        nodes.sets[_LAST, count - 1] = place
        nodes.sets[_NODES, count - 1] += 1.0
        nodes.sets[_CPUS, count - 1] += usable
        before = node
    return count


@compiled_borrowing
def _best_set(
    requests: NodeRequests, nodes: NodeState, count: int, cpus: float, fewest: int
) -> int:
    """The set to take from: least weight, then the tightest that suffices, else the largest."""
    best = -1
    best_suffices = False
    for place in range(count):
        if nodes.sets[_NODES, place] == 0.0:
            continue
        weight = nodes.weight[requests.pool_node[int(nodes.sets[_FIRST, place])]]
        size = nodes.sets[_CPUS, place]
        suffices = size >= cpus and nodes.sets[_NODES, place] >= fewest
        if best >= 0:
            best_weight = nodes.weight[requests.pool_node[int(nodes.sets[_FIRST, best])]]
            if weight > best_weight:
                continue
            if weight == best_weight:
                best_size = nodes.sets[_CPUS, best]
                tighter = suffices and (not best_suffices or size < best_size)
                if not tighter and (suffices or size <= best_size):
                    continue
        best, best_suffices = place, suffices
    return best


@compiled_borrowing
def _tightest_node(
    requests: NodeRequests, nodes: NodeState, first: int, last: int, cpus: float
) -> int:
    best = -1
    for place in range(first, last + 1):
        usable = nodes.usable[requests.pool_node[place]]
        if usable >= cpus and (best < 0 or usable < nodes.usable[requests.pool_node[best]]):
            best = place
    return best


@compiled_borrowing
def _take_from_sets(
    requests: NodeRequests, nodes: NodeState, shape: int, first: int, last: int
) -> int:
    sets = _fill_sets(requests, nodes, first, last)
    left, fewest, most = requests.cpus[shape], requests.fewest[shape], requests.most[shape]
    count = 0
    while most > 0 and not (fewest <= 0 and left <= 0.0):
        place = _best_set(requests, nodes, sets, left, fewest)
        if place < 0:
            return 0
        begin, end = int(nodes.sets[_FIRST, place]), int(nodes.sets[_LAST, place])
        if fewest <= 1:
            single = _tightest_node(requests, nodes, begin, end, left)
            if single >= 0:
                begin = end = single
        for each in range(begin, end + 1):
            if most == 0 or (fewest <= 0 and left <= 0.0):
                break
            node = requests.pool_node[each]
            usable = nodes.usable[node]
            if usable <= 0.0 or (most == 1 and usable < left):
                continue
            if not requests.whole[shape]:
                # each of the other nodes must get a task too
                others = max(fewest - 1, 0) * requests.task[shape]
                usable = max(min(usable, left - others), requests.task[shape])
            nodes.chosen[count], nodes.chosen_cpus[count] = node, usable
            count += 1
            left -= usable
            fewest -= 1
            most -= 1
        nodes.sets[_NODES, place] = 0.0
    return count if fewest <= 0 and left <= 0.0 else 0
