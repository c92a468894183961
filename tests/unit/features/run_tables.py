"""Small queues of running and ended jobs, and what their runs say by the readable account."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.domain import (
    EndedJobs,
    JobTable,
    PendingJobs,
    QueueSnapshot,
    RunningJobs,
    StartedJobs,
)
from slurm_rl_plugin.domain.jobs import empty_job_table
from tests.reference.readable_past_runs import Request, Rows, events

USERS = ("ann", "bob", "carol", "dan")
NOTHING = empty_job_table()
DAY = 86_400.0


@dataclass(frozen=True)
class Run:
    """A job; `end` is inf for one that never ends."""

    job_id: int
    user: int
    processors: int
    time_limit: float
    start: float
    end: float = math.inf

    @property
    def asked(self) -> float:
        """Requested seconds; two days where the job asks for no time."""
        return 2 * DAY if math.isnan(self.time_limit) else self.time_limit


def table_of(runs: list[Run]) -> JobTable:
    count = len(runs)
    start = np.array([run.start for run in runs], dtype=np.float64)
    zero = np.zeros(count, dtype=np.int64)
    return JobTable(
        job_id=np.array([run.job_id for run in runs], dtype=np.int64),
        submit=start,
        eligible=start,
        processors=np.array([run.processors for run in runs], dtype=np.int64),
        time_limit=np.array([run.time_limit for run in runs], dtype=np.float64),
        account=zero,
        user=np.array([run.user for run in runs], dtype=np.int64),
        partition=zero,
        interactive=np.zeros(count, dtype=np.bool_),
    )


def snapshot_of(
    now: float,
    *,
    running: list[Run] = [],  # noqa: B006 - never changed
    ended: list[Run] = [],  # noqa: B006
    pending: list[Run] = [],  # noqa: B006
    from_accounting: bool = False,
    users: tuple[str, ...] = USERS,
) -> QueueSnapshot:
    over, at_work = table_of(ended), table_of(running)
    return QueueSnapshot(
        now=now,
        pending=PendingJobs.untouched(table_of(pending)),
        running=RunningJobs(jobs=at_work, start=at_work.submit),
        started=StartedJobs(jobs=NOTHING, start=NOTHING.submit),
        capacity=100,
        accounts=("physics",),
        partitions=("batch",),
        shares=np.ones(1),
        usage=np.ones(1),
        ended=EndedJobs(
            jobs=over,
            start=over.submit,
            end=np.array([run.end for run in ended], dtype=np.float64),
            from_accounting=from_accounting,
        ),
        users=users,
    )


def request_of(run: Run) -> Request:
    """What a run asked for; its template is its own."""
    return Request(run.user, run.job_id, run.asked, run.processors)


def told_by(runs: list[Run], until: float) -> Rows:
    """Statistics of runs up to a time, in plain Python; at one instant, by number of the job."""
    runs = sorted(runs, key=lambda run: run.job_id)
    rows, lengths = Rows(), [_length(run) for run in runs]
    for _, kind, job in events([run.start for run in runs], lengths, until):
        rows.tell(request_of(runs[job]), kind, runs[job].end - runs[job].start)
    return rows


def _length(run: Run) -> float:
    """Seconds; whole ones, such as those of a limit, without the rounding of the end."""
    length = run.end - run.start
    near = math.isfinite(length) and abs(length - round(length)) < 1e-6
    return float(round(length)) if near else length
