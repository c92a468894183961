"""Nodes on which jobs of one node find room now, as a set for each shape, kept up to date.

A set is looked at again only on nodes that have changed since its shape was last asked for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing, compiled_inline
from slurm_rl_plugin.simulator.nodes.node_bits import (
    NodeBits,
    bits_of,
    first_of,
    put_in,
    take_out,
    words,
)
from slurm_rl_plugin.simulator.nodes.requests import NodeRequests
from slurm_rl_plugin.units import IntArray

_NEVER = -1


class RoomNow(NamedTuple):
    """Sets of nodes, and which nodes have changed.

    Attributes:
        fits: nodes of its pool that hold a job of the shape now, shape [shapes, words].
        seen: how many changes of nodes each set counts, shape [shapes]; -1 before the first look.
        changed: the last nodes that changed, in a ring, shape [nodes].
        changes: how many there were, shape [1].
        class_first: where the nodes of equal weight of each pool begin in `class_nodes`, shape
            [pools + 1].
        class_nodes: sets of nodes of equal weight, least weight first within each pool.
    """

    fits: NodeBits
    seen: IntArray
    changed: IntArray
    changes: IntArray
    class_first: IntArray
    class_nodes: NodeBits


def room_now(weight: IntArray, requests: NodeRequests) -> RoomNow:
    """Before the first look.

    Args:
        weight: of each node, shape [nodes].
        requests: of the jobs to come.
    """
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
    """The node of least weight, then of least number, of a shape's set; -1 for none.

    Args:
        room: its set of this shape is up to date.
        shape: of the job.
        pool: of the shape.
        closed: nodes that are not to be taken.
    """
    for place in range(room.class_first[pool], room.class_first[pool + 1]):
        for word in range(len(closed)):
            found = room.fits[shape, word] & room.class_nodes[place, word] & ~closed[word]
            if found:
                return (word << 6) + first_of(found)
    return -1
