"""The feature columns of a snapshot, for a policy of a live batch system."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.domain import JobTable, PendingJobs, QueueSnapshot
from slurm_rl_plugin.domain.goals import AS_TRAINED, Goals
from slurm_rl_plugin.features.estimates import RunTimeEstimate
from slurm_rl_plugin.features.history.past_runs import KnownPast, PastRuns, history_columns
from slurm_rl_plugin.features.reactive_grid import (
    REACTIVE_GRID,
    REACTIVE_GRID_2011,
    grid_columns,
)
from slurm_rl_plugin.features.site import (
    SITE,
    SOON,
    FeatureSchema,
    dynamic_job_features,
    late_after,
    lateness,
    queue_features,
    share_doublings,
    static_job_features,
)
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.fairness import fairness


def site_queue_features(
    snapshot: QueueSnapshot,
    estimate: FloatArray,
    running_estimate: FloatArray,
    arrived: FloatArray,
) -> NDArray[np.float32]:
    """Queue features of a snapshot, float32[len(SITE.queue)].

    Estimated run times of pending and running jobs are in seconds; `arrived` are the counts of
    `recent_arrivals`, shape [len(FADING_TIMES)].
    """
    waiting, running = snapshot.weighed(snapshot.pending.jobs), snapshot.running.jobs
    expected_end = snapshot.running.start + running_estimate
    jobs = snapshot.each_waits_as
    batch = jobs * ~waiting.interactive
    next_release = float(expected_end.min()) - snapshot.now if len(running) else 0.0
    pending = (
        float(jobs.sum()),
        float(jobs.sum() - batch.sum()),
        float((jobs * waiting.size).sum()),
        float((jobs * (estimate * waiting.size)).sum()),
    )
    values = queue_features(
        float(max(snapshot.capacity, 1)),
        float(max(snapshot.capacity - int(running.processors.sum()), 0)),
        pending,
        max(next_release, 0.0),
        float(running.processors[running.interactive].sum()),
        fairness(snapshot.shares, snapshot.usage) if snapshot.shares.any() else 0.0,
        float(running.processors[expected_end <= snapshot.now + SOON].sum()),
        float(estimate[batch > 0].min(initial=np.inf)) if batch.any() else 0.0,
        arrived,
    )
    return np.array(values, dtype=np.float32)


def site_job_features(
    snapshot: QueueSnapshot,
    estimate: FloatArray,
    past: PastRuns | KnownPast | None = None,
    goals: Goals = AS_TRAINED,
    longest: float = 0.0,
) -> NDArray[np.float32]:
    """Job features of the pending jobs of a snapshot, float32[n, len(SITE.jobs)].

    `estimate` is the run time of each pending job, `longest` of `site.longest_wait`, in seconds;
    `past` are runs up to the snapshot, or what they say of the pending jobs; none by default.
    """
    jobs = snapshot.weighed(snapshot.pending.jobs)
    known = np.isfinite(jobs.time_limit) & (jobs.time_limit > 0)
    limit = np.where(known, jobs.time_limit, estimate)
    columns = static_job_features(jobs.size, jobs.interactive, limit, goals)
    columns += dynamic_job_features(
        snapshot.counted_wait,
        lateness(snapshot.counted_wait, late_after(longest)),
        share_doublings(snapshot.shares, snapshot.usage)[jobs.account],
        goals.longest_wait,
        goals.points_a_doubling,
    )
    history = history_columns(snapshot, past or PastRuns())
    history[:, 0] += np.log(snapshot.each_runs)  # an array is as long as all its waiting tasks
    history[:, 0] *= goals.short_jobs
    features = np.empty((len(jobs), len(SITE.jobs)), dtype=np.float32)
    for place, column in enumerate(columns):
        features[:, place] = column
    features[:, len(columns) :] = history
    return features


KNOWN_SCHEMAS = (SITE, REACTIVE_GRID, REACTIVE_GRID_2011)


def feature_columns(
    schema: FeatureSchema,
    snapshot: QueueSnapshot,
    estimate: FloatArray,
    running_estimate: FloatArray,
    arrived: FloatArray,
    past: PastRuns | KnownPast | None = None,
    goals: Goals = AS_TRAINED,
    longest: float = 0.0,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Queue features float32[Fq] and job features float32[n, Fx] of a snapshot.

    Of one of KNOWN_SCHEMAS; arguments as `site_queue_features` and `site_job_features`; past,
    goals and longest count for `site` only.
    """
    if schema == SITE:
        queue = site_queue_features(snapshot, estimate, running_estimate, arrived)
        return queue, site_job_features(snapshot, estimate, past, goals, longest)
    return grid_columns(schema, snapshot, estimate, running_estimate)


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

    Rows are in the order of `offered_jobs`; estimates by class median give typical run times.
    """
    jobs = offered_jobs(snapshot.now, interactive, len(snapshot.accounts))
    joined = replace(snapshot, pending=PendingJobs.untouched(jobs))
    believed = estimates.estimate(jobs.time_limit, jobs.interactive)
    return site_job_features(joined, believed)
