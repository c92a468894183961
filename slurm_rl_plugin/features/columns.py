"""The feature columns of a snapshot, for a policy that runs beside the batch system."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.features.estimates import UNKNOWN_RUN_TIME
from slurm_rl_plugin.features.history.columns import KnownPast, history_columns
from slurm_rl_plugin.features.history.past_runs import PastRuns
from slurm_rl_plugin.features.history.run_prediction import RunTimePrediction
from slurm_rl_plugin.features.reactive_grid import (
    REACTIVE_GRID,
    REACTIVE_GRID_2011,
    REACTIVE_GRID_WAIT,
)
from slurm_rl_plugin.features.reactive_grid_columns import (
    grid_job_columns,
    grid_job_columns_with_wait,
    grid_queue_columns,
    grid_queue_columns_2011,
)
from slurm_rl_plugin.features.scarcity import scarcity_of
from slurm_rl_plugin.features.schema import FeatureSchema
from slurm_rl_plugin.features.site import (
    SITE,
    SITE_OF_PROCESSORS,
    SOON,
    dynamic_job_features,
    over_dominant,
    queue_features,
    reserve_features,
    resource_features,
    scarcity_features,
    size_of,
    static_job_features,
)
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.fairness import fairness


def site_queue_features(
    snapshot: QueueSnapshot,
    estimate: FloatArray,
    running_estimate: FloatArray,
    arrived: FloatArray,
    schema: FeatureSchema = SITE,
) -> NDArray[np.float32]:
    """Queue features of a snapshot, float32[len(schema.queue)].

    Args:
        snapshot: the queue.
        estimate: estimated run time of each pending job, seconds, shape [pending].
        running_estimate: the same for the running jobs, seconds, shape [running].
        arrived: the counts of `recent_arrivals`, shape [len(FADING_TIMES)].
        schema: SITE or SITE_OF_PROCESSORS.
    """
    waiting, running = snapshot.weighed(snapshot.pending.jobs), snapshot.running.jobs
    expected_end = snapshot.running.start + running_estimate
    jobs = snapshot.each_waits_as
    batch = jobs * ~waiting.interactive
    next_release = float(expected_end.min()) - snapshot.now if len(running) else 0.0
    values = queue_features(
        float(max(snapshot.capacity, 1)),
        float(max(snapshot.capacity - int(running.processors.sum()), 0)),
        float(jobs.sum()),
        float(jobs.sum() - batch.sum()),
        float((jobs * waiting.size).sum()),
        float((jobs * (estimate * waiting.size)).sum()),
        max(next_release, 0.0),
        float(running.processors[running.interactive].sum()),
        fairness(snapshot.shares, snapshot.usage) if snapshot.shares.any() else 0.0,
    )
    values += reserve_features(
        float(jobs.sum() - batch.sum()),
        float(batch.sum()),
        float(running.processors[running.interactive].sum()),
        float(running.processors[expected_end <= snapshot.now + SOON].sum()),
        float(estimate[batch > 0].min(initial=np.inf)) if batch.any() else 0.0,
        arrived,
    )
    if schema == SITE:
        scarce = scarcity_of(snapshot)
        values += scarcity_features(scarce.free, scarce.demand)
    return np.array(values, dtype=np.float32)


def site_job_features(
    snapshot: QueueSnapshot,
    estimate: FloatArray,
    past: PastRuns | KnownPast | None = None,
    prediction: RunTimePrediction | None = None,
    schema: FeatureSchema = SITE,
) -> NDArray[np.float32]:
    """Job features of the pending jobs of a snapshot, float32[n, len(schema.jobs)].

    Args:
        snapshot: the queue.
        estimate: estimated run time of each pending job, seconds, shape [n].
        past: what runs have told up to the snapshot, or what is known by it of the pending jobs;
            nothing by default.
        prediction: of the model; without one, history features are 0.
        schema: SITE or SITE_OF_PROCESSORS.
    """
    jobs = snapshot.weighed(snapshot.pending.jobs)
    known = np.isfinite(jobs.time_limit) & (jobs.time_limit > 0)
    limit = np.where(known, jobs.time_limit, estimate)
    columns = static_job_features(jobs, estimate, limit)
    changing = dynamic_job_features(
        snapshot.accrued_wait,
        estimate,
        size_of(jobs),
        jobs.interactive,
        snapshot.shares[jobs.account],
        snapshot.usage[jobs.account],
        float(snapshot.shares.max(initial=0.0)) or 1.0,  # sites may give no account a share
    )
    if schema == SITE:
        scarce = scarcity_of(snapshot)
        columns += resource_features(scarce.shares)
        changing += (over_dominant(scarce.shares[:, scarce.resource], scarce.shares),)
    columns += changing
    features = np.zeros((len(jobs), len(schema.jobs)), dtype=np.float32)
    np.stack(columns, axis=1, out=features[:, : len(columns)], casting="same_kind")
    if prediction is not None:
        asked = np.where(known, jobs.time_limit, UNKNOWN_RUN_TIME)
        told = history_columns(snapshot, asked, past or PastRuns(), prediction)
        features[:, len(columns) :] = told
    return features


KNOWN_SCHEMAS = (
    SITE_OF_PROCESSORS,
    SITE,
    REACTIVE_GRID,
    REACTIVE_GRID_2011,
    REACTIVE_GRID_WAIT,
)


def feature_columns(
    schema: FeatureSchema,
    snapshot: QueueSnapshot,
    estimate: FloatArray,
    running_estimate: FloatArray,
    arrived: FloatArray,
    past: PastRuns | KnownPast | None = None,
    prediction: RunTimePrediction | None = None,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Queue features float32[Fq] and job features float32[n, Fx] of a snapshot.

    Args:
        schema: one of KNOWN_SCHEMAS.
        snapshot: the queue.
        estimate: estimated run time of each pending job, seconds, shape [pending].
        running_estimate: the same for the running jobs, seconds, shape [running].
        arrived: the counts of `recent_arrivals`, shape [len(FADING_TIMES)].
        past: what runs have told up to the snapshot, or what is known by it of the pending jobs;
            `site` only.
        prediction: of the model, None for one that looks at no past runs; `site` only.
    """
    if schema in (SITE, SITE_OF_PROCESSORS):
        queue = site_queue_features(snapshot, estimate, running_estimate, arrived, schema)
        return queue, site_job_features(snapshot, estimate, past, prediction, schema)
    queue_columns = grid_queue_columns_2011 if schema == REACTIVE_GRID_2011 else grid_queue_columns
    job_columns = grid_job_columns_with_wait if schema == REACTIVE_GRID_WAIT else grid_job_columns
    return queue_columns(snapshot, estimate, running_estimate), job_columns(snapshot, estimate)
