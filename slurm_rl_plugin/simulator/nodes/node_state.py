"""What jobs ask of nodes, what is free on each node, and which job holds how much of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing, compiled_inline
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

NodeBits = NDArray[np.uint64]
_WORD = 64
_ONE = np.uint64(1)


def no_nodes(nodes: int) -> NodeBits:
    """The empty set of nodes as words, shape [words]."""
    return np.zeros(-(-nodes // _WORD), dtype=np.uint64)


def bits_of(rows: BoolArray) -> NodeBits:
    """Sets as words, shape [sets, words], from shape [sets, nodes]."""
    sets = np.tile(no_nodes(rows.shape[1]), (len(rows), 1))
    for place, node in np.argwhere(rows):
        sets[place, node // _WORD] |= np.uint64(1 << (int(node) % _WORD))
    return sets


@compiled_inline
def has(bits: NodeBits, node: int) -> bool:
    """Whether a set has a node."""
    return (bits[node >> 6] >> np.uint64(node & 63)) & _ONE == _ONE


@compiled_inline
def put_in(bits: NodeBits, node: int) -> None:
    """Put a node into a set."""
    bits[node >> 6] |= _ONE << np.uint64(node & 63)


@compiled_inline
def first_of(word: np.uint64) -> int:
    """Place of the lowest bit of a word that is not 0."""
    place = 0
    for width in (32, 16, 8, 4, 2, 1):
        if word & ((_ONE << np.uint64(width)) - _ONE) == 0:
            word >>= np.uint64(width)
            place += width
    return place


@compiled_inline
def take_out(bits: NodeBits, node: int) -> None:
    """Take a node out of a set."""
    bits[node >> 6] &= ~(_ONE << np.uint64(node & 63))


#: Column of CPUs in `NodeState.free`.
CPU = 0


class NodeRequests(NamedTuple):
    """Jobs that ask for the same, of the same nodes, have one *shape*."""

    shape: IntArray  #: of each job, shape [n]
    #: fewest, most: nodes that it is spread over, at least and at most, shape [shapes].
    fewest: IntArray
    most: IntArray
    cpus: FloatArray  #: in all, the same
    task: FloatArray  #: CPUs that have to be on one node together, the same
    per_node: FloatArray  #: what each node gives, whatever its CPUs; 0 CPUs; [shapes, resources]
    per_cpu: FloatArray  #: what each node gives for each CPU there, the same
    whole: BoolArray  #: whether it has its nodes to itself, shape [shapes]
    pool: IntArray  #: index of its pool, the nodes that may serve it, shape [shapes]
    pool_first: IntArray  #: where each pool begins in `pool_node`, shape [pools + 1]
    pool_node: IntArray  #: the nodes of all pools, in the order of their numbers within each
    serves: NodeBits  #: the nodes of each pool as a set, shape [pools, words]

    def of_jobs(self, jobs: IntArray) -> NodeRequests:
        """The requests of some of the jobs, of the same pools; a job may come twice."""
        chosen, shape = np.unique(self.shape[jobs], return_inverse=True)
        of_shapes = ("fewest", "most", "cpus", "task", "per_node", "per_cpu", "whole", "pool")
        rows = {name: getattr(self, name)[chosen] for name in of_shapes}
        return self._replace(shape=shape.reshape(-1).astype(np.int64), **rows)


_NEVER = -1


class RoomNow(NamedTuple):
    """Nodes with room for each shape, and which nodes have changed."""

    fits: NodeBits  #: nodes of its pool that hold a job of the shape now, shape [shapes, words]
    #: How many changes each set of nodes includes, shape [shapes]; -1 before the first look.
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
        fits=np.tile(no_nodes(nodes), (shapes, 1)),
        seen=np.full(shapes, _NEVER),
        changed=np.zeros(nodes, dtype=np.int64),
        changes=np.zeros(1, dtype=np.int64),
        class_first=np.array(first, dtype=np.int64),
        class_nodes=bits_of(np.array(rows, dtype=np.bool_).reshape(len(rows), nodes)),
    )


@compiled_inline
def note_change(room: RoomNow, node: int) -> None:
    """Note that what is free on a node has changed."""
    room.changed[room.changes[0] % len(room.changed)] = node
    room.changes[0] += 1


@compiled_borrowing
def first_open(room: RoomNow, shape: int, pool: int, closed: NodeBits) -> int:
    """The node of least weight, then number, of a shape's set, which is up to date; -1 for none."""
    for place in range(room.class_first[pool], room.class_first[pool + 1]):
        for word in range(len(closed)):
            found = room.fits[shape, word] & room.class_nodes[place, word] & ~closed[word]
            if found:
                return (word << 6) + first_of(found)
    return -1


