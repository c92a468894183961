"""The agreements of a market: jobs, their promised starts, and free processors over time.

Offers use lanes: a lane is a processor with its allocations. Machine m has the lanes from first[m]
to first[m + 1]. Rescheduling uses numbers of processors of whole machines, since a job gets its
processors at its start (intervals on one machine can always get processors in the order of their
starts).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_borrowing
from slurm_rl_plugin.simulator.kernel.workload import Records
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: Indices into `Agreements.counts`.
WAITING, RUNNING, NEXT = 0, 1, 2


class MarketJobs(NamedTuple):
    """Jobs in order of submission."""

    rows: Records  #: of JOB, shape [n]; the allocated time is the estimate, at least the run time
    splits: BoolArray  #: whether it may run on several machines at once, shape [n]
    reach: BoolArray  #: machines that its request reaches, shape [n, machines]


class Agreements(NamedTuple):
    """The state of a market, which its functions change in place."""

    #: Agreed latest start, NaN before; shape [n]; the end is `allocated` later.
    promised: FloatArray
    planned: FloatArray  #: start in the present schedule; shape [n]
    start: FloatArray  #: NaN before; shape [n]
    price: FloatArray  #: agreed; shape [n]
    parts: IntArray  #: processors on each machine, as planned and then as run; shape [n, machines]
    waiting: IntArray  #: jobs with an agreement and no start, the first counts[WAITING]
    running: IntArray  #: running jobs, the first counts[RUNNING]
    lane_job: IntArray  #: the job on each processor, -1 for none; shape [lanes]
    capacity: IntArray  #: processors of each machine
    counts: IntArray  #: see the indices above


def no_agreements(jobs: int, capacity: IntArray) -> Agreements:
    """A market before the first request."""
    return Agreements(
        promised=np.full(jobs, np.nan),
        planned=np.full(jobs, np.inf),
        start=np.full(jobs, np.nan),
        price=np.full(jobs, np.nan),
        parts=np.zeros((jobs, len(capacity)), dtype=np.int64),
        waiting=np.empty(jobs, dtype=np.int64),
        running=np.empty(jobs, dtype=np.int64),
        lane_job=np.full(int(capacity.sum()), -1, dtype=np.int64),
        capacity=capacity,
        counts=np.zeros(NEXT + 1, dtype=np.int64),
    )


@compiled_borrowing
def next_event(jobs: MarketJobs, state: Agreements) -> float:
    """Time of the next submission, end, or planned start; inf without one."""
    counts, time = state.counts, np.inf
    if counts[NEXT] < len(jobs.rows):
        time = jobs.rows[counts[NEXT]].submit
    for job in state.running[: counts[RUNNING]]:
        time = min(time, state.start[job] + jobs.rows[job].run_time)
    for job in state.waiting[: counts[WAITING]]:
        time = min(time, state.planned[job])
    return time


@compiled_borrowing
def end_jobs(jobs: MarketJobs, state: Agreements, now: float) -> None:
    """End the jobs that end by now."""
    kept = 0
    for place in range(state.counts[RUNNING]):
        job = state.running[place]
        if state.start[job] + jobs.rows[job].run_time > now:
            state.running[kept] = job
            kept += 1
            continue
        for lane in range(len(state.lane_job)):
            if state.lane_job[lane] == job:
                state.lane_job[lane] = -1
    state.counts[RUNNING] = kept


@compiled_borrowing
def _settle_lanes(state: Agreements, job: int) -> None:
    """Allocate the first idle processors of each of its machines to a starting job."""
    first = 0
    for machine in range(len(state.capacity)):
        last = first + state.capacity[machine]
        left = state.parts[job, machine]
        for lane in range(first, last):
            if left > 0 and state.lane_job[lane] < 0:
                state.lane_job[lane] = job
                left -= 1
        first = last


@compiled_borrowing
def start_planned(state: Agreements, now: float) -> None:
    """Start every due job."""
    counts, kept = state.counts, 0
    for place in range(counts[WAITING]):
        job = state.waiting[place]
        if state.planned[job] > now:
            state.waiting[kept] = job
            kept += 1
            continue
        state.start[job] = now
        _settle_lanes(state, job)
        state.running[counts[RUNNING]] = job
        counts[RUNNING] += 1
    counts[WAITING] = kept


@compiled
def sort_waiting(state: Agreements, key: FloatArray, found: IntArray) -> None:
    """Fill `found` with the waiting jobs by a column of shape [n], ties by agreement."""
    waiting = state.waiting[: state.counts[WAITING]]
    found[: len(waiting)] = waiting[np.argsort(key[waiting], kind="mergesort")]


#: Begin and end of an allocation, seconds, and its job's number.
ALLOCATION = np.dtype([("begin", np.float64), ("finish", np.float64), ("owner", np.int64)])


class Lanes(NamedTuple):
    """Allocations of every processor in order of time, changed in place."""

    taken: Records  #: of ALLOCATION, shape [places, lanes]: neighbours are read together
    depth: IntArray  #: number of allocations of a lane, shape [lanes]
    last: FloatArray  #: end of the last one, -inf without one, shape [lanes]
    first: IntArray  #: first lane of each machine and one past the last, shape [machines + 1]


class Gaps(NamedTuple):
    """The free interval of each lane around one instant; shape [lanes]."""

    place: IntArray  #: number of the first allocation that ends after the instant
    #: begin, end: of the gap, seconds; both the end of the allocation if the lane is allocated.
    begin: FloatArray
    end: FloatArray
    free: IntArray  #: 1 if the lane is free at the instant


def empty_lanes(processors: IntArray, places: int) -> Lanes:
    """Lanes without allocations for each processor of each machine."""
    first = np.concatenate([[0], np.cumsum(processors)]).astype(np.int64)
    lanes = int(first[-1])
    return Lanes(
        taken=np.empty((places, lanes), dtype=ALLOCATION),
        depth=np.zeros(lanes, dtype=np.int64),
        last=np.full(lanes, -np.inf),
        first=first,
    )


@compiled_borrowing
def allocate(lanes: Lanes, lane: int, begin: float, finish: float, owner: int) -> None:
    """Allocate a lane for a free interval."""
    place = lanes.depth[lane]
    while place > 0 and lanes.taken[place - 1, lane]["begin"] > begin:
        lanes.taken[place, lane] = lanes.taken[place - 1, lane]
        place -= 1
    new = lanes.taken[place, lane]
    new["begin"], new["finish"], new["owner"] = begin, finish, owner
    lanes.depth[lane] += 1
    lanes.last[lane] = max(lanes.last[lane], finish)


@compiled_borrowing
def drop_ended(lanes: Lanes, jobs: MarketJobs, now: float) -> None:
    """Remove the allocations of jobs that ended by now, early or not."""
    for lane in range(len(lanes.depth)):
        kept = 0
        for place in range(lanes.depth[lane]):
            taken = lanes.taken[place, lane]
            if kept > 0 or taken["begin"] + jobs.rows[taken["owner"]].run_time > now:
                lanes.taken[kept, lane] = taken
                kept += 1
        lanes.depth[lane] = kept
        if kept == 0:
            lanes.last[lane] = -np.inf


@compiled
def empty_gaps(lanes: Lanes) -> Gaps:
    """Arrays for the gaps of all lanes, filled by `look`."""
    count = len(lanes.depth)
    return Gaps(
        np.zeros(count, dtype=np.int64),
        np.empty(count),
        np.empty(count),
        np.zeros(count, dtype=np.int64),
    )


@compiled_borrowing
def look(lanes: Lanes, gaps: Gaps, lane: int, time: float, now: float) -> None:
    """Find the gap of a lane around `time`, which must not decrease between calls."""
    place = gaps.place[lane]
    while place < lanes.depth[lane] and lanes.taken[place, lane]["finish"] <= time:
        place += 1
    gaps.place[lane] = place
    gaps.begin[lane] = now if place == 0 else max(lanes.taken[place - 1, lane]["finish"], now)
    gaps.end[lane] = np.inf
    gaps.free[lane] = 1
    if place < lanes.depth[lane]:
        gaps.end[lane] = lanes.taken[place, lane]["begin"]
        if gaps.end[lane] <= time:
            gaps.begin[lane] = gaps.end[lane] = lanes.taken[place, lane]["finish"]
            gaps.free[lane] = 0


@compiled_borrowing
def end_of_schedule(lanes: Lanes, machine: int, least: float) -> float:
    """End of the last allocation of a machine, at least `least`."""
    end = least
    for lane in range(lanes.first[machine], lanes.first[machine + 1]):
        end = max(end, lanes.last[lane])
    return end


@compiled_borrowing
def taken_area(lanes: Lanes, machine: int, begin: float, end: float) -> float:
    """Allocated processor-seconds of a machine between two instants."""
    area = 0.0
    for lane in range(lanes.first[machine], lanes.first[machine + 1]):
        for place in range(lanes.depth[lane]):
            taken = lanes.taken[place, lane]
            if taken["begin"] >= end:
                break
            area += max(min(taken["finish"], end) - max(taken["begin"], begin), 0.0)
    return area


class Timetable(NamedTuple):
    """Free processors from each of `points[0]` instants on, changed in place."""

    time: FloatArray  #: instants, ascending, seconds
    free: IntArray  #: free processors of each machine from then on, shape [places, machines]
    points: IntArray  #: number of used instants, shape [1]
    room: IntArray  #: work space of `earliest`, shape [machines]


def empty_timetable(places: int, machines: int) -> Timetable:
    """A timetable without instants, with arrays for `places` of them."""
    return Timetable(
        time=np.empty(places),
        free=np.empty((places, machines), dtype=np.int64),
        points=np.zeros(1, dtype=np.int64),
        room=np.zeros(machines, dtype=np.int64),
    )


@compiled_borrowing
def tabulate_running(jobs: MarketJobs, state: Agreements, table: Timetable, now: float) -> None:
    """Make the timetable of the running jobs with their allocated times."""
    table.time[0], table.points[0] = now, 1
    for machine in range(len(state.capacity)):
        table.free[0, machine] = state.capacity[machine]
    for place in range(state.counts[RUNNING]):
        job = state.running[place]
        take(table, 0, state.start[job] + jobs.rows[job].estimate, state.parts, job)


@compiled_borrowing
def take_planned(jobs: MarketJobs, state: Agreements, table: Timetable, job: int) -> None:
    """Allocate a waiting job's place in the present schedule."""
    begin = state.planned[job]
    place = instant(table, begin)
    take(table, place, begin + jobs.rows[job].estimate, state.parts, job)


