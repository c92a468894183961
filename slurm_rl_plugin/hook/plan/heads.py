"""The jobs that hold reservations, and when running jobs' limits let them start.

Processors are counted and nodes are not known, so a start told here is no later than the real one:
what it allows a candidate is too little rather than too much.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: Seconds in which a job that fits is taken to start by itself.
ABOUT_TO_START = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The job that starts next in a partition.

    Attributes:
        place: in the snapshot's pending jobs.
        start: when it fits if every job ran to its limit, seconds since the epoch.
        spare: processors that it then leaves.
    """

    place: int
    start: float
    spare: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingQueue:
    """Pending jobs in the order in which they are to start, and what is free.

    Attributes:
        order: places of jobs that wait for the machine, first to start first.
        heads: one for each partition with such jobs.
        free: processors that run nothing and that no job about to start takes.
    """

    order: IntArray
    heads: tuple[Head, ...]
    free: int


def waiting_queue(snapshot: QueueSnapshot, priority: IntArray, waits: BoolArray) -> WaitingQueue:
    """Who is head, by the priorities that jobs will have.

    Args:
        snapshot: the queue.
        priority: of each pending job after this cycle, shape [n].
        waits: which jobs could start if there were room, shape [n].
    """
    jobs = snapshot.pending.jobs
    places = np.flatnonzero(waits)
    order = places[np.lexsort((jobs.job_id[places], jobs.submit[places], -priority[places]))]
    running = snapshot.running
    ends = np.maximum(running.start + _limits(running.jobs.time_limit), snapshot.now)
    free = snapshot.capacity - int(running.jobs.processors.sum())
    taken, heads = _Taken(ends, running.jobs.processors), []
    headless = set(np.unique(jobs.partition[order]).tolist())
    for place in order.tolist():
        if not headless:
            break
        wide, partition = int(jobs.processors[place]), int(jobs.partition[place])
        if partition not in headless:
            continue
        if wide <= free and snapshot.now - jobs.eligible[place] < ABOUT_TO_START:
            free -= wide
            taken.add(snapshot.now + float(_limits(jobs.time_limit[place : place + 1])[0]), wide)
            continue
        headless.discard(partition)
        start, left = taken.start_of(wide, free, snapshot.now)
        heads.append(Head(place=place, start=start, spare=left))
    return WaitingQueue(order=order, heads=tuple(heads), free=free)


class _Taken:
    """Processors in use, by when they come free."""

    def __init__(self, ends: FloatArray, processors: IntArray) -> None:
        self._ends, self._processors = ends.tolist(), processors.tolist()

    def add(self, end: float, processors: int) -> None:
        self._ends.append(end)
        self._processors.append(processors)

    def start_of(self, wide: int, free: int, now: float) -> tuple[float, int]:
        """When so many processors are free, and how many are left then; inf where never."""
        ends, start = sorted(zip(self._ends, self._processors, strict=True)), now
        for end, processors in ends:
            if free >= wide and end > start:
                break
            start, free = end, free + processors
        return (start, free - wide) if free >= wide else (np.inf, 0)


def _limits(time_limit: FloatArray) -> FloatArray:
    """Seconds until a job is killed; inf where nothing kills it."""
    return np.where(np.isfinite(time_limit) & (time_limit > 0), time_limit, np.inf)
