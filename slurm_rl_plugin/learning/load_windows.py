"""Cuts logs into what trains and what chooses: the past trains, the later part chooses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.simulator.workloads.log_workload import (
    PreparedLog,
    classify_log,
    select_prepared,
)
from slurm_rl_plugin.simulator.workloads.recorded_runs import windows_with_past
from slurm_rl_plugin.units import IntArray

#: The first part of each log trains, the rest validates (definitions: time split).
TRAINING_FRACTION = 0.6
#: Jobs of one run of a training at most.
MOST_JOBS = 50_000
#: Part of a run's jobs in which the machine fills; they do not count.
WARM_UP = 0.1
#: Part of the jobs that each of several runs leaves out, so that they differ.
LEFT_OUT = 0.02


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
    window knows what the log recorded of users' runs before it begins. `firsts` are places of each
    window's first job, ascending; `count` is the length of each.

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
    job waits. Reports that mean the actual run time must take it from `log.run_time`. The default
    rules are those of JobClassifier, for a SWF log the requested time <= 900 s; a job that asked
    for no time is batch.
    """
    interactive, rule, own = classify_log(prepared.log, classifier or JobClassifier())
    return replace(prepared, interactive=interactive, class_rule=rule, utilities=own)


def split_stretches(
    prepared: PreparedLog, runs: int, rng: np.random.Generator
) -> tuple[list[PreparedLog], list[PreparedLog]]:
    """What trains, from the first 60 % of a log, and what chooses, from the rest.

    Both are one run through the jobs next to the border, MOST_JOBS at most; of several runs each
    is without other LEFT_OUT of the jobs, so that a training does not learn one run by heart.

    Raises:
        ConfigurationError: the log is too short to be split.
    """
    jobs = len(prepared.log)
    border = training_jobs(prepared)
    if border < 1 or jobs - border < 1:
        raise ConfigurationError(
            f"the log has too few jobs to train and validate on ({jobs}): give a longer one."
        )
    first = max(border - MOST_JOBS, 0)
    past = log_window(prepared, first, border - first)
    later = log_window(prepared, border, min(jobs - border, MOST_JOBS))
    kept = [kept_jobs(border - first, rng) for _ in range(runs)] if runs > 1 else []
    return [select_prepared(past, each) for each in kept] or [past], [later]


def kept_jobs(jobs: int, rng: np.random.Generator) -> IntArray:
    """Places of so many jobs without LEFT_OUT of them, ascending."""
    left_out = rng.choice(jobs, int(jobs * LEFT_OUT), replace=False)
    return np.setdiff1d(np.arange(jobs), left_out)