@compiled_borrowing
def copy_table(source: Timetable, target: Timetable) -> None:
    """Copy a timetable."""
    points = source.points[0]
    for place in range(points):
        target.time[place] = source.time[place]
        for machine in range(source.free.shape[1]):
            target.free[place, machine] = source.free[place, machine]
    target.points[0] = points


@compiled_borrowing
def instant(table: Timetable, time: float) -> int:
    """Place of an instant, which is inserted if missing; never before the first."""
    place = table.points[0]
    while place > 0 and table.time[place - 1] >= time:
        place -= 1
    if place < table.points[0] and table.time[place] == time:
        return place
    for later in range(table.points[0], place, -1):
        table.time[later] = table.time[later - 1]
        for machine in range(table.free.shape[1]):
            table.free[later, machine] = table.free[later - 1, machine]
    table.time[place] = time
    for machine in range(table.free.shape[1]):
        table.free[place, machine] = table.free[place - 1, machine]
    table.points[0] += 1
    return place


@compiled_borrowing
def take(table: Timetable, first: int, end: float, parts: IntArray, row: int) -> None:
    """Allocate the processors of a row of `parts` from the instant at a place until `end`."""
    last = instant(table, end)
    for place in range(first, last):
        for machine in range(table.free.shape[1]):
            table.free[place, machine] -= parts[row, machine]


