"""Which pending jobs get an estimate: those whose whole effect the heads' promises bound.

As in the simulator (`simulator.kernel.plan`, pending-only): a candidate that fits the hole before a
head by its estimate but not by its limit may be told to the scheduler, as long as its limit too
ends before what the head was promised and a slack. However wrong the estimate, the head starts no
later than that. Where the limit fits by itself nothing need be told.
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
    jobs, heads = snapshot.pending.jobs, {head.place for head in queue.heads}
    wanted = {}
    for place in queue.order.tolist():
        limit, wide = float(jobs.time_limit[place]), int(jobs.processors[place])
        if place in heads or wide > queue.free or not 0.0 < limit < math.inf:
            continue
        seconds = GRAIN * math.ceil(max(float(run_time[place]), 1.0) / GRAIN)
        if seconds + GRAIN > limit:
            continue
        if _helps(snapshot, queue.heads, wide, limit, seconds, bounds):
            wanted[int(jobs.job_id[place])] = seconds
    return wanted


def _helps(
    snapshot: QueueSnapshot,
    heads: tuple[Head, ...],
    wide: int,
    limit: float,
    seconds: int,
    bounds: PlanBounds,
) -> bool:
    """Whether an estimate lets a job start that its limit keeps waiting, within every promise."""
    acts = snapshot.now + bounds.delay
    needed = False
    for head in heads:
        if wide <= head.spare or acts + limit <= head.start:
            continue
        promise = bounds.promises.get(int(snapshot.pending.jobs.job_id[head.place]), -np.inf)
        if acts + seconds > head.start or acts + limit > promise + bounds.slack:
            return False
        needed = True
    return needed
