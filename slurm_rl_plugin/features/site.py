"""The `site` schema: share-relative features that carry over between sites of any size.

What changes while a job waits is elementwise in plain numpy style: the simulator compiles the very
same lines for one job at a time; the head node runs them on whole columns.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, GPUS
from slurm_rl_plugin.features.scales import (
    TEN,
    log_processors,
    log_seconds,
    log_share,
    log_work_hours,
)
from slurm_rl_plugin.features.schema import FeatureSchema
from slurm_rl_plugin.units import BoolArray, FloatArray
from slurm_rl_plugin.utility.time_utility import time_utility, time_utility_loss_rate

#: Seconds in which an interactive job should start (definitions: within_120s).
SOON = 120.0

#: The queue features that tell how many processors to hold, in the order of `reserve_features`.
RESERVE_FEATURES = (
    "log_pending_interactive",
    "log_pending_batch",
    "log_running_interactive",
    "log_released_soon",
    "log_shortest_batch",
    "log_arrived_in_10_min",
    "log_arrived_in_1_h",
    "log_arrived_in_6_h",
)

#: Features of a machine's resources, which a model may do without: of the queue, of a job while it
#: waits, and what stays of it, in the order of `resource_features`. Those of a job are 0 where
#: there are processors alone: a model orders jobs there as if it had learned nothing of resources.
SCARCITY_FEATURES = ("scarce_free", "log_scarce_demand")
SCARCE_SHARE = "log_scarce_over_dominant"
RESOURCE_FEATURES = (
    "log_memory_share",
    "log_gres_share",
    "accelerated",
    "log_cpu_over_dominant",
)

SITE = FeatureSchema(
    name="site",
    version=4,
    queue=(
        "idle_fraction",
        "log_pending_jobs",
        "pending_interactive_fraction",
        "log_pending_demand",
        "log_pending_work_hours",
        "log_next_release",
        "running_interactive_fraction",
        "fairness",
        *RESERVE_FEATURES,
        *SCARCITY_FEATURES,
    ),
    static_jobs=(
        "log_estimate",
        "log_time_limit",
        "log_processors",
        "log_work",
        "interactive",
        *RESOURCE_FEATURES,
    ),
    dynamic_jobs=(
        "log_wait",
        "log_turnaround",
        "responsiveness_now",
        "time_utility_now",
        "log_loss_rate_per_work",
        "share_deficit",
        SCARCE_SHARE,
    ),
    history_jobs=(
        "log_predicted_run_time",
        "probability_very_short",
        "probability_short",
        "log_slowdown_rate",
        "log_expected_run_time",
        "template_known",
        "log_pending_alike",
        "log_pending_alike_none_running",
    ),
)
#: The same without what it says of resources: of a model that looks at none of it, nothing of it is
#: computed.
SITE_OF_PROCESSORS = FeatureSchema(
    name="site",
    version=3,
    queue=SITE.queue[: -len(SCARCITY_FEATURES)],
    static_jobs=SITE.static_jobs[: -len(RESOURCE_FEATURES)],
    dynamic_jobs=SITE.dynamic_jobs[:-1],
    history_jobs=SITE.history_jobs,
)
#: Column of GPUs of all types among the resources of a machine; behind it come its other ones.
_GPUS = BASIC_RESOURCES.index(GPUS)


def queue_features(
    capacity: Any,
    idle: Any,
    pending_jobs: Any,
    pending_interactive: Any,
    pending_size: Any,
    pending_work: Any,
    next_release: Any,
    running_interactive: Any,
    fairness_now: Any,
) -> tuple[Any, ...]:
    """The queue features that are relative to the site, in the order of `SITE.queue`.

    Args:
        capacity: usable processors, > 0.
        idle: processors without a job.
        pending_jobs: waiting jobs.
        pending_interactive: waiting interactive jobs.
        pending_size: of the waiting jobs together, processors.
        pending_work: sum of estimate * size of the waiting jobs, processor-seconds.
        next_release: seconds until the next running job is expected to end; 0 if none runs.
        running_interactive: processors that run interactive jobs.
        fairness_now: eq. 4 on the current usage.
    """
    return (
        idle / capacity,
        np.log(1.0 + pending_jobs) / (5.0 * TEN),
        pending_interactive / np.maximum(pending_jobs, 1.0),
        np.log(1.0 + pending_size / capacity) / (3.0 * TEN),
        log_work_hours(pending_work, capacity),
        log_seconds(next_release),
        running_interactive / capacity,
        fairness_now * 1.0,
    )


def reserve_features(
    pending_interactive: Any,
    pending_batch: Any,
    running_interactive: Any,
    released_soon: Any,
    shortest_batch: Any,
    arrived: Any,
) -> tuple[Any, ...]:
    """The queue features that tell how many processors to hold, after those of `queue_features`.

    They count jobs and processors themselves and not parts of the site: a burst of thirty jobs
    wants the same processors on a large machine as on a small one.

    Args:
        pending_interactive: waiting interactive jobs.
        pending_batch: waiting batch jobs.
        running_interactive: processors that run interactive jobs.
        released_soon: processors whose job is expected to end within SOON seconds.
        shortest_batch: the shortest estimated run time of a waiting batch job, seconds; 0 if none.
        arrived: faded counts of interactive submissions, one for each of FADING_TIMES.
    """
    return (
        np.log(1.0 + pending_interactive) / (3.0 * TEN),
        np.log(1.0 + pending_batch) / (3.0 * TEN),
        np.log(1.0 + running_interactive) / (3.0 * TEN),
        np.log(1.0 + released_soon) / (3.0 * TEN),
        log_seconds(shortest_batch),
        np.log(1.0 + arrived[0]) / (3.0 * TEN),
        np.log(1.0 + arrived[1]) / (3.0 * TEN),
        np.log(1.0 + arrived[2]) / (3.0 * TEN),
    )


def scarcity_features(free: Any, demand: Any) -> tuple[Any, ...]:
    """The queue features of the resource that is scarce now, after those of `reserve_features`.

    That is the one of which running and waiting jobs together ask for the largest part.

    Args:
        free: the part of it that no job has.
        demand: what the waiting jobs ask of it together, parts of the machine's.
    """
    return (free * 1.0, np.log(1.0 + demand) / (3.0 * TEN))


class AskingJobs(Protocol):
    """Jobs as columns of shape [n], on the head node or in the simulator."""

    @property
    def size(self) -> FloatArray:
        """How large each job is, in processors."""
        ...

    @property
    def interactive(self) -> BoolArray:
        """Job class: True for interactive."""
        ...


def size_of(jobs: AskingJobs) -> FloatArray:
    """How large each job is, at least one processor; shape [n]."""
    return np.maximum(jobs.size, 1.0)


def static_job_features(
    jobs: AskingJobs, estimate: FloatArray, time_limit: FloatArray
) -> tuple[FloatArray, ...]:
    """Job features that stay as they are while the job waits, in the order of the schema.

    Args:
        jobs: what they ask for.
        estimate: estimated run time, seconds, shape [n].
        time_limit: requested run time, seconds; the estimate where none is known; shape [n].
    """
    size = size_of(jobs)
    return (
        log_seconds(estimate),
        log_seconds(time_limit),
        log_processors(size),
        np.log(1.0 + estimate * size) / (9.0 * TEN),
        jobs.interactive.astype(np.float64),
    )


def resource_features(shares: FloatArray) -> tuple[FloatArray, ...]:
    """Job features of what they ask of each kind of resource, after `static_job_features`.

    Args:
        shares: parts of the machine's resources, CPUs, memory, GPUs of all types and others that
            nodes have, as `shares_of_machine` makes them; CPUs alone where nothing else is told;
            shape [n, resources].
    """
    if shares.shape[1] <= _GPUS:
        nothing = np.zeros(len(shares))
        return (nothing, nothing, nothing, nothing)
    others = shares[:, _GPUS:]
    return (
        log_share(shares[:, 1]),
        log_share(others.max(axis=1)),
        (others[:, 0] > 0.0).astype(np.float64),
        over_dominant(shares[:, 0], shares),
    )


def over_dominant(share: FloatArray, shares: FloatArray) -> FloatArray:
    """How far a share lies below the largest that the job asks for, on its scale, shape [n]."""
    if shares.shape[1] == 1:  # it is the largest
        return np.zeros(len(shares))
    below: FloatArray = log_share(share) - log_share(shares.max(axis=1))
    return below


def dynamic_job_features(
    wait: Any,
    estimate: Any,
    size: Any,
    interactive: Any,
    share: Any,
    usage: Any,
    largest_share: Any,
) -> tuple[Any, ...]:
    """Job features that change with time, in the schema's order; `over_dominant` tells the last.

    Args:
        wait: seconds since submission, >= 0.
        estimate: estimated run time, seconds.
        size: of the job, in processors.
        interactive: True for interactive, False for batch.
        share: configured share of the job's account.
        usage: fraction of the consumed service that the job's account received.
        largest_share: largest configured share of any account.
    """
    turnaround = wait + estimate
    counted = np.maximum(estimate, 1.0)
    utility = time_utility(turnaround, estimate, interactive)
    rate = time_utility_loss_rate(turnaround, estimate, interactive, utility)
    return (
        log_seconds(wait),
        log_seconds(turnaround),
        counted / (counted + wait),
        utility * 1.0,
        np.log(rate / (counted * size) + 1e-12) / (12.0 * TEN) + 0.5,
        np.minimum(np.maximum((share - usage) / largest_share, -1.0), 1.0),
    )
