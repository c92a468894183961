"""Jobs as columns: a queue of 100,000 jobs is a handful of arrays, not 100,000 objects.

**A snapshot** is what a policy sees: one instant of the queue, the same in the simulator and on a
cluster.

**A watch** remembers what jobs ask for with their places: a user may raise a limit after the job
was ranked as a short one. The next decision scores the new request; a watch says which jobs must
lose their place first.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.domain.resources import (
    CPUS,
    GPUS,
    MEMORY,
    ResourceRequests,
    ResourcesNow,
    Rows,
    weighed_processors,
)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSnapshot:
    """The queue at one instant; immutable."""

    now: float  #: seconds since the epoch at which the snapshot was taken
    pending: PendingJobs  #: waiting jobs, held ones included
    running: RunningJobs  #: jobs that occupy processors
    started: StartedJobs  #: jobs that started since the previous snapshot (for wait metrics only)
    capacity: int  #: usable processors
    accounts: tuple[str, ...]  #: account names; `JobTable.account` indexes them
    partitions: tuple[str, ...]  #: partition names; `JobTable.partition` indexes them
    shares: FloatArray  #: configured share of each account, shape [accounts], sum 1
    #: Fraction of the (decayed) consumed service of each account: processor-seconds, or what the
    #: site bills; shape [accounts]; sums to 1, or to 0 while nothing was consumed.
    usage: FloatArray
    ended: EndedJobs = field(default_factory=EndedJobs.none)  #: ended since the previous one
    users: tuple[str, ...] = ()  #: user names; `JobTable.user` indexes them
    qos: tuple[str, ...] = ()  #: names of QOS; `PendingJobs.qos` indexes them
    reasons: tuple[str, ...] = ()  #: why jobs wait, as sentences; `PendingJobs.reason` indexes them
    #: What the machine has in addition to processors; None if unknown.
    resources: ResourcesNow | None = None

    @property
    def accrued_wait(self) -> FloatArray:
        """Seconds of waiting that count in favour of each pending job, shape [pending].

        What the batch system counts, so that age cannot be banked by a hold or a dependency; where
        it counts nothing of its own, all since the job was eligible.
        """
        accrued = self.pending.accrued
        since = self.now - self.pending.jobs.eligible if accrued is None else accrued
        return np.maximum(since, 0.0)

    @property
    def unserved_wait(self) -> FloatArray:
        """The same, of an array only since one of its tasks last started, shape [pending]."""
        last_start = self.pending.last_start
        if last_start is None:
            return self.accrued_wait
        return np.fmin(self.accrued_wait, np.maximum(self.now - last_start, 0.0))

    @property
    def counted_wait(self) -> FloatArray:
        """Seconds of waiting as a policy counts them: lifted jobs have waited longer; [pending]."""
        counts = self.pending.wait_counts
        return self.unserved_wait if counts is None else self.unserved_wait * counts

    @property
    def waits_for_machine(self) -> BoolArray:
        """Which pending jobs could start if there were room, shape [pending].

        Not who is held, not eligible yet, or waits by his own doing.
        """
        pending = self.pending
        eligible = ~(pending.jobs.eligible > self.now)
        return eligible & ~pending.held & ~pending.each_own_doing

    @property
    def each_waits_as(self) -> FloatArray:
        """How many jobs each pending row counts as in the queue, shape [pending].

        A row may be the waiting tasks of an array. A job that could not start counts as none, since
        a log has jobs from when they were eligible.
        """
        tasks = self.pending.tasks
        return np.where(self.waits_for_machine, 1 if tasks is None else tasks, 0).astype(np.float64)

    @property
    def each_runs(self) -> FloatArray:
        """How often the waiting tasks of each array fill the machine, at least 1; [pending].

        1 for any other job.
        """
        tasks = self.pending.tasks
        if tasks is None:
            return np.ones(len(self.pending))
        size = self.weighed(self.pending.jobs).size
        return np.maximum(tasks * size / max(self.capacity, 1), 1.0)

    def weighed(self, jobs: JobTable) -> JobTable:
        """Jobs of this queue with the processors that they weigh on this machine.

        As they are if only processors are known, of the machine or of the jobs.
        """
        if self.resources is None or jobs.requests is None:
            return jobs
        weighed = weighed_processors(
            jobs.processors.astype(np.float64),
            jobs.requests,
            self.resources.names,
            self.resources.capacity,
            self.resources.beside,
        )
        return replace(jobs, weighed=weighed)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUse:
    """One resource; memory in MiB."""

    name: str  #: one of the snapshot's resources
    usable: float  #: what usable nodes have of it
    running: float  #: what running jobs have of it
    pending: float  #: what pending jobs ask for, a pending array as one job


def resource_use(snapshot: QueueSnapshot) -> tuple[ResourceUse, ...]:
    """Each resource of the machine; none if only processors are known."""
    machine = snapshot.resources
    waiting, having = snapshot.pending.jobs.requests, snapshot.running.jobs.requests
    if machine is None:
        return ()
    return tuple(
        ResourceUse(
            name=name,
            usable=usable,
            running=0.0 if having is None else float(having.of(name).sum()),
            pending=0.0 if waiting is None else float(waiting.of(name).sum()),
        )
        for name, usable in zip(machine.names, machine.capacity.tolist(), strict=True)
    )


logger = logging.getLogger(__name__)

#: What is watched; a closed list, since a metric's label takes these values. `resources` are all
#: that have no part of their own, such as types of GPUs.
REQUEST_PARTS = ("time_limit", "processors", "memory", "gpus", "resources", "partition", "qos")
#: Parts that every look has.
_ALWAYS_TOLD = frozenset({"time_limit", "processors", "partition", "qos"})
_PARTS_OF = {MEMORY: "memory", GPUS: "gpus"}
#: By part, and what has none of its own by the name of the resource.
Columns = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestChange:
    """One job asks for something else than when it was ranked."""

    job_id: int  #: of the job or array
    part: str  #: one of REQUEST_PARTS
    #: old, new: seconds (None for no limit), processors, MiB, GPUs, a name, a resource's amount.
    old: float | str | None
    new: float | str | None


@dataclass(frozen=True, slots=True)
class ChangedRequests:
    """What ranked jobs ask for otherwise than at the look before."""

    #: Pending jobs of the snapshot whose place was for another request, shape [n]; None for none.
    lost: BoolArray | None = None
    #: Pending jobs that are ranked now and were not before, shape [n]; None without a look before.
    new: BoolArray | None = None
    changes: tuple[RequestChange, ...] = ()  #: one for each part of a job, of `resources` for each

    @property
    def parts(self) -> Mapping[str, int]:
        """Part -> how many jobs changed it."""
        return Counter(part for _, part in {(each.job_id, each.part) for each in self.changes})

    @property
    def first(self) -> BoolArray | None:
        """Pending jobs whose places are written before all others, shape [n]; None for none."""
        if self.lost is None or self.new is None:
            return self.new if self.lost is None else self.lost
        return self.lost | self.new


@dataclass(slots=True)
class RequestWatch:
    """Compares what ranked jobs ask for with what they asked for when they were last ordered.

    A cycle calls `compare`, sends its writes and then calls `commit`. If the writes get no answer,
    the next cycle finds the same changes again. A restart forgets everything.
    """

    #: Jobs whose places were decided and not sent; the next look counts them again.
    left: frozenset[int] = frozenset()

    _job_id: IntArray | None = None
    _columns: Columns = field(default_factory=dict)
    _names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    _compared: tuple[IntArray, Columns, Mapping[str, tuple[str, ...]]] | None = None

    def compare(self, snapshot: QueueSnapshot, ranked: BoolArray) -> ChangedRequests:
        """Find what has changed since the last commit."""
        columns, names = _columns(snapshot), {"partition": snapshot.partitions, "qos": snapshot.qos}
        job_id = snapshot.pending.jobs.job_id
        found = self._changed(job_id, columns, names, ranked)
        places = np.flatnonzero(ranked)
        places = places[np.argsort(job_id[places])]
        self._compared = job_id[places], self._remembered(job_id, columns, places), names
        for part, count in found.parts.items():
            first = next(each for each in found.changes if each.part == part)
            words = (part, count, first.job_id, first.old, first.new)
            logger.info("request=changed what=%s jobs=%d first=%d was=%s is=%s", *words)
        return found

    def commit(self, left: frozenset[int] = frozenset()) -> None:
        """Remember what the last compared jobs ask for: they have been ordered by it."""
        if self._compared is None:
            return
        job_id, columns, self._names = self._compared
        known = () if self._job_id is None else self._job_id.tolist()
        kept = ~np.isin(job_id, list(left.difference(known)))
        self._job_id = job_id[kept]
        self._columns = {key: column[kept] for key, column in columns.items()}
        self._compared, self.left = None, left

    def forget(self) -> None:
        """Forget every place that was ours."""
        self._job_id = self._compared = None
        self.left = frozenset()

    def _changed(
        self,
        job_id: IntArray,
        columns: Columns,
        names: Mapping[str, tuple[str, ...]],
        ranked: BoolArray,
    ) -> ChangedRequests:
        if self._job_id is None:
            return ChangedRequests()
        if len(self._job_id) == 0 or len(job_id) == 0:
            return ChangedRequests(new=ranked)
        row, known = self._rows_of(self._job_id, job_id)
        lost = np.isin(job_id, list(self.left)) & known & ranked
        changes: list[RequestChange] = []
        for key in columns.keys() & self._columns.keys():
            before, now = self._columns[key][row], columns[key]
            same_number = before
            if key in names:  # each snapshot numbers names anew
                now_of = {name: place for place, name in enumerate(names[key])}
                numbers = [now_of.get(name, -1) for name in self._names[key]]
                same_number = np.array(numbers or [0])[before]
            differs = known & (now != same_number)
            if key not in _ALWAYS_TOLD:  # an unknown part is no change
                differs &= ~(np.isnan(now) | np.isnan(before))
            lost |= differs
            for place in np.flatnonzero(differs).tolist():
                part = key if key in REQUEST_PARTS else "resources"
                old, new = _told(key, before[place], self._names), _told(key, now[place], names)
                number = int(job_id[place])
                changes.append(RequestChange(job_id=number, part=part, old=old, new=new))
        changes.sort(key=lambda each: REQUEST_PARTS.index(each.part))
        return ChangedRequests(lost if lost.any() else None, ranked & ~known, tuple(changes))

    @staticmethod
    def _rows_of(remembered: IntArray, job_id: IntArray) -> tuple[IntArray, BoolArray]:
        """Where each job was remembered, and whether it was; both of shape [n]."""
        row = np.minimum(np.searchsorted(remembered, job_id), len(remembered) - 1)
        return row, remembered[row] == job_id

    def _remembered(self, job_id: IntArray, columns: Columns, places: IntArray) -> Columns:
        """The columns of these places; what this look lacks stays as it was.

        Else a job could be changed behind a look at which the nodes gave no answer.
        """
        kept = {key: column[places] for key, column in columns.items()}
        if self._job_id is None or len(self._job_id) == 0 or len(places) == 0:
            return kept
        row, known = self._rows_of(self._job_id, job_id[places])
        for key in self._columns.keys() - _ALWAYS_TOLD:
            before = np.where(known, self._columns[key][row], np.nan)
            now = kept.get(key, before)
            kept[key] = np.where(np.isnan(now), before, now)
        return kept


def _columns(snapshot: QueueSnapshot) -> Columns:
    """Of each pending job, shape [n]; NaN for an unknown amount."""
    jobs, qos = snapshot.pending.jobs, snapshot.pending.qos
    columns: dict[str, NDArray[Any]] = {}
    if jobs.requests is not None:
        for name in set(jobs.requests.names) - {CPUS}:
            columns[_PARTS_OF.get(name, name)] = jobs.requests.of(name)
    return columns | {
        "time_limit": np.nan_to_num(jobs.time_limit, nan=np.inf),  # NaN differs from itself
        "processors": jobs.processors,
        "partition": jobs.partition,
        "qos": np.zeros(len(jobs), dtype=np.int64) if qos is None else qos,
    }


def _told(key: str, value: Any, names: Mapping[str, tuple[str, ...]]) -> float | str | None:
    if key in names:
        return names[key][int(value)]
    if key not in REQUEST_PARTS:
        return f"{key} {float(value):g}"
    return float(value) if np.isfinite(value) else None
