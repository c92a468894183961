"""Jobs as columns: a queue of 100,000 jobs is a handful of arrays, not 100,000 objects."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np

from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray


def _select_columns(table: Any, index: IntArray | BoolArray) -> dict[str, Any]:
    """Every array column of a frozen table, restricted to `index`."""
    chosen: dict[str, Any] = {}
    for column in fields(table):
        value = getattr(table, column.name)
        chosen[column.name] = value.select(index) if isinstance(value, JobTable) else value[index]
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTable:
    """Columns of n jobs, all of shape [n]; a whole job array is one row.

    Attributes:
        job_id: the batch system's number of the job (of the array, for a job array).
        submit: seconds since the epoch.
        eligible: seconds since the epoch from which the job could have run.
        processors: processors requested.
        time_limit: requested run time in seconds; NaN where none is known.
        account: index into the snapshot's or the log's account names.
        user: index into user names; -1 where unknown.
        partition: index into partition names.
        interactive: job class; True for interactive, False for batch.
    """

    job_id: IntArray
    submit: FloatArray
    eligible: FloatArray
    processors: IntArray
    time_limit: FloatArray
    account: IntArray
    user: IntArray
    partition: IntArray
    interactive: BoolArray

    def __len__(self) -> int:
        return len(self.job_id)

    def select(self, index: IntArray | BoolArray) -> Self:
        """The rows named by an index or boolean array, in that order."""
        return replace(self, **_select_columns(self, index))


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingJobs:
    """Waiting jobs and what the batch system says of their place; every column has shape [n].

    Attributes:
        jobs: the columns that any job has.
        native_priority: the batch system's own priority points without our factor.
        factor: our term in the priority, as the batch system reports it; 0 where never set.
        held: a user or an administrator holds the job; it must stay so.
        admin_set: an administrator fixed the priority by hand; never touched.
        nice: the user's own adjustment, kept as it is.
    """

    jobs: JobTable
    native_priority: IntArray
    factor: IntArray
    held: BoolArray
    admin_set: BoolArray
    nice: IntArray

    def __len__(self) -> int:
        return len(self.jobs)

    def select(self, index: IntArray | BoolArray) -> Self:
        """The rows named by an index or boolean array, in that order."""
        return replace(self, **_select_columns(self, index))

    @classmethod
    def untouched(cls, jobs: JobTable) -> Self:
        """Pending jobs of a system without priorities of its own: all zero, nothing held."""
        count = len(jobs)
        zero = np.zeros(count, dtype=np.int64)
        no = np.zeros(count, dtype=np.bool_)
        return cls(jobs=jobs, native_priority=zero, factor=zero, held=no, admin_set=no, nice=zero)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJobs:
    """Running jobs; `start` in seconds since the epoch, shape [n]."""

    jobs: JobTable
    start: FloatArray

    def __len__(self) -> int:
        return len(self.jobs)

    def select(self, index: IntArray | BoolArray) -> Self:
        """The rows named by an index or boolean array, in that order."""
        return replace(self, **_select_columns(self, index))


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedJobs:
    """Jobs first seen to have started since the last snapshot, finished ones included.

    `start` is in seconds since the epoch, shape [n]; each job is reported exactly once.
    """

    jobs: JobTable
    start: FloatArray

    def __len__(self) -> int:
        return len(self.jobs)


def empty_job_table() -> JobTable:
    """A table of no jobs."""
    integers = np.empty(0, dtype=np.int64)
    floats = np.empty(0, dtype=np.float64)
    return JobTable(
        job_id=integers,
        submit=floats,
        eligible=floats,
        processors=integers,
        time_limit=floats,
        account=integers,
        user=integers,
        partition=integers,
        interactive=np.empty(0, dtype=np.bool_),
    )
