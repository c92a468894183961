"""Offers from free intervals: the sweep, the buckets, coarse and fine selection (2002, section 4).

What is offered as the start is the plan's start and, where that is not now, a margin: see ADR 21.

The sweep goes through the instants at which processors become free. At the first at which enough
of a machine's processors stay free for the job, that machine makes its offer: of several ways to
choose among the free intervals the best (coarse), then of several starts within the interval that
the chosen ones share the best (fine). Where a job may be split, the first instant at which all
machines together have room gives an offer too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.brokers.market.prices import Request, Terms, price, worth
from slurm_rl_plugin.brokers.market.timetable import (
    Gaps,
    Lanes,
    Timetable,
    empty_gaps,
    end_of_schedule,
    look,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_borrowing
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: Later starts that the fine selection looks at.
FINE_STEPS = 8
#: Ways to choose among free intervals; see `_key`.
_WAYS = 5


class Offer(NamedTuple):
    """The best offer so far."""

    #: [utility, price, planned start]; utility and price in their own units, seconds.
    worth: FloatArray
    lanes: IntArray  #: the processors, the first `used[0]` entries
    used: IntArray  #: how many lanes; 0 while there is no offer; shape [1]


@compiled_borrowing
def _long_enough(gaps: Gaps, lane: int, time: float, duration: float) -> bool:
    return gaps.free[lane] == 1 and gaps.end[lane] - time >= duration


@compiled
def _room(lanes: Lanes, gaps: Gaps, machine: int, time: float, duration: float) -> IntArray:
    """The lanes of a machine that are free from `time` for the duration."""
    first, last = lanes.first[machine], lanes.first[machine + 1]
    found = np.empty(last - first, dtype=np.int64)
    count = 0
    for lane in range(first, last):
        if _long_enough(gaps, lane, time, duration):
            found[count] = lane
            count += 1
    return found[:count]


@compiled
def _bucket_sizes(begin: FloatArray, end: FloatArray) -> FloatArray:
    """How many intervals have the same start and end as each (the paper's buckets)."""
    order = np.argsort(end, kind="mergesort")
    order = order[np.argsort(begin[order], kind="mergesort")]
    sizes = np.empty(len(order))
    place = 0
    while place < len(order):
        last = place
        while last < len(order) and (
            begin[order[last]] == begin[order[place]] and end[order[last]] == end[order[place]]
        ):
            last += 1
        sizes[order[place:last]] = last - place
        place = last
    return sizes


@compiled
def _key(gaps: Gaps, room: IntArray, way: int) -> FloatArray:
    """What lanes are sorted by: what began last, ends first, is shortest, or ends last; buckets."""
    begin, end = gaps.begin[room], gaps.end[room]
    if way == 0:
        return -begin
    if way == 1:
        return end
    if way == 2:
        return end - begin
    if way == 3:
        return -end
    return -_bucket_sizes(begin, end)


@compiled
def _keep_better(offer: Offer, value: float, cost: float, start: float, chosen: IntArray) -> None:
    """Keep an offer where it is worth more, or as much at a lower price, than the best so far."""
    if offer.used[0] > 0 and (
        value < offer.worth[0] or (value == offer.worth[0] and cost >= offer.worth[1])
    ):
        return
    offer.worth[0], offer.worth[1], offer.worth[2] = value, cost, start
    offer.lanes[: len(chosen)] = chosen
    offer.used[0] = len(chosen)


@compiled
def _offer_of_machine(
    lanes: Lanes, gaps: Gaps, machine: int, time: float, request: Request, terms: Terms
) -> Offer:
    """What a machine offers at its first instant with room: coarse, then fine selection."""
    needed, duration = request.processors, request.duration
    capacity = lanes.first[machine + 1] - lanes.first[machine]
    best = Offer(np.zeros(3), np.empty(needed, dtype=np.int64), np.zeros(1, dtype=np.int64))
    room = _room(lanes, gaps, machine, time, duration)
    for way in range(_WAYS):
        chosen = room
        if len(room) > needed:
            order = np.argsort(_key(gaps, room, way), kind="mergesort")
            chosen = room[order[:needed]]
        cost = price(lanes, gaps, machine, chosen, time, request, terms.owner)
        value = worth(time, cost, capacity, request, terms.user)
        _keep_better(best, value, cost, time, chosen)
        if len(room) == needed:
            break  # there is but one way
    chosen = best.lanes.copy()
    horizon = end_of_schedule(lanes, machine, time + duration)
    latest = min(gaps.end[chosen].min(), horizon) - duration
    for step in range(1, FINE_STEPS + 1):
        start = time + (latest - time) * step / FINE_STEPS
        if start <= time or start + duration > gaps.end[chosen].min():
            break
        cost = price(lanes, gaps, machine, chosen, start, request, terms.owner)
        value = worth(start, cost, capacity, request, terms.user)
        if value > best.worth[0]:
            _keep_better(best, value, cost, start, chosen)
    return best


@compiled
def _split_offer(
    lanes: Lanes, gaps: Gaps, available: IntArray, time: float, request: Request, terms: Terms
) -> Offer:
    """Parts on several machines at the same time; most on the machine with the most room."""
    left, cost = request.processors, 0.0
    found = Offer(np.zeros(3), np.empty(left, dtype=np.int64), np.zeros(1, dtype=np.int64))
    rest, capacity = available.copy(), 0
    while left > 0:
        machine = int(np.argmax(rest))
        room = _room(lanes, gaps, machine, time, request.duration)[:left]
        cost += price(lanes, gaps, machine, room, time, request, terms.owner)
        done = request.processors - left
        found.lanes[done : done + len(room)] = room
        left -= len(room)
        rest[machine] = 0
        capacity += lanes.first[machine + 1] - lanes.first[machine]
    found.used[0] = request.processors
    value = worth(time, cost, capacity, request, terms.user)
    found.worth[0], found.worth[1], found.worth[2] = value, cost, time
    return found


@compiled_borrowing
def _may_have_room(
    table: Timetable, first: int, request: Request, missing: BoolArray, may_split: bool
) -> bool:
    """Whether enough processors stay free from an instant on that an offer may begin there.

    Which ones they are is not asked: single processors may still be taken in between.
    """
    room, end = table.room, table.time[first] + request.duration
    for machine in range(len(room)):
        room[machine] = table.free[first, machine] if request.reach[machine] else 0
    for place in range(first, table.points[0]):
        if place > first and table.time[place] >= end:
            break
        total, enough = 0, False
        for machine in range(len(room)):
            room[machine] = min(room[machine], table.free[place, machine])
            total += room[machine]
            enough = enough or (missing[machine] and room[machine] >= request.processors)
        if not enough and not (may_split and total >= request.processors):
            return False
    return True


@compiled_borrowing
def _count_room(
    lanes: Lanes, gaps: Gaps, time: float, request: Request, available: IntArray
) -> None:
    """Count each machine's lanes with room at an instant."""
    for machine in range(len(available)):
        available[machine] = 0
        if not request.reach[machine]:
            continue
        for lane in range(lanes.first[machine], lanes.first[machine + 1]):
            look(lanes, gaps, lane, time, request.now)
            available[machine] += _long_enough(gaps, lane, time, request.duration)


@compiled
def best_offer(lanes: Lanes, table: Timetable, request: Request, terms: Terms) -> Offer:
    """The offer of all machines that is worth most to the user.

    Args:
        lanes: the schedule of all processors, without what has ended.
        table: how many stay free in it, from now on: tells instants without an offer quickly.

    Returns:
        Of equal ones the cheaper, then that of the machine that could start first. No lanes where
        the job is too wide for what it may be allocated on.
    """
    machines = len(lanes.first) - 1
    missing = np.zeros(machines, dtype=np.bool_)  # machines still to make an offer
    for machine in range(machines):
        size = lanes.first[machine + 1] - lanes.first[machine]
        missing[machine] = request.reach[machine] and size >= request.processors
    may_split = request.splits
    best = Offer(
        np.zeros(3), np.empty(request.processors, dtype=np.int64), np.zeros(1, dtype=np.int64)
    )
    gaps, available = empty_gaps(lanes), np.zeros(machines, dtype=np.int64)
    for place in range(table.points[0]):
        if not _may_have_room(table, place, request, missing, may_split):
            continue
        time = table.time[place]
        _count_room(lanes, gaps, time, request, available)
        for machine in range(machines):
            if missing[machine] and available[machine] >= request.processors:
                missing[machine] = False
                may_split = False  # a machine alone starts it as early
                made = _offer_of_machine(lanes, gaps, machine, time, request, terms)
                _keep_better(best, made.worth[0], made.worth[1], made.worth[2], made.lanes)
        if may_split and available.sum() >= request.processors:
            may_split = False
            made = _split_offer(lanes, gaps, available, time, request, terms)
            _keep_better(best, made.worth[0], made.worth[1], made.worth[2], made.lanes)
        if not (may_split or missing.any()):
            break
    return best
