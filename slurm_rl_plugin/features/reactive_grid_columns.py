"""The papers' 11 inputs of a snapshot, for a policy that runs beside the batch system."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.features.reactive_grid import (
    REACTIVE_GRID,
    VO_PLACES,
    account_places,
    grid_features,
    grid_features_2011,
    grid_job_features,
)
from slurm_rl_plugin.features.scales import log_seconds
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.time_utility import paper_row, time_utility


def grid_queue_columns(
    snapshot: QueueSnapshot, estimate: FloatArray, running_estimate: FloatArray
) -> NDArray[np.float32]:
    """Queue features of REACTIVE_GRID, float32[8].

    Args:
        snapshot: the queue.
        estimate: estimated run time of each pending job, seconds, shape [pending].
        running_estimate: the same for the running jobs, seconds, shape [running].
    """
    running = snapshot.running
    turnaround = running.start + running_estimate - running.jobs.eligible
    utility = time_utility(turnaround, running_estimate, paper_row(running.jobs.interactive))
    received = np.bincount(
        account_places(snapshot.shares), weights=snapshot.usage, minlength=VO_PLACES
    )
    values = grid_features(
        *_machine(snapshot, estimate, running_estimate),
        float(np.mean(utility)) if len(running) else 1.0,
        received,
    )
    return np.array(values, dtype=np.float32)


def grid_queue_columns_2011(
    snapshot: QueueSnapshot, estimate: FloatArray, running_estimate: FloatArray
) -> NDArray[np.float32]:
    """Queue features of REACTIVE_GRID_2011, float32[8]; arguments as `grid_queue_columns`."""
    running = snapshot.running
    remaining = np.maximum(running.start + running_estimate - snapshot.now, 0.0)
    places = account_places(snapshot.shares)[snapshot.pending.jobs.account]
    queued = np.bincount(places, minlength=VO_PLACES) / max(len(places), 1)
    values = grid_features_2011(
        *_machine(snapshot, estimate, running_estimate),
        float((remaining * snapshot.weighed(running.jobs).size).sum()),
        queued,
    )
    return np.array(values, dtype=np.float32)


def _machine(
    snapshot: QueueSnapshot, estimate: FloatArray, running_estimate: FloatArray
) -> tuple[float, float, float, float]:
    """Capacity, idle processors, pending work and next release, which both schemas take."""
    running = snapshot.running
    next_release = 0.0
    if len(running):
        next_release = float((running.start + running_estimate).min()) - snapshot.now
    return (
        float(max(snapshot.capacity, 1)),
        float(max(snapshot.capacity - int(running.jobs.processors.sum()), 0)),
        float((estimate * snapshot.weighed(snapshot.pending.jobs).size).sum()),
        max(next_release, 0.0),
    )


def grid_job_columns(snapshot: QueueSnapshot, estimate: FloatArray) -> NDArray[np.float32]:
    """Job features of the pending jobs for the papers' schemas, float32[n, 3].

    Args:
        snapshot: the queue.
        estimate: estimated run time of each pending job, seconds, shape [n].
    """
    jobs = snapshot.pending.jobs
    places = account_places(snapshot.shares)[jobs.account]
    features = np.empty((len(jobs), len(REACTIVE_GRID.jobs)), dtype=np.float32)
    columns = grid_job_features(estimate, jobs.interactive.astype(np.float64), places)
    for index, column in enumerate(columns):
        features[:, index] = column
    return features


def grid_job_columns_with_wait(
    snapshot: QueueSnapshot, estimate: FloatArray
) -> NDArray[np.float32]:
    """Job features of REACTIVE_GRID_WAIT, float32[n, 4]; arguments as `grid_job_columns`."""
    wait = log_seconds(snapshot.counted_wait).astype(np.float32)
    columns = (grid_job_columns(snapshot, estimate), wait)
    return np.column_stack(columns)
