"""How many processors of each machine stay free over time, and the earliest place for a job.

Rescheduling looks at machines as wholes: which processors a job gets is settled when it starts, so
that numbers are enough (intervals on one machine can always be given processors in the order of
their starts).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.brokers.market.agreements import RUNNING, Agreements, MarketJobs
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.units import FloatArray, IntArray


class Timetable(NamedTuple):
    """Free processors from each of `points[0]` instants on; functions here change it.

    Attributes:
        time: instants, ascending, seconds.
        free: free processors of each machine from then on, shape [places, machines].
        points: how many instants are in use, shape [1].
        room: what `earliest` counts in, shape [machines].
    """

    time: FloatArray
    free: IntArray
    points: IntArray
    room: IntArray


def empty_timetable(places: int, machines: int) -> Timetable:
    """A timetable without an instant, with arrays for so many of them."""
    return Timetable(
        time=np.empty(places),
        free=np.empty((places, machines), dtype=np.int64),
        points=np.zeros(1, dtype=np.int64),
        room=np.zeros(machines, dtype=np.int64),
    )


@compiled_borrowing
def tabulate_running(jobs: MarketJobs, state: Agreements, table: Timetable, now: float) -> None:
    """The timetable of what runs, each job for all the time that it was given."""
    table.time[0] = now
    for machine in range(len(state.capacity)):
        table.free[0, machine] = state.capacity[machine]
    table.points[0] = 1
    for place in range(state.counts[RUNNING]):
        job = state.running[place]
        take(table, 0, state.start[job] + jobs.allocated[job], state.parts, job)


@compiled_borrowing
def take_planned(jobs: MarketJobs, state: Agreements, table: Timetable, job: int) -> None:
    """Take what a waiting job has in the present schedule."""
    begin = state.planned[job]
    place = instant(table, begin)
    take(table, place, begin + jobs.allocated[job], state.parts, job)


@compiled_borrowing
def forget_past(table: Timetable, now: float) -> None:
    """Let a timetable begin now, not before its present beginning."""
    dropped = 0
    while dropped + 1 < table.points[0] and table.time[dropped + 1] <= now:
        dropped += 1
    for place in range(dropped, table.points[0]):
        table.time[place - dropped] = table.time[place]
        for machine in range(table.free.shape[1]):
            table.free[place - dropped, machine] = table.free[place, machine]
    table.points[0] -= dropped
    table.time[0] = now


@compiled_borrowing
def give_back(table: Timetable, end: float, parts: IntArray, row: int) -> None:
    """Give back the processors of a row of `parts`, from the beginning of the timetable on."""
    place = 0
    while place < table.points[0] and table.time[place] < end:
        for machine in range(table.free.shape[1]):
            table.free[place, machine] += parts[row, machine]
        place += 1


@compiled_borrowing
def copy_table(source: Timetable, target: Timetable) -> None:
    """Make one timetable the same as another."""
    points = source.points[0]
    for place in range(points):
        target.time[place] = source.time[place]
        for machine in range(source.free.shape[1]):
            target.free[place, machine] = source.free[place, machine]
    target.points[0] = points


@compiled_borrowing
def instant(table: Timetable, time: float) -> int:
    """Place of an instant, which is put in where it is not there; never before the first."""
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
    """Take the processors of a row of `parts` from the instant at a place on until `end`."""
    last = instant(table, end)
    for place in range(first, last):
        for machine in range(table.free.shape[1]):
            table.free[place, machine] -= parts[row, machine]


@compiled_borrowing
def earliest(
    table: Timetable, jobs: MarketJobs, job: int, latest: float, parts: IntArray, row: int
) -> int:
    """The first place of a timetable from which there is room for a job; -1 for none in time.

    Args:
        table: with everything that is taken.
        jobs: all of them.
        job: its number.
        latest: start that is still in time, seconds.
        parts: processors on each machine, filled in at a row; shape [rows, machines].
        row: which one.
    """
    first = 0
    while table.time[first] <= latest:
        blocked = _blocked(table, jobs, job, first)
        if blocked < 0:
            _divide(table.room, jobs.processors[job], parts, row)
            return first
        first = blocked + 1 if _too_little(table, jobs, job, blocked) else first + 1
    return -1


@compiled_borrowing
def _too_little(table: Timetable, jobs: MarketJobs, job: int, place: int) -> bool:
    """Whether the machines open to a job have too few free processors at an instant."""
    widest, total = 0, 0
    for machine in range(len(table.room)):
        if jobs.reach[job, machine]:
            widest = max(widest, table.free[place, machine])
            total += table.free[place, machine]
    processors = jobs.processors[job]
    return widest < processors and not (jobs.splits[job] and total >= processors)


@compiled_borrowing
def _blocked(table: Timetable, jobs: MarketJobs, job: int, first: int) -> int:
    """Place of the instant at which a job that starts at a place has no room; -1 for none.

    `table.room` is what each machine has free all the time.
    """
    processors, room = jobs.processors[job], table.room
    for machine in range(len(room)):
        room[machine] = table.free[first, machine] if jobs.reach[job, machine] else 0
    end = table.time[first] + jobs.allocated[job]
    for place in range(first, table.points[0]):
        if place > first and table.time[place] >= end:
            break
        widest, total = 0, 0
        for machine in range(len(room)):
            room[machine] = min(room[machine], table.free[place, machine])
            widest = max(widest, room[machine])
            total += room[machine]
        if widest < processors and not (jobs.splits[job] and total >= processors):
            return place
    return -1


@compiled_borrowing
def _divide(room: IntArray, processors: int, parts: IntArray, row: int) -> None:
    """Where a job goes: the narrowest room of one machine, or parts from the widest on."""
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
