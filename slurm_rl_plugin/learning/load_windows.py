"""Cuts logs into training and validation loads: the past trains, the later part chooses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, classify_log
from slurm_rl_plugin.simulator.workloads.recorded_runs import windows_with_past

#: The first part of each log trains, the rest validates (definitions: time split).
TRAINING_FRACTION = 0.6
#: Jobs of one window: long enough for a queue to build up and to drain.
WINDOW_JOBS = 6000


def training_jobs(prepared: PreparedLog) -> int:
    """How many jobs of a log train: its first 60 % in submit order, rounded down.

    On a machine of nodes those of the first 60 % of its time: where one array can hold more jobs
    than a week, parts by jobs would be cut within a day.
    """
    if prepared.machine is None:
        return int(len(prepared.log) * TRAINING_FRACTION)
    submit = prepared.log.submit
    border = submit[0] + TRAINING_FRACTION * (submit[-1] - submit[0])
    return int(np.searchsorted(submit, border))


def training_part(prepared: PreparedLog) -> PreparedLog:
    """The first 60 % of a log, from which everything that training knows is taken."""
    return log_window(prepared, 0, training_jobs(prepared))


def log_windows(prepared: PreparedLog, firsts: Sequence[int], count: int) -> list[PreparedLog]:
    """Windows of consecutive jobs of a log; every window of the package is cut here.

    Submit times stay those of the log (F1 counts them from its start), shares those of the whole. A
    window knows what the log recorded of users' runs before it begins.

    Args:
        prepared: the log, in submit order.
        firsts: place of each window's first job, ascending.
        count: jobs of each window.

    Raises:
        ConfigurationError: the log does not hold these jobs.
    """
    for first in firsts:
        if first < 0 or count < 0 or first + count > len(prepared.log):
            raise ConfigurationError(
                f"a log of {len(prepared.log)} jobs has no window of {count} jobs from job {first}."
            )
    return windows_with_past(prepared, firsts, count)


def log_window(prepared: PreparedLog, first: int, count: int) -> PreparedLog:
    """The window of `count` jobs from number `first` on, as a load of its own."""
    return log_windows(prepared, [first], count)[0]


def class_known_at_submission(
    prepared: PreparedLog, classifier: JobClassifier | None = None
) -> PreparedLog:
    """The log with job classes that a policy may see: made of what users gave with their jobs.

    The class of a SWF log is its actual run time < 900 s (definitions), which nobody knows while a
    job waits. Reports that mean the actual run time must take it from `log.run_time`.

    Args:
        prepared: the log.
        classifier: the site's rules; by default those of JobClassifier, for a SWF log the
            requested time <= 900 s. A job that asked for no time is batch.
    """
    interactive, rule = classify_log(prepared.log, classifier or JobClassifier())
    return replace(prepared, interactive=interactive, class_rule=rule)


def split_windows(
    prepared: PreparedLog, most: int, rng: np.random.Generator
) -> tuple[list[PreparedLog], list[PreparedLog]]:
    """Training windows from the first 60 % of a log, validation windows from the rest.

    Args:
        prepared: the log.
        most: windows of either kind at most; where the log has more, they are drawn by `rng`.
        rng: source of randomness.

    Raises:
        ConfigurationError: the log is too short to be split.
    """
    jobs = len(prepared.log)
    border = training_jobs(prepared)
    if border < 1 or jobs - border < 1:
        raise ConfigurationError(
            f"the log has too few jobs to train and validate on ({jobs}): give a longer one."
        )
    return (
        _windows(prepared, 0, border, most, rng),
        _windows(prepared, border, jobs, most, rng),
    )


def _windows(
    prepared: PreparedLog, first: int, last: int, most: int, rng: np.random.Generator
) -> list[PreparedLog]:
    count = max((last - first) // WINDOW_JOBS, 1)
    edges = np.linspace(first, last, count + 1).astype(np.int64)
    chosen = np.sort(rng.choice(count, size=min(count, most), replace=False))
    return [
        log_window(prepared, int(edges[each]), int(edges[each + 1] - edges[each]))
        for each in chosen
    ]
