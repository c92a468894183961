"""What is free on each node, and which job holds what where."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing, compiled_inline
from slurm_rl_plugin.simulator.nodes.requests import (
    CPU,
    NodeBits,
    NodeRequests,
    bits_of,
    first_of,
    no_nodes,
    put_in,
    take_out,
    words,
)
from slurm_rl_plugin.units import FloatArray, IntArray

_NEVER = -1


class RoomNow(NamedTuple):
    """Sets of nodes, and which nodes have changed."""

    fits: NodeBits  #: nodes of its pool that hold a job of the shape now, shape [shapes, words]
    #: How many changes of nodes each set counts, shape [shapes]; -1 before the first look.
    seen: IntArray
    changed: IntArray  #: the last nodes that changed, in a ring, shape [nodes]
    changes: IntArray  #: how many there were, shape [1]
    #: Where the nodes of equal weight of each pool begin in `class_nodes`, shape [pools + 1].
    class_first: IntArray
    class_nodes: NodeBits  #: sets of nodes of equal weight, least weight first within each pool


def room_now(weight: IntArray, requests: NodeRequests) -> RoomNow:
    """Before the first look; `weight`: of each node, shape [nodes]."""
    nodes, shapes = len(weight), len(requests.fewest)
    first, rows = [0], []
    for begin, end in zip(requests.pool_first[:-1], requests.pool_first[1:], strict=True):
        serving = requests.pool_node[begin:end]
        for each in np.unique(weight[serving]):
            row = np.zeros(nodes, dtype=np.bool_)
            row[serving[weight[serving] == each]] = True
            rows.append(row)
        first.append(len(rows))
    return RoomNow(
        fits=np.zeros((shapes, words(nodes)), dtype=np.uint64),
        seen=np.full(shapes, _NEVER),
        changed=np.zeros(nodes, dtype=np.int64),
        changes=np.zeros(1, dtype=np.int64),
        class_first=np.array(first, dtype=np.int64),
        class_nodes=bits_of(np.array(rows, dtype=np.bool_).reshape(len(rows), nodes)),
    )


@compiled_inline
def note_change(room: RoomNow, node: int) -> None:
    """What a node has free is another now."""
    room.changed[room.changes[0] % len(room.changed)] = node
    room.changes[0] += 1


@compiled_inline
def set_fits(room: RoomNow, shape: int, node: int, fits: bool) -> None:
    """Enter whether a node holds a job of this shape."""
    if fits:
        put_in(room.fits[shape], node)
    else:
        take_out(room.fits[shape], node)


@compiled_borrowing
def first_open(room: RoomNow, shape: int, pool: int, closed: NodeBits) -> int:
    """The node of least weight, then number, of a shape's set, which is up to date; -1 for none."""
    for place in range(room.class_first[pool], room.class_first[pool + 1]):
        for word in range(len(closed)):
            found = room.fits[shape, word] & room.class_nodes[place, word] & ~closed[word]
            if found:
                return (word << 6) + first_of(found)
    return -1


#: Amounts that differ by less are the same: parts of GPUs are no binary fractions.
ROUNDING = 1e-6
#: Indices into `NodeState.counts`: the first free place of held parts; how often anything was
#: given back; jobs whose end was seen; jobs whose arrival was.
_FREE_PART, GIVEN_BACK, SEEN_ENDS, SEEN_ARRIVALS = 0, 1, 2, 3
_COUNTS = 4
#: No part of a job.
NO_PART = -1


class NodeEnds(NamedTuple):
    """Parts of running jobs as a chain for each node; of equal ends who started first is first."""

    #: Part of the job on each node that ends first, shape [nodes]; NO_PART for none.
    first: IntArray
    behind: IntArray  #: part of the job that ends next on the same node, shape [parts]
    job: IntArray  #: of each part, the same
    end: FloatArray  #: when it is expected to end, seconds, the same


def _no_node_ends(nodes: int, parts: int) -> NodeEnds:
    """Nothing runs on so many nodes; at most so many parts will."""
    return NodeEnds(
        first=np.full(nodes, NO_PART),
        behind=np.full(parts, NO_PART),
        job=np.full(parts, NO_PART),
        end=np.zeros(parts),
    )


class NodeState(NamedTuple):
    """The nodes of a machine; functions of this room change it in place."""

    free: FloatArray  #: of each node, shape [nodes, resources], CPUs first
    whole: FloatArray  #: what each has, the same
    weight: IntArray  #: nodes of less weight are taken first, shape [nodes]
    running: IntArray  #: jobs on each node, shape [nodes]
    first_part: IntArray  #: where the held parts of each job begin, shape [n]; -1 for none
    #: part_node, part_cpus, part_next: held parts, as chains; shape [CPUs of all nodes].
    part_node: IntArray
    part_cpus: FloatArray
    part_next: IntArray
    ends: NodeEnds  #: the same parts by node
    #: `counts[GIVEN_BACK]` when a shape was last seen to find no room now, shape [shapes].
    fails: IntArray
    usable: FloatArray  #: CPUs on each node of a pool that a job could use, space; shape [nodes]
    #: chosen, chosen_cpus: nodes and CPUs of the last place found; shape [nodes].
    chosen: IntArray
    chosen_cpus: FloatArray
    #: Space for sets of consecutive nodes: first, last, nodes, CPUs; shape [4, nodes].
    sets: FloatArray
    none_closed: NodeBits  #: the empty set of nodes
    room: RoomNow  #: on which nodes jobs of one node find room now
    counts: IntArray  #: see the names above


