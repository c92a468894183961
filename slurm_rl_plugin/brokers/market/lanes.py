"""The schedule of single processors: what each is taken for, and the gaps between (2002, Fig. 5).

A lane is a processor. The lanes of a machine stand together, so that machine m has those from
first[m] to first[m + 1].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.simulator.compilation import compiled
from slurm_rl_plugin.units import FloatArray, IntArray


class Lanes(NamedTuple):
    """Allocations of every processor in order of time; functions of this module change it.

    Attributes:
        begin, finish: seconds, shape [lanes, places].
        owner: job number, shape [lanes, places].
        depth: how many allocations a lane has, shape [lanes].
        first: first lane of each machine and one past the last, shape [machines + 1].
    """

    begin: FloatArray
    finish: FloatArray
    owner: IntArray
    depth: IntArray
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
    """Lanes without an allocation.

    Args:
        processors: of each machine.
        places: how many allocations a lane can have.
    """
    first = np.concatenate([[0], np.cumsum(processors)]).astype(np.int64)
    shape = (int(first[-1]), places)
    return Lanes(
        begin=np.empty(shape),
        finish=np.empty(shape),
        owner=np.empty(shape, dtype=np.int64),
        depth=np.zeros(shape[0], dtype=np.int64),
        first=first,
    )


@compiled
def allocate(lanes: Lanes, lane: int, begin: float, finish: float, owner: int) -> None:
    """Take a lane for an interval that is free on it."""
    place = lanes.depth[lane]
    while place > 0 and lanes.begin[lane, place - 1] > begin:
        lanes.begin[lane, place] = lanes.begin[lane, place - 1]
        lanes.finish[lane, place] = lanes.finish[lane, place - 1]
        lanes.owner[lane, place] = lanes.owner[lane, place - 1]
        place -= 1
    lanes.begin[lane, place], lanes.finish[lane, place] = begin, finish
    lanes.owner[lane, place] = owner
    lanes.depth[lane] += 1


@compiled
def drop_first(lanes: Lanes, lane: int) -> None:
    """Forget the first allocation of a lane."""
    for place in range(1, lanes.depth[lane]):
        lanes.begin[lane, place - 1] = lanes.begin[lane, place]
        lanes.finish[lane, place - 1] = lanes.finish[lane, place]
        lanes.owner[lane, place - 1] = lanes.owner[lane, place]
    lanes.depth[lane] -= 1


@compiled
def drop_ended(lanes: Lanes, run_time: FloatArray, now: float) -> None:
    """Forget jobs that have ended by now, early or not: what they leave is free."""
    for lane in range(len(lanes.depth)):
        while lanes.depth[lane] > 0:
            if lanes.begin[lane, 0] + run_time[lanes.owner[lane, 0]] > now:
                break
            drop_first(lanes, lane)


@compiled
def empty_gaps(lanes: Lanes) -> Gaps:
    """Room for the gaps of all lanes, to be filled by `look`."""
    count = len(lanes.depth)
    return Gaps(
        np.zeros(count, dtype=np.int64),
        np.empty(count),
        np.empty(count),
        np.zeros(count, dtype=np.int64),
    )


@compiled
def look(lanes: Lanes, gaps: Gaps, lane: int, time: float, now: float) -> None:
    """Find the gap of a lane around `time`, which must not be before that of the last look."""
    place = gaps.place[lane]
    while place < lanes.depth[lane] and lanes.finish[lane, place] <= time:
        place += 1
    gaps.place[lane] = place
    gaps.begin[lane] = now if place == 0 else max(lanes.finish[lane, place - 1], now)
    gaps.end[lane] = np.inf
    gaps.free[lane] = 1
    if place < lanes.depth[lane]:
        gaps.end[lane] = lanes.begin[lane, place]
        if gaps.end[lane] <= time:
            gaps.begin[lane] = gaps.end[lane] = lanes.finish[lane, place]
            gaps.free[lane] = 0


@compiled
def next_gap(lanes: Lanes, gaps: Gaps, lane: int) -> float:
    """When the gap after the one that was looked at can begin; inf where none follows."""
    place = gaps.place[lane]
    return lanes.finish[lane, place] if place < lanes.depth[lane] else np.inf


@compiled
def end_of_schedule(lanes: Lanes, machine: int, least: float) -> float:
    """When the last allocation of a machine ends, at the least `least`."""
    end = least
    for lane in range(lanes.first[machine], lanes.first[machine + 1]):
        depth = lanes.depth[lane]
        if depth > 0:
            end = max(end, lanes.finish[lane, depth - 1])
    return end


@compiled
def taken_area(lanes: Lanes, machine: int, begin: float, end: float) -> float:
    """Processor-seconds that are taken on a machine between two instants."""
    area = 0.0
    for lane in range(lanes.first[machine], lanes.first[machine + 1]):
        for place in range(lanes.depth[lane]):
            if lanes.begin[lane, place] >= end:
                break
            overlap = min(lanes.finish[lane, place], end) - max(lanes.begin[lane, place], begin)
            area += max(overlap, 0.0)
    return area
