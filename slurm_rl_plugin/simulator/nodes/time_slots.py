"""Slurm's table of what is planned: times into the future, and which nodes are free of plans then.

A plan takes whole nodes, as sched/backfill has it (Slurm 26.05), though the job may need only a
part of each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.simulator.nodes.node_bits import NodeBits, has, no_nodes, take_out, words
from slurm_rl_plugin.units import FloatArray, IntArray

#: The slot behind the last.
LAST = 0
_ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


class TimeSlots(NamedTuple):
    """Stretches of time, linked in order; the first is number 0.

    Attributes:
        begin, end: seconds, shape [most slots].
        after: number of the next slot, LAST behind the last one.
        free: nodes without a plan, as sets, shape [most slots, words].
        used: slots in use, shape [1].
        closed: space for the nodes that a job must not take, a set.
    """

    begin: FloatArray
    end: FloatArray
    after: IntArray
    free: NodeBits
    used: IntArray
    closed: NodeBits


def time_slots(most: int, nodes: int) -> TimeSlots:
    """Room for so many slots."""
    return TimeSlots(
        begin=np.zeros(most),
        end=np.zeros(most),
        after=np.zeros(most, dtype=np.int64),
        free=np.zeros((most, words(nodes)), dtype=np.uint64),
        used=np.ones(1, dtype=np.int64),
        closed=no_nodes(nodes),
    )


@compiled_borrowing
def clear_slots(slots: TimeSlots, begin: float, end: float) -> None:
    """One slot without any plan."""
    slots.begin[0], slots.end[0], slots.after[0] = begin, end, LAST
    slots.used[0] = 1
    for word in range(slots.free.shape[1]):
        slots.free[0, word] = _ALL


@compiled_borrowing
def _cut(slots: TimeSlots, slot: int, time: float) -> None:
    """Make two slots of one."""
    new = slots.used[0]
    slots.used[0] += 1
    slots.begin[new], slots.end[new] = time, slots.end[slot]
    slots.end[slot] = time
    slots.after[new] = slots.after[slot]
    slots.after[slot] = new
    for word in range(slots.free.shape[1]):
        slots.free[new, word] = slots.free[slot, word]


@compiled_borrowing
def add_plan(slots: TimeSlots, begin: float, end: float, nodes: IntArray, count: int) -> bool:
    """Plan for the first `count` of `nodes` from `begin` to `end`; False where no slot is left."""
    if slots.used[0] + 2 > len(slots.begin):
        return False
    slot = 0
    while slots.end[slot] <= begin:
        slot = slots.after[slot]
        if slot == LAST:
            return True  # behind the window
    if slots.begin[slot] < begin:
        _cut(slots, slot, begin)
        slot = slots.after[slot]
    while True:
        if slots.end[slot] > end:
            _cut(slots, slot, end)
        for place in range(count):
            take_out(slots.free[slot], nodes[place])
        if slots.end[slot] >= end or slots.after[slot] == LAST:
            return True
        slot = slots.after[slot]


@compiled_borrowing
def overlaps_plan(slots: TimeSlots, begin: float, end: float, nodes: IntArray, count: int) -> bool:
    """Whether any of the first `count` of `nodes` is planned between `begin` and `end`."""
    slot = 0
    while True:
        if slots.end[slot] > begin and slots.begin[slot] < end:
            for place in range(count):
                if not has(slots.free[slot], nodes[place]):
                    return True
        slot = slots.after[slot]
        if slot == LAST:
            return False


@compiled_borrowing
def _gains(slots: TimeSlots, serves: NodeBits, slot: int) -> bool:
    """Whether the next slot has a serving node that neither this one nor those before leave."""
    after = slots.after[slot]
    for word in range(len(serves)):
        now = slots.free[slot, word] & ~slots.closed[word]
        if serves[word] & slots.free[after, word] & ~now:
            return True
    return False


@compiled_borrowing
def close_planned(slots: TimeSlots, serves: NodeBits, begin: float, end: float) -> float:
    """Fill `closed` with nodes that do not serve or are planned between two times.

    Returns:
        When other nodes are free of plans than now, 0 for never.
    """
    for word in range(len(serves)):
        slots.closed[word] = ~serves[word]
    slot, later = 0, 0.0
    while True:
        after = slots.after[slot]
        looks = slots.end[slot] > begin and after != LAST and later == 0.0
        if looks and _gains(slots, serves, slot):
            later = slots.end[slot]
        if slots.end[slot] > begin:
            if slots.begin[slot] > end:
                if later == 0.0 and after != LAST and slots.after[after] != LAST:
                    later = slots.end[after]
                return later
            for word in range(len(serves)):
                slots.closed[word] |= ~slots.free[slot, word]
        if after == LAST:
            return later
        slot = after
