"""One more job of each kind, as a queue would see it: what a site's own utilities are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.domain import JobTable, PendingJobs, QueueSnapshot
from slurm_rl_plugin.features.columns import site_job_features
from slurm_rl_plugin.features.estimates import RunTimeEstimate


def offered_jobs(now: float, interactive: Sequence[bool], accounts: int) -> JobTable:
    """A sequential job of each class and account that comes now; classes outermost.

    Nothing is known of such a job but its class and its account: it asks for no time.
    """
    count = len(interactive) * accounts
    moment = np.full(count, now)
    return JobTable(
        job_id=-1 - np.arange(count),
        submit=moment,
        eligible=moment,
        processors=np.ones(count, dtype=np.int64),
        time_limit=np.full(count, np.nan),
        account=np.tile(np.arange(accounts), len(interactive)),
        user=np.full(count, -1, dtype=np.int64),
        partition=np.zeros(count, dtype=np.int64),
        interactive=np.repeat(np.array(interactive, dtype=np.bool_), accounts),
    )


def offered_job_features(
    snapshot: QueueSnapshot,
    interactive: Sequence[bool],
    estimates: RunTimeEstimate,
) -> NDArray[np.float32]:
    """Job features of the `site` schema of one more job of each kind, float32[kinds, Fj].

    Rows are in the order of `offered_jobs`; estimates by class median tell typical run times.
    """
    jobs = offered_jobs(snapshot.now, interactive, len(snapshot.accounts))
    joined = replace(snapshot, pending=PendingJobs.untouched(jobs))
    believed = estimates.estimate(jobs.time_limit, jobs.interactive)
    return site_job_features(joined, believed)
