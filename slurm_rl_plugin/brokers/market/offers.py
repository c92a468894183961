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
    MarketJobs,
    Timetable,
    blocked,
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
from slurm_rl_plugin.units import FloatArray, IntArray

formula_value = compiled_copy(
    formula.run_program,
    of_one=compiled_copy(formula.of_one),
    of_two=compiled_copy(formula.of_two),
)
#: An expensive variable that is computed if used.
_UTILIZATION = MACHINE_VARIABLES.index("utilization")


class Terms(NamedTuple):
    """The terms of a market."""

    owner: Program  #: price function of every machine
    user: Program  #: utility function of every job
    margin: float  #: added by owners to a start that is not now, seconds
    rescheduling: bool  #: whether jobs may start before the agreed time


@compiled_borrowing
def offered_start(start: float, now: float, margin: float) -> float:
    """The offered start for a planned one, seconds."""
    return start if start <= now else start + margin


@compiled
def price(
    lanes: Lanes,
    gaps: Gaps,
    machine: int,
    chosen: IntArray,
    start: float,
    jobs: MarketJobs,
    job: int,
    owner: Program,
) -> float:
    """The owner's function for a job on chosen lanes of a machine (MV = MF(Pm)); -inf for no value.

    Args:
        gaps: each lane's gap at or before `start`, seconds.
        chosen: lanes, each free from `start` on for the duration.
    """
    duration, now, count = jobs.rows[job].estimate, jobs.rows[job].submit, len(chosen)
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
    interactive = 1.0 if jobs.rows[job].interactive else 0.0
    values = np.array([count, duration, *schedule, start - now, end - now, capacity, interactive])
    return formula_value(owner, values)


@compiled
def worth(
    start: float, cost: float, capacity: int, jobs: MarketJobs, job: int, terms: Terms
) -> float:
    """The user's function for a planned start, seconds, at a price."""
    if not np.isfinite(cost):
        return -np.inf
    row, length = jobs.rows[job], jobs.rows[job].estimate
    wait = offered_start(start, row.submit, terms.margin) - row.submit
    interactive = 1.0 if row.interactive else 0.0
    values = np.array(
        [wait, wait + length, length, row.processors, cost, 0.0, capacity, interactive]
    )
    return formula_value(terms.user, values)


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


@compiled
def _no_offer(processors: int) -> Offer:
    return Offer(np.zeros(3), np.empty(processors, dtype=np.int64), np.zeros(1, dtype=np.int64))


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
    lanes: Lanes, gaps: Gaps, machine: int, time: float, jobs: MarketJobs, job: int, terms: Terms
) -> Offer:
    """The offer of a machine at its first instant with room: coarse, then fine selection."""
    needed, duration = jobs.rows[job].processors, jobs.rows[job].estimate
    capacity = lanes.first[machine + 1] - lanes.first[machine]
    best = _no_offer(needed)
    room = _room(lanes, gaps, machine, time, duration)
    for way in range(_WAYS):
        chosen = room
        if len(room) > needed:
            order = np.argsort(_key(gaps, room, way), kind="mergesort")
            chosen = room[order[:needed]]
        cost = price(lanes, gaps, machine, chosen, time, jobs, job, terms.owner)
        value = worth(time, cost, capacity, jobs, job, terms)
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
        cost = price(lanes, gaps, machine, chosen, start, jobs, job, terms.owner)
        value = worth(start, cost, capacity, jobs, job, terms)
        if value > best.worth[0]:
            _keep_better(best, value, cost, start, chosen)
    return best


@compiled
def _split_offer(
    lanes: Lanes,
    gaps: Gaps,
    available: IntArray,
    time: float,
    jobs: MarketJobs,
    job: int,
    terms: Terms,
) -> Offer:
    """An offer of parts on several machines, the largest on the machine with the most room."""
    processors, cost = jobs.rows[job].processors, 0.0
    left, found = processors, _no_offer(processors)
    rest, capacity = available.copy(), 0
    while left > 0:
        machine = int(np.argmax(rest))
        room = _room(lanes, gaps, machine, time, jobs.rows[job].estimate)[:left]
        cost += price(lanes, gaps, machine, room, time, jobs, job, terms.owner)
        done = processors - left
        found.lanes[done : done + len(room)] = room
        left -= len(room)
        rest[machine] = 0
        capacity += lanes.first[machine + 1] - lanes.first[machine]
    value = worth(time, cost, capacity, jobs, job, terms)
    _keep_better(found, value, cost, time, found.lanes)
    return found


@compiled_borrowing
def _count_room(
    lanes: Lanes, gaps: Gaps, time: float, jobs: MarketJobs, job: int, available: IntArray
) -> None:
    """Count each machine's lanes with room at an instant."""
    for machine in range(len(available)):
        available[machine] = 0
        if not jobs.reach[job, machine]:
            continue
        for lane in range(lanes.first[machine], lanes.first[machine + 1]):
            look(lanes, gaps, lane, time, jobs.rows[job].submit)
            available[machine] += _long_enough(gaps, lane, time, jobs.rows[job].estimate)


@compiled
def best_offer(lanes: Lanes, table: Timetable, jobs: MarketJobs, job: int, terms: Terms) -> Offer:
    """The offer of all machines with the highest value for the user.

    Args:
        lanes: the schedule of all processors, without ended jobs.
        table: numbers of free processors from now on, to skip instants without an offer quickly;
            single processors may be allocated in between.

    Returns:
        On a tie the cheaper offer, then that of the machine that could start first. No lanes if the
        job is too wide.
    """
    machines, processors = len(lanes.first) - 1, jobs.rows[job].processors
    duration = jobs.rows[job].estimate
    reach, may_split, best = jobs.reach[job], jobs.splits[job], _no_offer(processors)
    missing = np.zeros(machines, dtype=np.bool_)  # machines still to make an offer
    for machine in range(machines):
        size = lanes.first[machine + 1] - lanes.first[machine]
        missing[machine] = reach[machine] and size >= processors
    gaps, available = empty_gaps(lanes), np.zeros(machines, dtype=np.int64)
    for place in range(table.points[0]):
        if blocked(table, place, duration, processors, reach, missing, may_split) >= 0:
            continue
        time = table.time[place]
        _count_room(lanes, gaps, time, jobs, job, available)
        for machine in range(machines):
            if missing[machine] and available[machine] >= processors:
                missing[machine] = False
                may_split = False  # a machine alone starts it as early
                made = _offer_of_machine(lanes, gaps, machine, time, jobs, job, terms)
                _keep_better(best, made.worth[0], made.worth[1], made.worth[2], made.lanes)
        if may_split and available.sum() >= processors:
            may_split = False
            made = _split_offer(lanes, gaps, available, time, jobs, job, terms)
            _keep_better(best, made.worth[0], made.worth[1], made.worth[2], made.lanes)
        if not (may_split or missing.any()):
            break
    return best