#: Amounts that differ by less are equal: parts of GPUs are not binary fractions.
ROUNDING = 1e-6
#: Indices into `NodeState.counts`: the first free place of held parts; how many jobs released
#: nodes; ends seen; arrivals seen.
_FREE_PART, RELEASES, SEEN_ENDS, SEEN_ARRIVALS = 0, 1, 2, 3
_COUNTS = 4
#: No part of a job.
NO_PART = -1


class NodeState(NamedTuple):
    """The nodes of a machine; functions of this package change it in place."""

    free: FloatArray  #: of each node, shape [nodes, resources], CPUs first
    whole: FloatArray  #: what each has, the same
    weight: IntArray  #: nodes of less weight are taken first, shape [nodes]
    running: IntArray  #: jobs on each node, shape [nodes]
    first_part: IntArray  #: where the held parts of each job begin, shape [n]; -1 for none
    #: part_node, part_cpus, part_next: held parts, as chains; shape [CPUs of all nodes].
    part_node: IntArray
    part_cpus: FloatArray
    part_next: IntArray
    #: The parts of each node are a chain by end, then by start. Part of the job that ends first,
    #: shape [nodes]; NO_PART for none.
    first_end: IntArray
    #: part_behind, part_job, part_end: part of the job that ends next on the same node, job of each
    #: part, and when it is expected to end, seconds; shape [CPUs of all nodes].
    part_behind: IntArray
    part_job: IntArray
    part_end: FloatArray
    fails: IntArray  #: `counts[RELEASES]` when each shape last found no room, shape [shapes]
    usable: FloatArray  #: space for the CPUs on each node that a job could use, shape [nodes]
    #: chosen, chosen_cpus: nodes and CPUs of the last place found; shape [nodes].
    chosen: IntArray
    chosen_cpus: FloatArray
    #: Space for sets of consecutive nodes: first, last, nodes, CPUs; shape [4, nodes].
    sets: FloatArray
    none_closed: NodeBits  #: the empty set of nodes
    room: RoomNow  #: on which nodes jobs of one node find room now
    counts: IntArray  #: see the names above


def idle_nodes(whole: FloatArray, weight: IntArray, requests: NodeRequests) -> NodeState:
    """Idle nodes; `whole`: what each has, shape [nodes, resources]."""
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
        first_end=np.full(nodes, NO_PART),
        part_behind=np.full(parts, NO_PART),
        part_job=np.full(parts, NO_PART),
        part_end=np.zeros(parts),
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
    """What a job with these CPUs on a node takes there of one resource."""
    if resource == CPU:
        return cpus
    return requests.per_node[shape, resource] + requests.per_cpu[shape, resource] * cpus


@compiled_inline
def _put_on_node(nodes: NodeState, node: int, part: int, job: int, end: float) -> None:
    before, after = NO_PART, nodes.first_end[node]
    while after != NO_PART and nodes.part_end[after] <= end:
        before, after = after, nodes.part_behind[after]
    nodes.part_job[part], nodes.part_end[part], nodes.part_behind[part] = job, end, after
    if before == NO_PART:
        nodes.first_end[node] = part
    else:
        nodes.part_behind[before] = part


@compiled_inline
def _take_off_node(nodes: NodeState, node: int, part: int) -> None:
    before, each = NO_PART, nodes.first_end[node]
    while each != part:
        before, each = each, nodes.part_behind[each]
    if before == NO_PART:
        nodes.first_end[node] = nodes.part_behind[part]
    else:
        nodes.part_behind[before] = nodes.part_behind[part]


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
        _put_on_node(nodes, node, part, job, end)
        nodes.running[node] += 1
        note_change(nodes.room, node)
        for resource in range(nodes.free.shape[1]):
            nodes.free[node, resource] -= taken(requests, shape, resource, cpus)


@compiled_borrowing
def release(requests: NodeRequests, nodes: NodeState, job: int) -> None:
    """Release what an ended job held."""
    shape, part = requests.shape[job], nodes.first_part[job]
    while part != NO_PART:
        node, cpus = nodes.part_node[part], nodes.part_cpus[part]
        _take_off_node(nodes, node, part)
        nodes.running[node] -= 1
        note_change(nodes.room, node)
        for resource in range(nodes.free.shape[1]):
            nodes.free[node, resource] += taken(requests, shape, resource, cpus)
            if nodes.running[node] == 0:  # without the error of rounding
                nodes.free[node, resource] = nodes.whole[node, resource]
        after = nodes.part_next[part]
        nodes.part_next[part] = nodes.counts[_FREE_PART]
        nodes.counts[_FREE_PART] = part
        part = after
    nodes.first_part[job] = NO_PART
    nodes.counts[RELEASES] += 1