def idle_nodes(whole: FloatArray, weight: IntArray, requests: NodeRequests) -> NodeState:
    """Nodes on which nothing runs; `whole`: what each has, shape [nodes, resources]."""
    nodes = len(whole)
    parts = int(whole[:, CPU].sum())
    counts = np.zeros(_COUNTS, dtype=np.int64)
    return NodeState(
        free=whole.copy(),
        whole=whole,
        weight=weight,
        running=np.zeros(nodes, dtype=np.int64),
        first_part=np.full(len(requests.shape), NO_PART),
        part_node=np.zeros(parts, dtype=np.int64),
        part_cpus=np.zeros(parts),
        part_next=np.append(np.arange(1, parts), NO_PART),
        ends=_no_node_ends(nodes, parts),
        fails=np.full(len(requests.fewest), _NEVER),
        usable=np.zeros(nodes),
        chosen=np.zeros(nodes, dtype=np.int64),
        chosen_cpus=np.zeros(nodes),
        sets=np.zeros((4, nodes)),
        none_closed=no_nodes(nodes),
        room=room_now(weight, requests),
        counts=counts,
    )


@compiled_inline
def taken(requests: NodeRequests, shape: int, resource: int, cpus: float) -> float:
    """What a job with so many CPUs on a node takes there of one resource."""
    if resource == CPU:
        return cpus
    return requests.per_node[shape, resource] + requests.per_cpu[shape, resource] * cpus


@compiled_inline
def _put_on_node(ends: NodeEnds, node: int, part: int, job: int, end: float) -> None:
    """Enter a part of a job that starts on a node and is expected to end at `end`."""
    before, after = NO_PART, ends.first[node]
    while after != NO_PART and ends.end[after] <= end:
        before, after = after, ends.behind[after]
    ends.job[part], ends.end[part], ends.behind[part] = job, end, after
    if before == NO_PART:
        ends.first[node] = part
    else:
        ends.behind[before] = part


@compiled_inline
def _take_off_node(ends: NodeEnds, node: int, part: int) -> None:
    """Forget a part of a job that has ended."""
    before, each = NO_PART, ends.first[node]
    while each != part:
        before, each = each, ends.behind[each]
    if before == NO_PART:
        ends.first[node] = ends.behind[part]
    else:
        ends.behind[before] = ends.behind[part]


@compiled_borrowing
def occupy(requests: NodeRequests, nodes: NodeState, job: int, count: int, end: float) -> None:
    """Give a job that is expected to end at `end` the first `count` nodes of `chosen`."""
    shape = requests.shape[job]
    for place in range(count):
        node, cpus = nodes.chosen[place], nodes.chosen_cpus[place]
        part = nodes.counts[_FREE_PART]
        nodes.counts[_FREE_PART] = nodes.part_next[part]
        nodes.part_node[part], nodes.part_cpus[part] = node, cpus
        nodes.part_next[part] = nodes.first_part[job]
        nodes.first_part[job] = part
        _put_on_node(nodes.ends, node, part, job, end)
        nodes.running[node] += 1
        note_change(nodes.room, node)
        for resource in range(nodes.free.shape[1]):
            nodes.free[node, resource] -= taken(requests, shape, resource, cpus)


@compiled_borrowing
def give_back(requests: NodeRequests, nodes: NodeState, job: int) -> None:
    """Take from an ended job what it held."""
    shape, part = requests.shape[job], nodes.first_part[job]
    while part != NO_PART:
        node, cpus = nodes.part_node[part], nodes.part_cpus[part]
        _take_off_node(nodes.ends, node, part)
        nodes.running[node] -= 1
        note_change(nodes.room, node)
        for resource in range(nodes.free.shape[1]):
            nodes.free[node, resource] += taken(requests, shape, resource, cpus)
            if nodes.running[node] == 0:  # what rounding may have left
                nodes.free[node, resource] = nodes.whole[node, resource]
        after = nodes.part_next[part]
        nodes.part_next[part] = nodes.counts[_FREE_PART]
        nodes.counts[_FREE_PART] = part
        part = after
    nodes.first_part[job] = NO_PART
    nodes.counts[GIVEN_BACK] += 1


def held_by(nodes: NodeState, job: int) -> dict[int, float]:
    """The nodes that a job holds now, and its CPUs on each."""
    held: dict[int, float] = {}
    part = nodes.first_part[job]
    while part != NO_PART:
        held[int(nodes.part_node[part])] = float(nodes.part_cpus[part])
        part = nodes.part_next[part]
    return held
