"""The pending jobs as a decision leaves them: three ranks, and why a job is untouched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.hook.order.queue_plan import QueuePlan
from slurm_rl_plugin.hook.rails.guard_rails import UntouchedJobs, total_priority
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: The rank of a job that cannot start: held, or not eligible yet.
NO_RANK = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsideredJobs:
    """Columns of shape [n], one row for each pending job of the plan's snapshot.

    Ranks count from 1 over all jobs that the site may start, those included that we never touch.
    They are by the tier of the partition and then by priority, as the batch system tries them;
    reservations and room are not considered.

    Attributes:
        plan: where they come from.
        rank: once the decided order is written.
        site_rank: by the site's own priority, without any factor of ours.
        current_rank: by the priority that the jobs have now, our factors included.
        untouched: why a job is never given a factor; "" for one that may be.
        wait: seconds since the job was eligible; 0 before.
        accrued: those of them that count for the score, the starvation bound and a lift.
        passed_over: whether it waits by its own doing, so that the starvation bound passes over it.
    """

    plan: QueuePlan
    rank: IntArray
    site_rank: IntArray
    current_rank: IntArray
    untouched: tuple[str, ...]
    wait: FloatArray
    accrued: FloatArray
    passed_over: BoolArray

    @classmethod
    def of(cls, plan: QueuePlan, untouched: UntouchedJobs) -> Self:
        """What a plan makes of each job."""
        snapshot = plan.snapshot
        pending = snapshot.pending
        startable = ~pending.held & (pending.jobs.eligible <= snapshot.now)
        waited = np.where(startable, snapshot.now - pending.jobs.eligible, 0.0)
        return cls(
            plan=plan,
            rank=_ranks(snapshot, plan.priority_after, startable),
            site_rank=_ranks(snapshot, pending.native_priority, startable),
            current_rank=_ranks(snapshot, total_priority(pending), startable),
            untouched=_reasons(snapshot, untouched),
            wait=np.maximum(waited, 0.0),
            accrued=np.where(startable, snapshot.unserved_wait, 0.0),
            passed_over=pending.each_own_doing,
        )

    @property
    def ranked(self) -> int:
        """How many jobs have a rank."""
        return int(np.count_nonzero(self.rank != NO_RANK))

    @property
    def in_order(self) -> list[int]:
        """Places of all pending jobs: by rank, then those that cannot start."""
        last = np.where(self.rank == NO_RANK, len(self.rank) + 1, self.rank)
        job_id = self.plan.snapshot.pending.jobs.job_id
        return [int(place) for place in np.lexsort((job_id, last))]


def _ranks(snapshot: QueueSnapshot, priority: IntArray, startable: BoolArray) -> IntArray:
    """Place of each job by tier and priority; of equal ones the lower job number comes first."""
    pending = snapshot.pending
    places = np.flatnonzero(startable)
    job_id = pending.jobs.job_id[places]
    order = places[np.lexsort((job_id, -priority[places], -pending.each_tier[places]))]
    rank = np.full(len(priority), NO_RANK, dtype=np.int64)
    rank[order] = np.arange(1, len(order) + 1)
    return rank


def _reasons(snapshot: QueueSnapshot, untouched: UntouchedJobs) -> tuple[str, ...]:
    names = np.full(len(snapshot.pending), "", dtype=object)
    for reason, matches in untouched.reasons(snapshot).items():
        names[matches] = reason
    return tuple(names.tolist())
