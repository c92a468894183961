"""Every feature schema that this release computes, and its columns for a snapshot."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.features.columns import site_job_features, site_queue_features
from slurm_rl_plugin.features.history.columns import KnownPast
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
from slurm_rl_plugin.features.schema import FeatureSchema
from slurm_rl_plugin.features.site import SITE, SITE_OF_PROCESSORS
from slurm_rl_plugin.units import FloatArray

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
