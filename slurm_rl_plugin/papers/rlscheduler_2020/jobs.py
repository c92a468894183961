"""The job files of the RLScheduler benchmark, read by its own conventions."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.accounting.log_file import LogFile, read_log_file
from slurm_rl_plugin.papers.study.archived_logs import archived_log
from slurm_rl_plugin.units import FloatArray, IntArray

_JOB_NUMBER, _SUBMIT, _RUN_TIME, _ALLOCATED, _REQUESTED_PROCESSORS, _REQUESTED_TIME = range(6)
#: Places of the columns above in a line of the Standard Workload Format.
_COLUMNS = (0, 1, 3, 4, 7, 8)
#: Seconds that the benchmark takes for a run time that the log does not know.
_UNKNOWN_RUN_TIME = 10.0
_WHERE = (
    "which are at the Parallel Workloads Archive and at github.com/DIR-LAB/deep-batch-scheduler"
)


class BenchmarkJobs(NamedTuple):
    """Jobs in the order of their number; columns of shape [n].

    Attributes:
        submit: seconds since the log's epoch; never goes back.
        run_time: seconds, > 0.
        requested: requested seconds; the run time where none were requested.
        processors: the larger of allocated and requested processors.
    """

    submit: FloatArray
    run_time: FloatArray
    requested: FloatArray
    processors: IntArray

    def part(self, first: int, count: int) -> BenchmarkJobs:
        """`count` jobs from the 0-based index `first` on."""
        places = slice(first, first + count)
        return BenchmarkJobs(
            submit=self.submit[places],
            run_time=self.run_time[places],
            requested=self.requested[places],
            processors=self.processors[places],
        )


def read_benchmark_jobs(folder: Path, name: str) -> BenchmarkJobs:
    """Read `folder`/`name`.swf.gz or `folder`/`name`.swf.

    Unlike the package's own reader this keeps jobs of unknown run time and takes the larger of the
    two processor counts, as the benchmark does.

    Raises:
        AccountingLogError: a line is no job.
        ConfigurationError: neither file is there.
    """
    return jobs_of_rows(_rows(read_log_file(archived_log(folder, name, _WHERE))))


def _rows(log: LogFile) -> FloatArray:
    text = log.content.decode("latin-1")
    try:
        rows = np.loadtxt(text.splitlines(), comments=";", usecols=_COLUMNS, ndmin=2)
    except ValueError:
        raise log.fault("a line is no job of 18 numbers; copy the file again") from None
    return np.asarray(rows, dtype=np.float64)


def jobs_of_rows(rows: FloatArray) -> BenchmarkJobs:
    """Apply the benchmark's conventions.

    Args:
        rows: job number, submit, run time, allocated processors, requested processors, requested
            time; shape [n, 6], -1 where unknown.
    """
    rows = rows[rows[:, _RUN_TIME] != 0]
    rows = rows[np.argsort(rows[:, _JOB_NUMBER], kind="stable")]
    run_time, requested = rows[:, _RUN_TIME], rows[:, _REQUESTED_TIME]
    return BenchmarkJobs(
        submit=rows[:, _SUBMIT].copy(),
        run_time=np.where(run_time < 0, _UNKNOWN_RUN_TIME, run_time),
        requested=np.where(requested == -1, run_time, requested),
        processors=rows[:, [_ALLOCATED, _REQUESTED_PROCESSORS]].max(axis=1).astype(np.int64),
    )
