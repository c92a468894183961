"""Offers from free intervals: the sweep, the buckets, coarse and fine selection (2002, section 4).

The offered start is the planned start, plus a margin if that is not now: see ADR 21.

The sweep goes through the instants at which processors become free. At the first instant at which
enough of a machine's processors stay free for the job, that machine makes its offer: the best of
several choices among the free intervals (coarse), then the best of several starts within the common
interval (fine). If a job may be split, the first instant at which all machines together have room
gives an offer too.

The owner's and the user's formulas get the variables of 2002, Fig. 9, in `price` and `worth`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.brokers.market import formula
from slurm_rl_plugin.brokers.market.formula import MACHINE_VARIABLES, Program
from slurm_rl_plugin.brokers.market.timetable import (
    Gaps,
    Lanes,
    Timetable,
    empty_gaps,
    end_of_schedule,
    look,
    taken_area,
)
from slurm_rl_plugin.simulator.kernel.compilation import (
    compiled,
    compiled_borrowing,
    compiled_copy,
)
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

formula_value = compiled_copy(
    formula.run_program,
    of_one=compiled_copy(formula.of_one),
    of_two=compiled_copy(formula.of_two),
)
#: An expensive variable that is computed if used.
_UTILIZATION = MACHINE_VARIABLES.index("utilization")


class Terms(NamedTuple):
    """The owner's price function and the user's utility function, compiled."""

    owner: Program
    user: Program


class Request(NamedTuple):
    """A request for offers for a job."""

    now: float  #: time of the request, seconds
    processors: int
    duration: float  #: allocated seconds
    splits: bool  #: whether the job may run on several machines at once
    margin: float  #: added by owners to a start that is not now, seconds
    interactive: bool  #: whether the job is of that class
    reach: BoolArray  #: machines that the request reaches, shape [machines]


@compiled_borrowing
def offered_start(start: float, request: Request) -> float:
    """The offered start for a planned one, seconds."""
    return start if start <= request.now else start + request.margin


@compiled
def price(
    lanes: Lanes,
    gaps: Gaps,
    machine: int,
    chosen: IntArray,
    start: float,
    request: Request,
    owner: Program,
) -> float:
    """The owner's function for a job on chosen lanes of a machine (MV = MF(Pm)); -inf for no value.

    Args:
        gaps: each lane's gap at or before `start`, seconds.
        chosen: lanes, each free from `start` on for the duration.
    """
    duration, now, count = request.duration, request.now, len(chosen)
    end = start + duration
    horizon = end_of_schedule(lanes, machine, end)
    under, over = 0.0, 0.0
    for lane in chosen:
        under += start - gaps.begin[lane]
        over += min(gaps.end[lane], horizon) - end
    capacity = lanes.first[machine + 1] - lanes.first[machine]
    left_right = (capacity - count) * duration - taken_area(lanes, machine, start, end)
    area, utilization = count * duration, 0.0
    if owner.names[_UTILIZATION]:
        allocated = taken_area(lanes, machine, now, horizon) + area
        utilization = allocated / (capacity * (horizon - now))
    schedule = (over, under, left_right, left_right / area, utilization)
    interactive = 1.0 if request.interactive else 0.0
    values = np.array([count, duration, *schedule, start - now, end - now, capacity, interactive])
    return formula_value(owner, values)


@compiled
def worth(start: float, cost: float, capacity: int, request: Request, user: Program) -> float:
    """The user's function for a planned start, seconds, at a price."""
    if not np.isfinite(cost):
        return -np.inf
    wait, duration = offered_start(start, request) - request.now, request.duration
    interactive = 1.0 if request.interactive else 0.0
    values = np.array(
        [wait, wait + duration, duration, request.processors, cost, 0.0, capacity, interactive]
    )
    return formula_value(user, values)


#: Number of later starts in the fine selection.
FINE_STEPS = 8
#: Ways to choose among free intervals; see `_key`.
_WAYS = 5


class Offer(NamedTuple):
    """The best offer so far."""

    #: [utility, price, planned start]; utility and price in their own units, seconds.
    worth: FloatArray
    lanes: IntArray  #: the processors, the first `used[0]` entries
    used: IntArray  #: number of lanes; 0 without an offer; shape [1]


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
    """Number of intervals with the start and end of each (the paper's buckets)."""
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
    """Sort key of lanes: latest begin, earliest end, shortest, latest end, or largest bucket."""
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
    """Keep an offer of a higher value, or of the same at a lower price, than the best so far."""
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
    """The offer of a machine at its first instant with room: coarse, then fine selection."""
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
            break  # there is one choice
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
    """An offer of parts on several machines, the largest on the machine with the most room."""
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
    """Whether enough processors stay free from an instant on for an offer.

    Only their number is checked: single processors may be allocated in between.
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
    """The offer of all machines with the highest value for the user.

    Args:
        lanes: the schedule of all processors, without ended jobs.
        table: numbers of free processors from now on, to skip instants without an offer quickly.

    Returns:
        On a tie the cheaper offer, then that of the machine that could start first. No lanes if the
        job is too wide.
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
