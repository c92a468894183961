"""Small queues of running and ended jobs, and what their runs say by the readable account."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slurm_rl_plugin.domain import EndedJobs, JobTable, PendingJobs, QueueSnapshot, RunningJobs
from tests.reference.readable_past_runs import Request, Rows, events
from tests.unit.hook.queues import job_table
from tests.unit.hook.queues import snapshot_of as queue_of

USERS = ("ann", "bob", "carol", "dan")
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


def table_of(runs: Sequence[Run]) -> JobTable:
    start = [run.start for run in runs]
    return job_table(
        len(runs),
        job_id=[run.job_id for run in runs],
        submit=start,
        eligible=start,
        processors=[run.processors for run in runs],
        time_limit=[run.time_limit for run in runs],
        user=[run.user for run in runs],
    )


def snapshot_of(
    now: float,
    *,
    running: Sequence[Run] = (),
    ended: Sequence[Run] = (),
    pending: Sequence[Run] = (),
    from_accounting: bool = False,
    users: tuple[str, ...] = USERS,
) -> QueueSnapshot:
    over, at_work = table_of(ended), table_of(running)
    end = np.array([run.end for run in ended], dtype=np.float64)
    return replace(
        queue_of(PendingJobs.untouched(table_of(pending)), now),
        running=RunningJobs(jobs=at_work, start=at_work.submit),
        ended=EndedJobs(jobs=over, start=over.submit, end=end, from_accounting=from_accounting),
        capacity=100,
        usage=np.ones(1),
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
