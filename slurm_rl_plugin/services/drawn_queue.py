"""A queue drawn at random, to measure how long a decision takes."""

from __future__ import annotations

from dataclasses import replace

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
from slurm_rl_plugin.units import DAY, HOUR, MINUTE

USERS = 200
#: Time limits; a queue of 100,000 jobs has some thousands of templates.
_LIMITS = np.array([5 * MINUTE, 15 * MINUTE, HOUR, 4 * HOUR, 12 * HOUR, DAY, 2 * DAY, 3 * DAY])


def random_snapshot(jobs: int, rng: np.random.Generator) -> QueueSnapshot:
    """A queue of that many pending jobs of 20 accounts in 4 partitions; ages up to ten days."""
    now = 100 * DAY
    table = _random_jobs(jobs, rng, now)
    shares = rng.dirichlet(np.ones(20))
    pending = PendingJobs.untouched(table)
    nothing = empty_job_table()
    return QueueSnapshot(
        now=now,
        pending=pending,
        running=RunningJobs(jobs=nothing, start=nothing.submit),
        started=StartedJobs(jobs=nothing, start=nothing.submit),
        capacity=10_000,
        accounts=tuple(f"account{index}" for index in range(20)),
        partitions=("a", "b", "c", "d"),
        shares=shares,
        usage=rng.dirichlet(np.ones(20)),
        users=tuple(f"user{index}" for index in range(USERS)),
    )


def queue_beside(snapshot: QueueSnapshot, jobs: int, rng: np.random.Generator) -> QueueSnapshot:
    """Drawn pending jobs on a real cluster, with its accounts, shares and running jobs."""
    drawn = random_snapshot(jobs, rng)
    if not snapshot.accounts:
        return drawn
    table = drawn.pending.jobs
    later = snapshot.now - drawn.now
    table = replace(
        table,
        submit=table.submit + later,
        eligible=table.eligible + later,
        account=table.account % len(snapshot.accounts),
    )
    return replace(
        snapshot,
        pending=PendingJobs.untouched(table),
        partitions=(*snapshot.partitions, *drawn.partitions),
        users=(*snapshot.users, *drawn.users),
    )


def past_runs(jobs: int, rng: np.random.Generator) -> EndedJobs:
    """That many jobs of the users of `random_snapshot`, ended in the month before it."""
    table = _random_jobs(jobs, rng, 90 * DAY)
    start = table.submit - 10 * DAY
    end = start + 10 ** rng.uniform(0, 5, jobs)
    return EndedJobs(jobs=table, start=start, end=end, from_accounting=True)


def _random_jobs(jobs: int, rng: np.random.Generator, now: float) -> JobTable:
    submit = np.sort(now - rng.uniform(0, 10 * DAY, jobs))
    return JobTable(
        job_id=np.arange(1, jobs + 1),
        submit=submit,
        eligible=submit,
        processors=rng.integers(1, 129, jobs),
        time_limit=rng.choice(_LIMITS, jobs),
        account=rng.integers(0, 20, jobs),
        user=rng.integers(0, USERS, jobs),
        partition=rng.integers(0, 4, jobs),
        interactive=rng.random(jobs) < 0.4,
    )
