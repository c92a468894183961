"""Why one job must not have a TimeMin now, though the cluster plans by it.

Backfill forgets its own limits for such a job: reservations, the longest time of a partition. It
looks at TimeMin where it should look at the time at which the job is killed (run on 24.11, 26.05).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slurm_rl_plugin.batch_systems.slurm.plan_estimates.reservations import Reservation
from slurm_rl_plugin.batch_systems.slurm.plan_estimates.waiting_jobs import (
    WaitingJob,
    WaitingRecord,
)
from slurm_rl_plugin.units import MINUTE

#: Slurm's word for a job that its partition does not let run so long.
PARTITION_TIME_LIMIT = "PartitionTimeLimit"
#: Cycles of backfill in which a write may come too late, each at most as long as their interval.
CYCLES = 3
#: Seconds for our own cycles, and for those in which Slurm does not answer.
OWN_CYCLES = 10 * MINUTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the time limits of jobs are held against.

    Attributes:
        now: seconds since the epoch.
        backfill_interval: seconds between backfill's cycles.
        longest: partition -> seconds that a job may ask for; inf for no limit.
        reservations: all, of any kind.
    """

    now: float
    backfill_interval: float
    longest: Mapping[str, float]
    reservations: Sequence[Reservation]

    @property
    def margin(self) -> float:
        """Seconds by which a job has to be over before a reservation begins."""
        return OWN_CYCLES + CYCLES * self.backfill_interval


def obstacle_of(job: WaitingJob, around: Surroundings) -> str | None:
    """Why this job must not have a TimeMin now, one sentence; None where it may.

    An array may have one while its waiting tasks are one record, since its number writes all of
    them; tasks that have started keep what they started with, whatever is written.
    """
    first = job.records[0]
    if first.het_id:
        return "it is a heterogeneous job, whose limit Slurm would cut to TimeMin"
    if len(job.records) > 1:
        what = f"tasks of the array wait as {len(job.records)} records of their own"
        return f"{what}, and its number would write them all"
    return _of_record(first, around)


def _of_record(record: WaitingRecord, around: Surroundings) -> str | None:
    if record.has_deadline:
        return "it has a deadline, by which Slurm plans it"
    if math.isnan(record.time_limit):
        return "it has no time limit, so it might run for ever"
    if record.reason == PARTITION_TIME_LIMIT or not _fits(record, around.longest):
        return "its time limit is above MaxTime of a partition, which TimeMin would let it pass by"
    limit = record.time_limit + around.margin
    for each in around.reservations:
        if each.reached_by(limit, around.now, record.reservations):
            own = each.name in record.reservations
            where = f"beyond the end of its reservation {each.name}" if own else ""
            return f"its time limit reaches {where or f'into reservation {each.name}'}"
    return None


def _fits(record: WaitingRecord, longest: Mapping[str, float]) -> bool:
    return all(record.time_limit <= longest.get(name, -1.0) for name in record.partitions)