@compiled_borrowing
def fits(jobs: MarketJobs, free: IntArray, job: int) -> bool:
    """Whether a job fits into the free processors of its machines."""
    widest, total = 0, 0
    for machine in range(len(free)):
        if jobs.reach[job, machine]:
            widest = max(widest, free[machine])
            total += free[machine]
    return widest >= jobs.rows[job].processors or (
        jobs.splits[job] and total >= jobs.rows[job].processors
    )


@compiled_borrowing
def earliest(
    table: Timetable, jobs: MarketJobs, job: int, latest: float, parts: IntArray, row: int
) -> int:
    """The first place of a timetable with room for a job by `latest`, seconds; -1 without one.

    A row of `parts`, shape [rows, machines], gets its processors on each machine.
    """
    first, processors, duration = 0, jobs.rows[job].processors, jobs.rows[job].estimate
    reach, splits = jobs.reach[job], jobs.splits[job]
    while table.time[first] <= latest:
        lacking = blocked(table, first, duration, processors, reach, reach, splits)
        if lacking < 0:
            _divide(table.room, processors, parts, row)
            return first
        first = first + 1 if fits(jobs, table.free[lacking], job) else lacking + 1
    return -1


@compiled_borrowing
def blocked(
    table: Timetable,
    first: int,
    duration: float,
    processors: int,
    reach: BoolArray,
    alone: BoolArray,
    splits: bool,
) -> int:
    """Place of the instant at which a job that starts at a place lacks room; -1 without one.

    The job needs one of the machines `alone`, or, if it `splits`, all within reach together.
    `table.room` gets the processors of each machine within reach that stay free.
    """
    room, end = table.room, table.time[first] + duration
    for machine in range(len(room)):
        room[machine] = table.free[first, machine] if reach[machine] else 0
    for place in range(first, table.points[0]):
        if place > first and table.time[place] >= end:
            break
        total, enough = 0, False
        for machine in range(len(room)):
            room[machine] = min(room[machine], table.free[place, machine])
            total += room[machine]
            enough = enough or (alone[machine] and room[machine] >= processors)
        if not enough and not (splits and total >= processors):
            return place
    return -1


@compiled_borrowing
def _divide(room: IntArray, processors: int, parts: IntArray, row: int) -> None:
    """Place a job on the machine with the least sufficient room, or in parts from the widest."""
    alone = -1
    for machine in range(len(room)):
        parts[row, machine] = 0
        if room[machine] >= processors and (alone < 0 or room[machine] < room[alone]):
            alone = machine
    if alone >= 0:
        parts[row, alone] = processors
        return
    left = processors
    while left > 0:
        widest = 0
        for machine in range(1, len(room)):
            if room[machine] > room[widest]:
                widest = machine
        parts[row, widest] = min(left, room[widest])
        left -= parts[row, widest]
        room[widest] = 0
