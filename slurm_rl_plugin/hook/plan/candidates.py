"""Which pending jobs get an estimate: those whose whole effect the heads' promises bound.

As in the simulator (`simulator.kernel.plan`, pending-only): a candidate that fits the hole before a
head by its estimate but not by its limit may be told to the scheduler, as long as its limit too
ends before what the head was promised and a slack. However wrong the estimate, the head starts no
later than that. Where the limit fits by itself nothing need be told. What one head leaves beside it
is there for all together whom another head's hole is for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.hook.plan.heads import Head, WaitingQueue
from slurm_rl_plugin.units import FloatArray

#: Seconds that the least estimate has, and in which all are counted: Slurm's plan knows no less.
GRAIN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanBounds:
    """How far candidates may go.

    Attributes:
        promises: number of each head -> when it was to start as it became head, seconds since the
            epoch.
        slack: seconds beyond a promise.
        delay: seconds until the scheduler may act on what is written now.
    """

    promises: Mapping[int, float]
    slack: float
    delay: float


def wanted_estimates(
    snapshot: QueueSnapshot, queue: WaitingQueue, run_time: FloatArray, bounds: PlanBounds
) -> dict[int, int]:
    """Job number -> seconds of its estimate; jobs that are not named are to have none.

    Args:
        snapshot: the queue.
        queue: its order and heads.
        run_time: foretold of each pending job, seconds, shape [n].
        bounds: how far candidates may go.
    """
    jobs, room = snapshot.pending.jobs, _Room.before(snapshot, queue.heads, bounds)
    heads = {head.place for head in queue.heads}
    wanted = {}
    for place in queue.order.tolist():
        limit, wide = float(jobs.time_limit[place]), int(jobs.processors[place])
        if place in heads or wide > queue.free or not 0.0 < limit < math.inf:
            continue
        seconds = GRAIN * math.ceil(max(float(run_time[place]), 1.0) / GRAIN)
        if seconds + GRAIN <= limit and room.helps(wide, limit, seconds):
            room.take(wide, limit)
            wanted[int(jobs.job_id[place])] = seconds
    return wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class _Room:
    """What heads leave to those who are told of, all of them together.

    Attributes:
        heads: the heads.
        latest: to when each may be pushed, seconds since the epoch.
        spare: processors that each leaves still.
        acts: when what is told has an effect, the same.
    """

    heads: tuple[Head, ...]
    latest: list[float]
    spare: list[int]
    acts: float

    @classmethod
    def before(cls, snapshot: QueueSnapshot, heads: tuple[Head, ...], bounds: PlanBounds) -> _Room:
        """Before anybody is told of."""
        numbers = snapshot.pending.jobs.job_id
        promises = [bounds.promises.get(int(numbers[head.place]), -np.inf) for head in heads]
        return cls(
            heads=heads,
            latest=[promise + bounds.slack for promise in promises],
            spare=[head.spare for head in heads],
            acts=snapshot.now + bounds.delay,
        )

    def helps(self, wide: int, limit: float, seconds: int) -> bool:
        """Whether an estimate lets a job start that its limit keeps waiting, within every promise.

        Args:
            wide: processors of the job.
            limit: seconds.
            seconds: of the estimate.
        """
        needed = False
        for head, latest, spare in zip(self.heads, self.latest, self.spare, strict=True):
            if wide <= spare or self.acts + limit <= head.start:
                continue
            if self.acts + seconds > head.start or self.acts + limit > latest:
                return False
            needed = True
        return needed

    def take(self, wide: int, limit: float) -> None:
        """Count a job that is told of: where it may outlast a head's start it needs its room."""
        for place, head in enumerate(self.heads):
            if wide <= self.spare[place] and self.acts + limit > head.start:
                self.spare[place] -= wide
