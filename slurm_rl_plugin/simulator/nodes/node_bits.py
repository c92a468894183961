"""Sets of nodes as 64-bit words, so that a set is joined with another in a few operations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.simulator.kernel.compilation import compiled_inline
from slurm_rl_plugin.units import BoolArray

NodeBits = NDArray[np.uint64]
_WORD = 64
_ONE = np.uint64(1)


def words(nodes: int) -> int:
    """How many words a set of so many nodes has."""
    return -(-nodes // _WORD)


def no_nodes(nodes: int) -> NodeBits:
    """The empty set, shape [words]."""
    return np.zeros(words(nodes), dtype=np.uint64)


def bits_of(rows: BoolArray) -> NodeBits:
    """Sets as words, shape [sets, words], from shape [sets, nodes]."""
    sets = np.zeros((len(rows), words(rows.shape[1])), dtype=np.uint64)
    for place, node in np.argwhere(rows):
        sets[place, node // _WORD] |= np.uint64(1 << (int(node) % _WORD))
    return sets


@compiled_inline
def has(bits: NodeBits, node: int) -> bool:
    """Whether a node is of a set."""
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
