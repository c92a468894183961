"""A site's accounting as if somebody had looked at its queue a few times a day."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.domain.resources import GPUS, MEMORY, ResourceRequests
from slurm_rl_plugin.forecasts.past_waits.seen_jobs import SeenJobs, joined_seen
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog
from slurm_rl_plugin.units import DAY, FloatArray, IntArray

#: Looks a day, and how many days back.
_LOOKS, _DAYS = 6, 21
#: Waiting jobs of one look that are taken at most, evenly among all.
_OF_ONE_LOOK = 400


def polled_log(prepared: PreparedLog, now: float) -> SeenJobs:
    """Jobs that waited at looks of the last three weeks, with what is known of them by now.

    Args:
        prepared: the log; whoever still waits may be in it with any start later than `now`.
        now: seconds.
    """
    log = prepared.log
    first = max(float(log.submit[0]), now - _DAYS * DAY)
    moments = np.arange(now - DAY / _LOOKS, first, -DAY / _LOOKS)[::-1]
    looks = []
    for moment in moments.tolist():
        # as live, nothing is forecast of a job that could not start yet
        could = ~(log.eligible > moment)
        waited = np.flatnonzero((log.submit < moment) & (log.start > moment) & could)
        if len(waited) > _OF_ONE_LOOK:
            waited = waited[np.linspace(0, len(waited) - 1, _OF_ONE_LOOK).astype(np.int64)]
        looks.append(seen_now(prepared, moment, waited))
    everybody = np.empty(0, dtype=np.int64)
    found = joined_seen(seen_now(prepared, now, everybody), *looks)
    return found.as_known_at(now)


def seen_now(prepared: PreparedLog, moment: float, jobs: IntArray) -> SeenJobs:
    """Jobs of a log as they were seen waiting at a moment, with the starts that the log tells."""
    log = prepared.log.select(jobs)
    eligible = np.where(np.isfinite(log.eligible), log.eligible, log.submit)
    start = log.start
    return SeenJobs(
        moment=np.full(len(jobs), moment),
        submit=log.submit,
        eligible=eligible,
        limit=log.time_limit,
        cpus=log.processors.astype(np.float64),
        memory=_asked(log.requests, MEMORY, len(jobs)),
        gpus=_asked(log.requests, GPUS, len(jobs)),
        nodes=_nodes(log.requests, len(jobs)),
        priority=np.full(len(jobs), np.nan),
        account=log.account,
        partition=log.partition,
        start=start,
        end=start + log.run_time,
        user=log.user,
    )


def _asked(requests: ResourceRequests | None, name: str, count: int) -> FloatArray:
    return np.zeros(count) if requests is None else requests.of(name)


def _nodes(requests: ResourceRequests | None, count: int) -> FloatArray:
    return np.ones(count) if requests is None else np.maximum(requests.nodes, 1).astype(np.float64)
