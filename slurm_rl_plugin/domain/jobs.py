"""Jobs as columns: a queue of 100,000 jobs is a handful of arrays, not 100,000 objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self, get_args, get_type_hints

import numpy as np

from slurm_rl_plugin.domain.resources import ResourceRequests, Rows
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class JobColumns(Rows):
    """What n jobs ask for, waiting, running or of an accounting log; all columns have shape [n]."""

    job_id: IntArray  #: the batch system's number of the job (of the array, for a job array)
    submit: FloatArray  #: seconds since the epoch
    eligible: FloatArray  #: seconds since the epoch from which the job could have run
    processors: IntArray  #: processors requested
    time_limit: FloatArray  #: requested run time in seconds; NaN where none is known
    account: IntArray  #: index into the snapshot's or the log's account names
    user: IntArray  #: index into user names; -1 where unknown
    partition: IntArray  #: index into partition names
    #: What they ask of nodes in addition to processors; None if the source has none.
    requests: ResourceRequests | None = None

    def __len__(self) -> int:
        return len(self.job_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTable(JobColumns):
    """Columns of n jobs whose class is known, all of shape [n]; a whole job array is one row."""

    interactive: BoolArray  #: job class; True for interactive, False for batch
    #: Processors that each weighs by its dominant share; None where those that it asks for.
    weighed: FloatArray | None = None
    #: by_limit, by_user: interactive only by that, see `JobClass`; None where not known.
    by_limit: BoolArray | None = None
    by_user: BoolArray | None = None
    #: Place of each job's class among the site's classes; None where not known.
    class_number: IntArray | None = None
    #: Seconds that the user's own deadline allows, see `JobClass`; None for no job.
    allowed: FloatArray | None = None

    @property
    def size(self) -> FloatArray:
        """How large each job is, in processors, shape [n]."""
        return self.processors.astype(np.float64) if self.weighed is None else self.weighed

    @classmethod
    def classed(cls, jobs: JobColumns, *, interactive: BoolArray, account: IntArray) -> Self:
        """The columns of other jobs with their class and account, both of shape [n]."""
        columns = {each.name: getattr(jobs, each.name) for each in fields(JobColumns)}
        return cls(**{**columns, "account": account}, interactive=interactive)


def float_columns(table: type) -> tuple[str, ...]:
    """Names of the float64 columns of a table, also of those that not every source has."""
    kinds = get_type_hints(table).items()
    return tuple(name for name, kind in kinds if FloatArray in (kind, *get_args(kind)))


_MEASURES = float_columns(JobColumns)


def measures(rows: Sequence[object]) -> dict[str, Any]:
    """The float64 columns of `JobColumns` from what rows call the same, each of shape [n].

    NaN where the rows know no such thing.
    """
    return {
        name: np.array([getattr(row, name, np.nan) for row in rows], dtype=np.float64)
        for name in _MEASURES
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingJobs(Rows):
    """Waiting jobs and what the batch system says of their place; every column has shape [n]."""

    jobs: JobTable  #: the columns that any job has
    native_priority: IntArray  #: the batch system's own priority points without our factor
    factor: IntArray  #: our term in the priority, as the batch system reports it; 0 where never set
    held: BoolArray  #: a user or an administrator holds the job; it must stay so
    admin_set: BoolArray  #: an administrator fixed the priority by hand; never touched
    nice: IntArray  #: the user's own order of the user's jobs, lower first; kept as it is
    qos: IntArray | None = None  #: index into the snapshot's QOS; None where there are none
    #: Whether each can start in `jobs.partition` alone. None where the system does not say.
    one_partition: BoolArray | None = None
    #: A job of several components is tried at several priorities, at most this number of points
    #: from its own; 0 for other jobs. None where the system knows no components.
    spread: IntArray | None = None
    #: Jobs of a higher one start first whatever the priorities; of several partitions that a job
    #: may start in, the highest counts. None where the system knows none.
    tier: IntArray | None = None
    #: Priority points that QOS, partition and association add. None where the system shows none.
    standing: IntArray | None = None
    #: Seconds of waiting that the batch system counts; None where all since a job was eligible.
    accrued: FloatArray | None = None
    #: Waits by what its user controls: a hold, a dependency, a limit of the user's or account's
    #: own, nodes asked for that are down. None if the system lists none.
    own_doing: BoolArray | None = None
    #: Why each waits: index into the snapshot's reasons. None if the system gives none.
    reason: IntArray | None = None
    #: Waits for processors alone, so more of them would let it start; not so where the reason is
    #: unknown. None if the system gives no reasons.
    for_processors: BoolArray | None = None
    #: How many jobs each row represents, > 0: waiting tasks of an array. None where each is one.
    tasks: IntArray | None = None
    #: When a task of each array last started, seconds since the epoch; NaN where no task has
    #: started, and for a job that is no array. None where the system shows no starts.
    last_start: FloatArray | None = None
    #: When the batch system itself expects each to start, seconds since the epoch; NaN where it
    #: says nothing. None where it never says.
    expected: FloatArray | None = None
    #: Other clusters hold the job too: a write would reach them, so never touched. None for none.
    shared: BoolArray | None = None
    #: How many times a policy counts the wait of each, float64; None for once.
    wait_counts: FloatArray | None = None
    #: Why each counts as batch though its class is interactive, numbered as `reserve.AS_BATCH`; -1
    #: where it counts as classed. None where every job does.
    as_batch: IntArray | None = None

    def __len__(self) -> int:
        return len(self.jobs)

    @property
    def total_priority(self) -> IntArray:
        """The batch system's own priority plus our factor, shape [n]."""
        return self.native_priority + self.factor

    @property
    def each_own_doing(self) -> BoolArray:
        """Which jobs wait by their own doing, shape [n]; none if the system lists none."""
        return np.zeros(len(self), dtype=np.bool_) if self.own_doing is None else self.own_doing

    @property
    def each_for_processors(self) -> BoolArray:
        """Which jobs wait for processors alone, shape [n]; all if nothing else is known."""
        return ~self.each_own_doing if self.for_processors is None else self.for_processors

    @property
    def each_tier(self) -> IntArray:
        """The tier of each job, shape [n]; the same for all where the system knows none."""
        return np.zeros(len(self), dtype=np.int64) if self.tier is None else self.tier

    @classmethod
    def untouched(cls, jobs: JobTable) -> Self:
        """Pending jobs of a system without priorities of its own: all zero, nothing held."""
        count = len(jobs)
        zero = np.zeros(count, dtype=np.int64)
        no = np.zeros(count, dtype=np.bool_)
        return cls(jobs=jobs, native_priority=zero, factor=zero, held=no, admin_set=no, nice=zero)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJobs(Rows):
    """Jobs that have started and not ended, so that they occupy processors."""

    jobs: JobTable  #: the columns that any job has; processors are those that it got
    start: FloatArray  #: seconds since the epoch, shape [n]
    #: Processors that each had asked for, shape [n]; None where they got just that. Where jobs get
    #: whole cores or nodes, it distinguishes them from others that wait.
    requested: IntArray | None = None
    asked: ResourceRequests | None = None  #: what each had asked of nodes; None if they got that
    #: Number that each had while it waited, a task that of its array; None where all have it still.
    waited_as: IntArray | None = None

    @classmethod
    def seen(
        cls, jobs: JobTable, start: FloatArray, now: float, requested: IntArray | None = None
    ) -> Self:
        """Running jobs as a batch system shows them at `now`, at times before it shows since when.

        An unknown `start`, NaN, would make no score of any job finite: it counts as now.
        """
        return cls(jobs=jobs, start=np.where(np.isnan(start), now, start), requested=requested)

    @property
    def as_requested(self) -> JobTable:
        """The jobs with what they had asked for."""
        if self.requested is None:
            return self.jobs
        asked = self.jobs.requests if self.asked is None else self.asked
        return replace(self.jobs, processors=self.requested, requests=asked)

    @property
    def numbers(self) -> set[int]:
        """By which they may be known: their own, and those of the arrays that they are of."""
        arrays = [] if self.waited_as is None else self.waited_as.tolist()
        return {*self.jobs.job_id.tolist(), *arrays}

    def __len__(self) -> int:
        return len(self.jobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedJobs:
    """Jobs first seen to have started since the last snapshot, finished ones included.

    `start` is in seconds since the epoch, shape [n]; each job is reported exactly once.
    """

    jobs: JobTable
    start: FloatArray

    def __len__(self) -> int:
        return len(self.jobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedJobs:
    """Jobs first seen to have ended since the last snapshot, each reported exactly once."""

    #: As any job's, with requested processors; account and partition are -1 if unknown.
    jobs: JobTable
    #: start, end: seconds since the epoch, shape [n]; the end may be before the last snapshot.
    start: FloatArray
    end: FloatArray
    #: Past runs that the first snapshot reports. A memory from an earlier process has already
    #: counted those before its time.
    from_accounting: bool = False
    #: Whether its time limit ended each, shape [n]; None where that is not known.
    timed_out: BoolArray | None = None

    def __len__(self) -> int:
        return len(self.jobs)

    @classmethod
    def none(cls) -> Self:
        """A table without rows: no job has ended since the last snapshot."""
        nothing = empty_job_table()
        return cls(jobs=nothing, start=nothing.submit, end=nothing.submit)


def empty_job_table() -> JobTable:
    """A table of no jobs."""
    whole = ("job_id", "processors", "account", "user", "partition")
    columns: dict[str, Any] = dict.fromkeys(whole, np.empty(0, dtype=np.int64))
    columns |= dict.fromkeys(_MEASURES, np.empty(0))
    return JobTable(**columns, interactive=np.empty(0, dtype=np.bool_))
