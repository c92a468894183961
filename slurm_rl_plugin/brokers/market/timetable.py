"""How many processors of each machine stay free over time, and the earliest place for a job.

Rescheduling looks at machines as wholes: which processors a job gets is settled when it starts, so
that numbers are enough (intervals on one machine can always be given processors in the order of
their starts).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.brokers.market.offers import WHERE_TOO_WIDE, WHEREVER_BETTER
from slurm_rl_plugin.simulator.compilation import compiled
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray


class Timetable(NamedTuple):
    """Free processors from each of `points[0]` instants on; functions here change it.

    Attributes:
        time: instants, ascending, seconds.
        free: free processors of each machine from then on, shape [places, machines].
        points: how many instants are in use, shape [1].
    """

    time: FloatArray
    free: IntArray
    points: IntArray


def empty_timetable(places: int, machines: int) -> Timetable:
    """Room for so many instants."""
    return Timetable(
        time=np.empty(places),
        free=np.empty((places, machines), dtype=np.int64),
        points=np.zeros(1, dtype=np.int64),
    )


@compiled
def everything_free(table: Timetable, capacity: IntArray, now: float) -> None:
    """Begin anew: nothing is taken from now on."""
    table.time[0] = now
    table.free[0] = capacity
    table.points[0] = 1


@compiled
def _instant(table: Timetable, time: float) -> int:
    """Place of an instant, which is put in where it is not there; never before the first."""
    points = int(table.points[0])
    place = int(np.searchsorted(table.time[:points], time))
    if place < points and table.time[place] == time:
        return place
    for later in range(points, place, -1):
        table.time[later] = table.time[later - 1]
        table.free[later] = table.free[later - 1]
    table.time[place] = time
    table.free[place] = table.free[place - 1]
    table.points[0] += 1
    return place


@compiled
def take(table: Timetable, begin: float, end: float, parts: IntArray) -> None:
    """Take processors of each machine for an interval that begins now or later."""
    first = _instant(table, begin)
    last = _instant(table, end)
    for place in range(first, last):
        for machine in range(len(parts)):
            table.free[place, machine] -= parts[machine]


@compiled
def _divide(room: IntArray, processors: int, parts: IntArray) -> None:
    """Where a job goes: the narrowest room of one machine, or parts from the widest on."""
    parts[:] = 0
    alone = -1
    for machine in range(len(room)):
        if room[machine] >= processors and (alone < 0 or room[machine] < room[alone]):
            alone = machine
    if alone >= 0:
        parts[alone] = processors
        return
    left = processors
    while left > 0:
        machine = int(np.argmax(room))
        parts[machine] = min(left, room[machine])
        left -= parts[machine]
        room[machine] = 0


@compiled
def may_be_split(processors: int, capacity: IntArray, open_to: BoolArray, splitting: int) -> bool:
    """Whether a job may run on several of the machines that its request gets to."""
    if splitting == WHEREVER_BETTER:
        return True
    return splitting == WHERE_TOO_WIDE and processors > (capacity * open_to).max()


@compiled
def earliest(
    table: Timetable,
    processors: int,
    duration: float,
    open_to: BoolArray,
    splits: bool,
    parts: IntArray,
) -> float:
    """The first instant from which there is room for a job, and its parts.

    Args:
        table: with everything that is taken.
        processors: of the job.
        duration: seconds that it is allocated.
        open_to: machines that it may run on, shape [machines].
        splits: whether on several at once.
        parts: filled in with its processors on each machine.
    """
    machines, points = table.free.shape[1], table.points[0]
    room = np.empty(machines, dtype=np.int64)
    first = 0
    while True:
        end, place = table.time[first] + duration, first
        for machine in range(machines):
            room[machine] = table.free[first, machine] if open_to[machine] else 0
        while True:
            widest, all_room = 0, 0
            for machine in range(machines):
                room[machine] = min(room[machine], table.free[place, machine])
                widest = max(widest, room[machine])
                all_room += room[machine]
            if widest < processors and not (splits and all_room >= processors):
                break
            place += 1
            if place == points or table.time[place] >= end:
                _divide(room, processors, parts)
                return table.time[first]
        # one machine has no room before the instant that stood in the way has passed
        first = place + 1 if machines == 1 else first + 1
