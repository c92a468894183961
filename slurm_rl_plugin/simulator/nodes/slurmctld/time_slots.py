"""What Slurm's table of plans tells: which nodes are planned when, and when others are free of it.

A plan takes whole nodes, as sched/backfill has it (Slurm 26.05), though the job may need only a
part of each. Slurm keeps stretches of time (slots) with the nodes that are free of plans in each;
here stand the plans themselves and the times at which its slots meet, which tell the same in
fewer steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.simulator.nodes.requests import NodeBits, has, no_nodes, put_in
from slurm_rl_plugin.units import FloatArray, IntArray

#: Indices into `TimeSlots.used`.
_PLANS, _TIMES = 0, 1
#: Indices into `TimeSlots.window`.
BEGIN, END = 0, 1
_NONE = -1


class TimeSlots(NamedTuple):
    """Plans of whole nodes within a window of time."""

    window: FloatArray  #: begin and end, seconds
    #: first, last: of each plan of a node, shape [most plans].
    first: FloatArray
    last: FloatArray
    node: IntArray  #: that it takes
    before: IntArray  #: the plan of the same node that was made before it, -1 for none
    newest: IntArray  #: the last plan of each node, shape [nodes]
    times: FloatArray  #: at which slots meet, in rising order, shape [2 * most plans]
    used: IntArray  #: plans and times in use, shape [2]
    closed: NodeBits  #: space for the nodes that a job must not take, a set


def time_slots(most: int, nodes: int) -> TimeSlots:
    """Room for so many plans of a node."""
    return TimeSlots(
        window=np.zeros(2),
        first=np.zeros(most),
        last=np.zeros(most),
        node=np.zeros(most, dtype=np.int64),
        before=np.zeros(most, dtype=np.int64),
        newest=np.full(nodes, _NONE),
        times=np.zeros(2 * most),
        used=np.zeros(2, dtype=np.int64),
        closed=no_nodes(nodes),
    )


@compiled_borrowing
def clear_slots(slots: TimeSlots, begin: float, end: float) -> None:
    """A window without any plan."""
    slots.window[BEGIN], slots.window[END] = begin, end
    for plan in range(slots.used[_PLANS]):
        slots.newest[slots.node[plan]] = _NONE
    slots.used[_PLANS] = slots.used[_TIMES] = 0


@compiled_borrowing
def _place_behind(slots: TimeSlots, time: float) -> int:
    """Place of the first of `times` that is later."""
    low, high = 0, slots.used[_TIMES]
    while low < high:
        middle = (low + high) // 2
        if slots.times[middle] > time:
            high = middle
        else:
            low = middle + 1
    return low


@compiled_borrowing
def _cut(slots: TimeSlots, time: float) -> None:
    """Let slots meet at a time."""
    if time <= slots.window[BEGIN] or time >= slots.window[END]:
        return
    place = _place_behind(slots, time)
    if place > 0 and slots.times[place - 1] == time:
        return
    for each in range(slots.used[_TIMES], place, -1):
        slots.times[each] = slots.times[each - 1]
    slots.times[place] = time
    slots.used[_TIMES] += 1


@compiled_borrowing
def add_plan(slots: TimeSlots, begin: float, end: float, nodes: IntArray, count: int) -> None:
    """Plan for the first `count` of `nodes` from `begin` to `end`, as far as the window goes."""
    if begin >= slots.window[END]:
        return
    _cut(slots, begin)
    _cut(slots, end)
    for place in range(count):
        plan, node = slots.used[_PLANS], nodes[place]
        slots.first[plan], slots.last[plan] = begin, min(end, slots.window[END])
        slots.node[plan] = node
        slots.before[plan] = slots.newest[node]
        slots.newest[node] = plan
        slots.used[_PLANS] += 1


@compiled_borrowing
def overlaps_plan(slots: TimeSlots, begin: float, end: float, nodes: IntArray, count: int) -> bool:
    """Whether any of the first `count` of `nodes` is planned between `begin` and `end`."""
    for place in range(count):
        plan = slots.newest[nodes[place]]
        while plan != _NONE:
            if slots.first[plan] < end and slots.last[plan] > begin:
                return True
            plan = slots.before[plan]
    return False


@compiled_borrowing
def _is_free_behind(slots: TimeSlots, plan: int) -> bool:
    """Whether the node of a plan has no other that goes on where this one ends."""
    end, other = slots.last[plan], slots.newest[slots.node[plan]]
    while other != _NONE:
        if slots.first[other] <= end and slots.last[other] > end:
            return False
        other = slots.before[other]
    return True


@compiled_borrowing
def close_planned(slots: TimeSlots, serves: NodeBits, begin: float, end: float) -> float:
    """Fill `closed` with nodes that do not serve or are planned between two times.

    Returns:
        When other nodes are free of plans than now, 0 for never.
    """
    for word in range(len(serves)):
        slots.closed[word] = ~serves[word]
    gain = slots.window[END]
    for plan in range(slots.used[_PLANS]):
        last = slots.last[plan]
        if last <= begin:
            continue
        node = slots.node[plan]
        if last < gain and has(serves, node) and _is_free_behind(slots, plan):
            gain = last
        if slots.first[plan] <= end:
            put_in(slots.closed, node)
    return _later(slots, gain, end)


@compiled_borrowing
def _later(slots: TimeSlots, gain: float, end: float) -> float:
    """When Slurm looks again: it goes no further than the slot behind the first after `end`.

    Args:
        gain: when a serving node is free of plans first, the window's end for never.
    """
    if gain <= end and gain < slots.window[END]:
        return gain
    place, times = _place_behind(slots, end), slots.used[_TIMES]
    if gain < slots.window[END] and gain <= slots.times[min(place + 1, times - 1)]:
        return gain
    return slots.times[place + 2] if place + 2 < times else 0.0
