"""The jobs of the benchmark by its own conventions, and how each cell schedules them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.learning.load_windows import class_known_at_submission
from slurm_rl_plugin.papers.backfilling_predictions_2015.estimates import by_last_runs, by_requests
from slurm_rl_plugin.papers.backfilling_predictions_2015.published_cells import (
    EASY_SJBF,
    LAST_RUNS,
    PLUS_PLUS,
    TRUE,
    TWICE,
    Cell,
)
from slurm_rl_plugin.papers.backfilling_predictions_2015.single_events import (
    behind_head,
    starts_under,
)
from slurm_rl_plugin.papers.study.archived_logs import archived_log
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, prepare_log
from slurm_rl_plugin.units import FloatArray
from slurm_rl_plugin.utility.responsiveness import bounded_slowdown


class BenchmarkLog(NamedTuple):
    """Jobs that ran and asked for a time, ended at it; and the checksum of their file."""

    prepared: PreparedLog
    checksum: str

    @property
    def workload(self) -> Workload:
        """The jobs as their requests have them."""
        return self.prepared.workload(RequestedLimit())


class Flows(NamedTuple):
    """Figures of a schedule: mean bounded slowdown, longest flow and longest wait in seconds."""

    slowdown: float
    longest_flow: float
    longest_wait: float


def read_benchmark_log(folder: Path, name: str, most: int | None) -> BenchmarkLog:
    """A log of the Parallel Workloads Archive.

    Args:
        folder: that holds it.
        name: of its file.
        most: jobs to take; None for all.

    Raises:
        ConfigurationError: the folder does not hold it, or no job of it asked for a time.
        AccountingLogError: it cannot be read.
    """
    path = archived_log(folder, name)
    log, report = read_log(path)
    asked = np.flatnonzero(np.isfinite(log.time_limit))[:most]
    if len(asked) == 0:
        raise ConfigurationError(
            f"{path} has no job that ran and asked for a time: copy the log again."
        )
    prepared = prepare_log(log.select(asked), kill_at_limit=True)
    return BenchmarkLog(class_known_at_submission(prepared), report.checksum)


def starts_of(cell: Cell, log: BenchmarkLog) -> FloatArray:
    """When each job starts in a cell, seconds, shape [n]."""
    workload = log.workload
    if cell.predictor == TWICE:
        workload = workload._replace(estimate=2.0 * workload.estimate)
    if cell.predictor == TRUE:
        workload = workload._replace(estimate=workload.run_time)
    estimates, assumed = by_requests(workload), workload.estimate
    if cell.predictor == LAST_RUNS:
        estimates = by_last_runs(workload, cell.correction)
        assumed = estimates.plan.seconds
    if cell.scheduler not in (PLUS_PLUS, EASY_SJBF):
        assumed = np.zeros_like(assumed)
    return starts_under(workload, log.prepared.capacity, behind_head(assumed), estimates)


def flows_of(log: BenchmarkLog, start: FloatArray) -> Flows:
    """The figures of a schedule, over all jobs."""
    jobs = log.prepared.log
    wait = start - jobs.submit
    return Flows(
        slowdown=float(bounded_slowdown(wait, jobs.run_time).mean()),
        longest_flow=float((wait + jobs.run_time).max()),
        longest_wait=float(wait.max()),
    )
