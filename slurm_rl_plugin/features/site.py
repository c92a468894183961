"""The `site` schema: features that carry over between sites of any size.

Logarithms of jobs are natural ones, so that a linear score counts in points that have a meaning: a
point is a factor of e. What the site wants (`domain.goals`) scales the features that it is about.

What changes while a job waits is elementwise in plain numpy style: the simulator compiles the very
same lines for one job at a time; the head node runs them on whole columns.

A feature of time or work spans many powers of ten; on a logarithmic scale it lies near [0, 1].
Powers of ten are counted as `np.log(x) / TEN`: that takes a third of the time of `np.log10`.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from slurm_rl_plugin.domain.goals import Goals
from slurm_rl_plugin.units import DAY, HOUR, MINUTE, BoolArray, FloatArray

#: Natural logarithm of ten.
TEN = math.log(10.0)
#: Powers of ten of seconds that a scale of seconds spans: 1 is 11 days.
SECONDS_SPAN = 6.0


def log_seconds(seconds: Any) -> Any:
    """Seconds, >= 0, on a logarithmic scale: 0 at none, 1 at 11 days."""
    return np.log(1.0 + seconds) / (SECONDS_SPAN * TEN)


def log_work_hours(work: Any, capacity: Any) -> Any:
    """Processor-seconds as hours of the whole machine on a logarithmic scale: 1 at 10,000."""
    return np.log(1.0 + work / (3600.0 * capacity)) / (4.0 * TEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureSchema:
    """An ordered list of features."""

    name: str  #: "site" or "reactive-grid"
    version: int  #: raised by hand whenever the meaning of a feature changes
    queue: tuple[str, ...]  #: names of the queue features, in column order
    static_jobs: tuple[str, ...]  #: names of job features that do not change while the job waits
    dynamic_jobs: tuple[str, ...]  #: names of job features that change with time; next
    history_jobs: tuple[str, ...] = ()  #: of those made of past runs and of similar jobs; last

    @property
    def jobs(self) -> tuple[str, ...]:
        """Names of all job features, in column order."""
        return self.static_jobs + self.dynamic_jobs + self.history_jobs

    @property
    def digest(self) -> str:
        """sha256 over name, version and feature names, hexadecimal."""
        text = "\n".join([self.name, str(self.version), *self.queue, "--", *self.jobs])
        return hashlib.sha256(text.encode()).hexdigest()


#: Seconds in which an interactive job should start (definitions: within_120s).
SOON = 120.0

#: The queue features that set how many processors to hold.
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

SITE = FeatureSchema(
    name="site",
    version=5,
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
    ),
    static_jobs=("log_size", "log_time_limit", "interactive", "interactive_points"),
    dynamic_jobs=("log_age", "overdue", "share_doublings", "share_points"),
    history_jobs=("log_run_time", "log_run_time_spread", "log_alike_none_running"),
)
#: Where job features lie on a site like others: middle and half width, for scalers.
USUAL = {
    "log_size": (3.0, 3.0),
    "log_time_limit": (9.0, 3.0),
    "interactive": (0.5, 0.5),
    "interactive_points": (0.0, 2.0),
    "log_age": (1.0, 1.0),
    "overdue": (0.5, 0.5),
    "share_doublings": (0.0, 2.0),
    "share_points": (0.0, 2.0),
    "log_run_time": (7.0, 3.0),
    "log_run_time_spread": (1.5, 1.5),
    "log_alike_none_running": (1.0, 1.0),
}
#: Seconds of waiting that count like none.
PATIENCE = 4.0 * HOUR
#: A job is overdue beyond this part of the site's recent longest wait.
LATE = 0.5
#: Seconds in which the longest wait of a site counts half.
HALF_LIFE = 30.0 * DAY
#: Doublings of usage over share at which the feature saturates.
MOST_DOUBLINGS = 4.0
#: The least part of a machine that differs from none.
_LEAST_PART = 1e-6


def queue_features(
    capacity: Any,
    idle: Any,
    pending: Any,
    next_release: Any,
    running_interactive: Any,
    fairness_now: Any,
    released_soon: Any,
    shortest_batch: Any,
    arrived: Any,
) -> tuple[Any, ...]:
    """The queue features in the order of `SITE.queue`.

    The first are relative to the site. Those of RESERVE_FEATURES count jobs and processors
    themselves: a burst of thirty jobs wants the same processors on a large machine as on a small
    one.

    Args:
        capacity: usable processors, > 0.
        idle: processors without a job.
        pending: of the waiting jobs how many there are, how many of them are interactive, their
            size together, processors, and their sum of estimate * size, processor-seconds.
        next_release: seconds until the next running job is expected to end; 0 if none runs.
        running_interactive: processors that run interactive jobs.
        fairness_now: eq. 4 on the current usage.
        released_soon: processors whose job is expected to end within SOON seconds.
        shortest_batch: the shortest estimated run time of a waiting batch job, seconds; 0 if none.
        arrived: faded counts of interactive submissions, one for each of FADING_TIMES.
    """
    jobs, interactive, size, work = pending
    return (
        idle / capacity,
        np.log(1.0 + jobs) / (5.0 * TEN),
        interactive / np.maximum(jobs, 1.0),
        np.log(1.0 + size / capacity) / (3.0 * TEN),
        log_work_hours(work, capacity),
        log_seconds(next_release),
        running_interactive / capacity,
        fairness_now * 1.0,
        np.log(1.0 + interactive) / (3.0 * TEN),
        np.log(1.0 + (jobs - interactive)) / (3.0 * TEN),
        np.log(1.0 + running_interactive) / (3.0 * TEN),
        np.log(1.0 + released_soon) / (3.0 * TEN),
        log_seconds(shortest_batch),
        np.log(1.0 + arrived[0]) / (3.0 * TEN),
        np.log(1.0 + arrived[1]) / (3.0 * TEN),
        np.log(1.0 + arrived[2]) / (3.0 * TEN),
    )


def static_job_features(
    size: FloatArray, interactive: BoolArray, time_limit: FloatArray, goals: Goals
) -> tuple[FloatArray, ...]:
    """Job features that stay as they are while the job waits, in the order of the schema.

    `size` is in processors, `time_limit` an estimate where none is known, seconds; shape [n].
    """
    return (
        goals.wide_jobs * np.log(np.maximum(size, 1.0)),
        np.log(np.maximum(time_limit, 1.0)),
        interactive.astype(np.float64),
        goals.interactive * interactive.astype(np.float64),
    )


def longest_wait(before: Any, since: Any, wait: Any) -> Any:
    """The recent longest wait of a site, seconds.

    It was `before`, `since` seconds ago; `wait` is that of the job that waits longest now.
    """
    return max(before * 0.5 ** (since / HALF_LIFE), wait)


def share_doublings(share: Any, usage: Any) -> Any:
    """How many doublings an account is above its share; both are parts of 1."""
    used = np.maximum(usage, _LEAST_PART) / np.maximum(share, _LEAST_PART)
    return np.minimum(np.maximum(np.log2(used), -MOST_DOUBLINGS), MOST_DOUBLINGS)


def late_after(longest: Any) -> Any:
    """Seconds of waiting after which a job is late; `longest` is that of `longest_wait`."""
    return np.maximum(LATE * longest, MINUTE)


def lateness(wait: Any, late: Any) -> Any:
    """How late a job is on a logarithmic scale: 0 until `late_after`, both in seconds."""
    return np.log(np.maximum(wait / late, 1.0))


def dynamic_job_features(
    wait: Any, late_by: Any, doublings: Any, long_waits: Any, shares: Any
) -> tuple[Any, ...]:
    """Job features that change with time, in the schema's order.

    `wait` is in seconds, `late_by` the `lateness`, `doublings` the `share_doublings` of the job's
    account; `long_waits` and `shares` are goals (`domain.goals`).
    """
    return (
        np.log(1.0 + wait / PATIENCE),
        long_waits * late_by,
        doublings,
        shares * doublings,
    )
