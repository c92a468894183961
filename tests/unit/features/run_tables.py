"""Small queues of running and ended jobs, and a readable account of what their runs tell."""

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
from slurm_rl_plugin.features.history.run_history import (
    FAST,
    SHORT_RUN_TIMES,
    SITE_FAST,
    SITE_SLOW,
    SLOW,
    UNKNOWN,
    fold_ended,
    fold_outlived,
)

USERS = ("ann", "bob", "carol", "dan")
NOTHING = empty_job_table()
TWO_HOURS = SHORT_RUN_TIMES.index(7200.0)


@dataclass(frozen=True)
class Run:
    """A job; `end` is inf for one that never ends."""

    job_id: int
    user: int
    processors: int
    time_limit: float
    start: float
    end: float = math.inf


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


@dataclass
class ReadableHistory:
    """All events of some runs up to a time, sorted once and told one after the other."""

    site: list[float]
    users: dict[str, list[float]]
    templates: dict[tuple[str, int, float], list[float]]

    @classmethod
    def of(cls, runs: list[Run], until: float) -> ReadableHistory:
        history = cls(list(UNKNOWN), {}, {})
        events = []
        for run in runs:
            for kind, bound in enumerate(SHORT_RUN_TIMES):
                if run.start + bound <= min(run.end, until):
                    events.append((run.start + bound, kind, run.job_id, run))
            if run.end <= until:
                events.append((run.end, len(SHORT_RUN_TIMES), run.job_id, run))
        for _, kind, _, run in sorted(events, key=lambda event: event[:3]):
            history.tell(run, kind)
        return history

    def tell(self, run: Run, kind: int) -> None:
        name = USERS[run.user]
        limit = -1.0 if math.isnan(run.time_limit) else run.time_limit
        user = self.users.setdefault(name, list(self.site))
        template = self.templates.setdefault((name, run.processors, limit), list(user))
        weights = ((SITE_FAST, SITE_SLOW), (FAST, SLOW), (FAST, SLOW))
        for row, pace in zip((self.site, user, template), weights, strict=True):
            if kind == len(SHORT_RUN_TIMES):
                fold_ended(row, run.end - run.start, *pace)
            else:
                fold_outlived(row, kind, *pace)
        if kind == len(SHORT_RUN_TIMES) and run.end - run.start < 7200.0:
            user[-1] += (run.end - run.start) * run.processors
        elif kind >= TWO_HOURS:
            user[-1] = 0.0  # what was spent before a long run no longer counts

    def speaks_for(self, run: Run, limit: float) -> bool:
        """Whether what is known counts for a pending job: a large one must have been paid for."""
        spent = self.users.get(USERS[run.user], [0.0])[-1]
        return run.processors * limit < 1536 * 3600 or spent >= run.processors * limit
