"""Which jobs must not be given a soft_walltime, and which values none may have."""

from __future__ import annotations

import math

from slurm_rl_plugin.batch_systems.pbs.answers.fields import PbsJob, is_array
from slurm_rl_plugin.batch_systems.pbs.lever.soft_walltimes import SHORTEST_ESTIMATE
from slurm_rl_plugin.batch_systems.pbs.plan_estimates.closed_times import ClosedTimes

#: Queues that PBS makes for reservations: advance, standing, for maintenance.
_RESERVATIONS = ("R", "S", "M")


def obstacle(job: PbsJob, times: ClosedTimes, now: float) -> str | None:
    """Why a waiting job must have none, or a running one must keep it; None where it may.

    Args:
        job: that waits, or that has an estimate.
        times: what the scheduler's files close.
        now: seconds since the epoch.
    """
    if "[" in job.name and not is_array(job.name):
        return "it is a subjob, and PBS changes arrays as a whole only"
    if not job.waits:
        return "it is about to end" if job.state == "E" else None
    return _of_itself(job) or times.obstacle(job, now)


def unsound(job: PbsJob, wanted: float, times: ClosedTimes, now: float) -> str | None:
    """Why this value is not sent, one sentence; None where it may be.

    Args:
        job: as just read.
        wanted: seconds; 0 takes away, which a waiting job never refuses.
        times: what the scheduler's files close.
        now: seconds since the epoch.
    """
    if not math.isfinite(wanted) or wanted < 0:
        return f"{wanted} is no number of seconds"
    if wanted == 0:
        return None if job.waits else obstacle(job, times, now)
    if not job.waits:
        return "it waits no longer"
    return obstacle(job, times, now) or _out_of_bounds(math.ceil(wanted), job.time_limit)


def _of_itself(job: PbsJob) -> str | None:
    told = job.soft_walltime
    if told is not None and not told > 0:
        return "its soft_walltime of 0 ends pbs_sched: unset that (qalter -l soft_walltime= JOB)"
    if is_array(job.name):
        return "it is a job array, whose subjobs would keep it while they run"
    if job.shrinks:
        return "it has a min_walltime or max_walltime, with which PBS takes no soft_walltime"
    if not job.time_limit > SHORTEST_ESTIMATE:
        return f"it has no walltime of more than {SHORTEST_ESTIMATE} s"
    if job.reservation or (job.queue.startswith(_RESERVATIONS) and job.queue[1:].isdecimal()):
        return "it runs in a reservation, whose end it must keep"
    return None


def _out_of_bounds(seconds: int, limit: float) -> str | None:
    if seconds < SHORTEST_ESTIMATE:
        return f"{seconds} s is less than {SHORTEST_ESTIMATE} s"
    if seconds >= limit:
        return f"{seconds} s is not below its walltime of {limit:g} s"
    return None
