"""Who runs and who waits at a look, as a log that ends in the middle of their lives."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain import JobTable, QueueSnapshot
from slurm_rl_plugin.domain.resources import ResourceRequests
from slurm_rl_plugin.forecasts.live.joined_log import joined_requests
from slurm_rl_plugin.units import DAY, BoolArray, FloatArray, IntArray

#: Rows that waiting jobs may have together: of long arrays no more tasks are played forward.
MOST_WAITING = 30_000
#: Seconds that a job without a limit is taken to ask for, where its partition says nothing either.
_NO_LIMIT = 365.0 * DAY


class PresentJobs(NamedTuple):
    """Jobs of a look.

    Attributes:
        log: running jobs, then waiting ones, a row for each waiting task of an array. The job's
            number is -1 - its row, so that it is none of accounting's.
        running: how many run.
        place: of each waiting row its place among the pending jobs of the look, shape [waiting].
        interactive: of each row, shape [n].
    """

    log: JobLog
    running: int
    place: IntArray
    interactive: BoolArray


def present_jobs(snapshot: QueueSnapshot, waits: BoolArray) -> PresentJobs:
    """The jobs of a look that hold or want room.

    Args:
        snapshot: the look.
        waits: which pending jobs wait for room, shape [pending].
    """
    place = _rows(snapshot, waits)
    pending = snapshot.pending.jobs.select(place)
    running = snapshot.running.as_requested
    count = len(running)
    qos = _qos(snapshot, place)
    rows = [running, pending]

    def both(name: str) -> Any:
        return np.concatenate([getattr(each, name) for each in rows])

    limit = np.nan_to_num(both("time_limit"), nan=_NO_LIMIT)
    start = np.concatenate([snapshot.running.start, np.full(len(place), snapshot.now)])
    came = np.concatenate([_came(each, snapshot.now) for each in rows])
    came[:count] = np.minimum(came[:count], snapshot.running.start)
    log = JobLog(
        job_id=-1 - np.arange(count + len(place)),
        submit=came,
        eligible=came,
        processors=np.maximum(both("processors"), 1).astype(np.int64),
        time_limit=both("time_limit"),
        account=both("account").astype(np.int64),
        user=both("user").astype(np.int64),
        partition=both("partition").astype(np.int64),
        requests=_requests(running, pending),
        start=start,
        # nothing has ended: what overruns its limit is about to
        run_time=np.maximum(limit, snapshot.now - start + 1.0),
        accounts=snapshot.accounts,
        users=snapshot.users,
        partitions=snapshot.partitions,
        qos=("",) * count + qos,
        kind="look",
    )
    return PresentJobs(
        log=log,
        running=count,
        place=place,
        interactive=both("interactive").astype(np.bool_),
    )


def _rows(snapshot: QueueSnapshot, waits: BoolArray) -> IntArray:
    """The pending job of each waiting row: arrays as often as their tasks, as far as there is room.

    The first rows are one for each job.
    """
    jobs = np.flatnonzero(waits)
    tasks = snapshot.pending.tasks
    if tasks is None:
        return jobs
    more = np.repeat(jobs, np.maximum(tasks[jobs] - 1, 0))
    return np.concatenate([jobs, more[: max(MOST_WAITING - len(jobs), 0)]])


def _came(jobs: JobTable, now: float) -> FloatArray:
    """From when on each could have started, seconds; now for what is told otherwise."""
    came = np.fmax(jobs.submit, np.where(np.isfinite(jobs.eligible), jobs.eligible, jobs.submit))
    return np.asarray(np.minimum(np.nan_to_num(came, nan=now), now), dtype=np.float64)


def _qos(snapshot: QueueSnapshot, place: IntArray) -> tuple[str, ...]:
    number = snapshot.pending.qos
    if number is None:
        return ("",) * len(place)
    return tuple(snapshot.qos[each] for each in number[place].tolist())


def _requests(running: JobTable, pending: JobTable) -> ResourceRequests | None:
    return joined_requests(running.requests, pending.requests)
