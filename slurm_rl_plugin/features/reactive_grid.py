"""The papers' own 11 inputs: 8 of the grid and 3 of a job (2008, section III.B; 2011, section 3.3).

The simulator compiles the very same functions for one job at a time. Nothing that the papers see
of a job changes while it waits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.features.site import FeatureSchema, log_seconds, log_work_hours
from slurm_rl_plugin.units import FloatArray, IntArray
from slurm_rl_plugin.utility.time_utility import paper_row, time_utility

#: Virtual organisations (VO) that the papers' networks distinguish; the last represents all others.
VO_PLACES = 4
_JOBS = ("interactive", "vo_place", "log_estimate")

REACTIVE_GRID = FeatureSchema(
    name="reactive-grid",
    version=1,
    queue=(
        "log_next_release",
        "idle_fraction",
        "log_pending_work_hours",
        "running_time_utility",
        *(f"received_share_{place}" for place in range(VO_PLACES)),
    ),
    static_jobs=_JOBS,
    dynamic_jobs=(),
)
REACTIVE_GRID_2011 = FeatureSchema(
    name="reactive-grid-2011",
    version=1,
    queue=(
        "log_running_work_hours",
        "log_next_release",
        "log_pending_work_hours",
        "idle_fraction",
        *(f"queued_fraction_{place}" for place in range(VO_PLACES)),
    ),
    static_jobs=_JOBS,
    dynamic_jobs=(),
)
#: The papers' schemas; the place in this tuple plus 1 is the code that the compiled loop uses.
REACTIVE_GRID_SCHEMAS = (REACTIVE_GRID, REACTIVE_GRID_2011)


def account_places(shares: FloatArray) -> IntArray:
    """VO place of each account: 0, 1, 2 by descending share, 3 for everybody else.

    Of equal shares the lower index comes first.
    """
    places = np.empty(len(shares), dtype=np.int64)
    places[np.argsort(-shares, kind="stable")] = np.arange(len(shares))
    return np.minimum(places, VO_PLACES - 1)


def grid_features(
    capacity: Any,
    idle: Any,
    pending_work: Any,
    next_release: Any,
    running_utility: Any,
    received: Any,
) -> tuple[Any, ...]:
    """Queue features in the order of `REACTIVE_GRID.queue` (2008, section III.B), about [0, 1].

    Args:
        capacity: usable processors, > 0.
        idle: processors without a job.
        pending_work: sum of estimate * processors of the waiting jobs, processor-seconds.
        next_release: seconds until the next running job is expected to end; 0 if none runs.
        running_utility: mean time utility of the running jobs at their expected completion; 1 if
            none runs.
        received: fraction of the consumed service of each VO place, shape [VO_PLACES].
    """
    return (
        log_seconds(next_release),
        idle / capacity,
        log_work_hours(pending_work, capacity),
        running_utility * 1.0,
        received[0] * 1.0,
        received[1] * 1.0,
        received[2] * 1.0,
        received[3] * 1.0,
    )


def grid_features_2011(
    capacity: Any,
    idle: Any,
    pending_work: Any,
    next_release: Any,
    running_work: Any,
    queued: Any,
) -> tuple[Any, ...]:
    """Queue features in the order of `REACTIVE_GRID_2011.queue` (2011, section 3.3).

    The time before a resource becomes available is read as the time to the next release: at every
    decision some machine is idle, so that the literal value would always be 0. `running_work` is in
    processor-seconds that the running jobs are expected still to use, `queued` the fraction of the
    waiting jobs of each VO place, shape [VO_PLACES]; else as `grid_features`.
    """
    return (
        log_work_hours(running_work, capacity),
        log_seconds(next_release),
        log_work_hours(pending_work, capacity),
        idle / capacity,
        queued[0] * 1.0,
        queued[1] * 1.0,
        queued[2] * 1.0,
        queued[3] * 1.0,
    )


def grid_job_features(estimate: Any, interactive: Any, place: Any) -> tuple[Any, ...]:
    """Static job features of both schemas in their order, in about [0, 1].

    `estimate` is in seconds, `interactive` 1.0 or 0.0, `place` the VO place of the job's account.
    """
    return (
        interactive * 1.0,
        place / (VO_PLACES - 1.0),
        log_seconds(estimate),
    )


def grid_columns(
    schema: FeatureSchema,
    snapshot: QueueSnapshot,
    estimate: FloatArray,
    running_estimate: FloatArray,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Queue features float32[8] and job features float32[n, Fx] of one of the two schemas.

    Estimated run times of pending and running jobs are in seconds.
    """
    waiting, running = snapshot.pending.jobs, snapshot.running
    expected_end = running.start + running_estimate
    next_release = float(expected_end.min()) - snapshot.now if len(running) else 0.0
    machine = (
        float(max(snapshot.capacity, 1)),
        float(max(snapshot.capacity - int(running.jobs.processors.sum()), 0)),
        float((estimate * snapshot.weighed(waiting).size).sum()),
        max(next_release, 0.0),
    )
    places = account_places(snapshot.shares)
    place = places[waiting.account]
    if schema == REACTIVE_GRID_2011:
        remaining = np.maximum(expected_end - snapshot.now, 0.0)
        work = float((remaining * snapshot.weighed(running.jobs).size).sum())
        queued = np.bincount(place, minlength=VO_PLACES) / max(len(place), 1)
        queue = grid_features_2011(*machine, work, queued)
    else:
        row = paper_row(running.jobs.interactive)
        utility = time_utility(expected_end - running.jobs.eligible, running_estimate, row)
        received = np.bincount(places, weights=snapshot.usage, minlength=VO_PLACES)
        queue = grid_features(*machine, float(np.mean(utility)) if len(running) else 1.0, received)
    jobs = grid_job_features(estimate, waiting.interactive.astype(np.float64), place)
    return np.array(queue, dtype=np.float32), np.column_stack(jobs).astype(np.float32)
