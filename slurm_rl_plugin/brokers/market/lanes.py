"""The schedule of single processors: what each is taken for, and the gaps between (2002, Fig. 5).

A lane is a processor. The lanes of a machine stand together, so that machine m has those from
first[m] to first[m + 1].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_borrowing
from slurm_rl_plugin.units import FloatArray, IntArray


class Lanes(NamedTuple):
    """Allocations of every processor in order of time; functions of this module change it.

    Attributes:
        begin, finish: seconds, shape [places, lanes]: neighbouring lanes are looked at together.
        owner: job number, shape [places, lanes].
        depth: how many allocations a lane has, shape [lanes].
        last: end of the last one, -inf where there is none, shape [lanes].
        first: first lane of each machine and one past the last, shape [machines + 1].
    """

    begin: FloatArray
    finish: FloatArray
    owner: IntArray
    depth: IntArray
    last: FloatArray
    first: IntArray


class Gaps(NamedTuple):
    """The free interval of each lane around one instant; shape [lanes].

    Attributes:
        place: number of the first allocation that ends after the instant.
        begin, end: of the gap, seconds; both the end of the allocation where the lane is taken.
        free: 1 where the lane is free at the instant.
    """

    place: IntArray
    begin: FloatArray
    end: FloatArray
    free: IntArray


def empty_lanes(processors: IntArray, places: int) -> Lanes:
    """One lane for each processor of each machine, with no allocation in any.

    Args:
        processors: of each machine.
        places: how many allocations a lane can have.
    """
    first = np.concatenate([[0], np.cumsum(processors)]).astype(np.int64)
    shape = (places, int(first[-1]))
    return Lanes(
        begin=np.empty(shape),
        finish=np.empty(shape),
        owner=np.empty(shape, dtype=np.int64),
        depth=np.zeros(shape[1], dtype=np.int64),
        last=np.full(shape[1], -np.inf),
        first=first,
    )


@compiled_borrowing
def allocate(lanes: Lanes, lane: int, begin: float, finish: float, owner: int) -> None:
    """Take a lane for an interval that is free on it."""
    place = lanes.depth[lane]
    while place > 0 and lanes.begin[place - 1, lane] > begin:
        lanes.begin[place, lane] = lanes.begin[place - 1, lane]
        lanes.finish[place, lane] = lanes.finish[place - 1, lane]
        lanes.owner[place, lane] = lanes.owner[place - 1, lane]
        place -= 1
    lanes.begin[place, lane], lanes.finish[place, lane] = begin, finish
    lanes.owner[place, lane] = owner
    lanes.depth[lane] += 1
    lanes.last[lane] = max(lanes.last[lane], finish)


@compiled_borrowing
def drop_first(lanes: Lanes, lane: int) -> None:
    """Forget the first allocation of a lane."""
    for place in range(1, lanes.depth[lane]):
        lanes.begin[place - 1, lane] = lanes.begin[place, lane]
        lanes.finish[place - 1, lane] = lanes.finish[place, lane]
        lanes.owner[place - 1, lane] = lanes.owner[place, lane]
    lanes.depth[lane] -= 1
    if lanes.depth[lane] == 0:
        lanes.last[lane] = -np.inf


@compiled_borrowing
def drop_ended(lanes: Lanes, run_time: FloatArray, now: float) -> None:
    """Forget jobs that have ended by now, early or not: what they leave is free."""
    for lane in range(len(lanes.depth)):
        while lanes.depth[lane] > 0:
            if lanes.begin[0, lane] + run_time[lanes.owner[0, lane]] > now:
                break
            drop_first(lanes, lane)


@compiled
def empty_gaps(lanes: Lanes) -> Gaps:
    """Arrays for the gaps of all lanes, which `look` fills in."""
    count = len(lanes.depth)
    return Gaps(
        np.zeros(count, dtype=np.int64),
        np.empty(count),
        np.empty(count),
        np.zeros(count, dtype=np.int64),
    )


@compiled_borrowing
def look(lanes: Lanes, gaps: Gaps, lane: int, time: float, now: float) -> None:
    """Find the gap of a lane around `time`, which must not be before that of the last look."""
    place = gaps.place[lane]
    while place < lanes.depth[lane] and lanes.finish[place, lane] <= time:
        place += 1
    gaps.place[lane] = place
    gaps.begin[lane] = now if place == 0 else max(lanes.finish[place - 1, lane], now)
    gaps.end[lane] = np.inf
    gaps.free[lane] = 1
    if place < lanes.depth[lane]:
        gaps.end[lane] = lanes.begin[place, lane]
        if gaps.end[lane] <= time:
            gaps.begin[lane] = gaps.end[lane] = lanes.finish[place, lane]
            gaps.free[lane] = 0


@compiled_borrowing
def end_of_schedule(lanes: Lanes, machine: int, least: float) -> float:
    """When the last allocation of a machine ends, at the least `least`."""
    end = least
    for lane in range(lanes.first[machine], lanes.first[machine + 1]):
        end = max(end, lanes.last[lane])
    return end


@compiled_borrowing
def taken_area(lanes: Lanes, machine: int, begin: float, end: float) -> float:
    """Processor-seconds that are taken on a machine between two instants."""
    area = 0.0
    for lane in range(lanes.first[machine], lanes.first[machine + 1]):
        for place in range(lanes.depth[lane]):
            if lanes.begin[place, lane] >= end:
                break
            overlap = min(lanes.finish[place, lane], end) - max(lanes.begin[place, lane], begin)
            area += max(overlap, 0.0)
    return area
