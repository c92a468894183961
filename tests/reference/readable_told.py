"""Whom our hook tells backfill of, in plain Python: every promise bounds what an estimate does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from tests.reference.readable_nodes import World

#: Half of a longest wait is forgotten in so many seconds.
_MONTH = 30 * 86400


class _Head(NamedTuple):
    """The job that starts next in a partition, when, and CPUs that it then leaves."""

    job: int
    start: float
    spare: float


class Told:
    """Estimates `seconds` of each job; heads may be pushed by `slack` of the longest wait."""

    def __init__(self, seconds: Sequence[float], slack: float, delay: float) -> None:
        self.seconds, self.slack, self.delay = seconds, slack, delay
        self.promise: dict[int, float] = {}
        self.longest, self.at = 0.0, -math.inf

    def chosen(self, world: World, order: Sequence[int]) -> dict[int, float]:
        """Job -> seconds that backfill is told of it."""
        waiting = [j for j in order if not world.is_held_back(j)]
        oldest = max((world.now - world.jobs[j].submit for j in waiting), default=0.0)
        faded = self.longest * 0.5 ** ((world.now - self.at) / _MONTH)
        self.longest, self.at = max(faded, oldest), world.now
        heads, free = self._heads(world, waiting)
        for head in heads:
            if world.now < head.start < math.inf:
                self.promise.setdefault(head.job, head.start)
        spare = {head.job: head.spare for head in heads}
        found = {}
        for j in waiting:
            seconds = 60 * math.ceil(max(self.seconds[j], 1.0) / 60)
            fits = _cpus(world, j) <= free and seconds + 60 <= world.jobs[j].estimate
            fits = fits and j not in [head.job for head in heads]
            if fits and self._helps(world, heads, spare, j, seconds):
                found[j] = seconds
                for head in self._outlasted(world, heads, j):
                    if _cpus(world, j) <= spare[head.job]:
                        spare[head.job] -= _cpus(world, j)
        return found

    def _outlasted(self, world: World, heads: Sequence[_Head], j: int) -> list[_Head]:
        return [h for h in heads if world.now + self.delay + world.jobs[j].estimate > h.start]

    def _heads(self, world: World, waiting: Sequence[int]) -> tuple[list[_Head], float]:
        ends = [(max(world.expected_end(j), world.now), _cpus(world, j)) for j in world.running]
        free = sum(node.has["cpus"] for node in world.nodes) - sum(cpus for _, cpus in ends)
        heads: dict[int, _Head] = {}
        for j in waiting:
            job, cpus = world.jobs[j], _cpus(world, j)
            if job.partition in heads:
                continue
            if cpus <= free and world.now - job.submit < 60:
                free -= cpus
                ends.append((world.now + job.estimate, cpus))
            else:
                heads[job.partition] = _Head(j, *_start(ends, cpus, free, world.now))
        return list(heads.values()), free

    def _helps(
        self,
        world: World,
        heads: Sequence[_Head],
        spare: dict[int, float],
        j: int,
        seconds: float,
    ) -> bool:
        acts, limit = world.now + self.delay, world.jobs[j].estimate
        slack = min(max(self.slack * self.longest, 60), 86400)
        outlasted = self._outlasted(world, heads, j)
        in_the_way = [h for h in outlasted if _cpus(world, j) > spare[h.job]]
        return bool(in_the_way) and all(
            acts + seconds <= head.start
            and acts + limit <= self.promise.get(head.job, -math.inf) + slack
            for head in in_the_way
        )


def _cpus(world: World, j: int) -> float:
    return world.jobs[j].asks.cpus


def _start(
    ends: Sequence[tuple[float, float]], cpus: float, free: float, now: float
) -> tuple[float, float]:
    """When so many CPUs are free, all that end together at once, and how many are left then."""
    for time in sorted({now, *(end for end, _ in ends)}):
        left = free + sum(gone for end, gone in ends if end <= time)
        if left >= cpus:
            return time, left - cpus
    return math.inf, 0
