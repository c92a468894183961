"""The batch-system port: read one snapshot, apply changes of priority, roll them back.

A call to the batch system raises BatchSystemUnavailable if it gives no answer in time, and
BatchSystemError if an answer cannot be understood. A call that writes raises ChangeRejected if the
daemon lacks the right; without an answer in time its writes may or may not have been made.
Docstrings in this package name only other errors.

The configuration and `slurm-rl release` ask for the names of batch systems, so this module and the
`kind.py` of each import nothing but types.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from slurm_rl_plugin.errors import ChangeRejected

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from slurm_rl_plugin.accounting.port import JobLog, ReadReport
    from slurm_rl_plugin.domain import QueueSnapshot
    from slurm_rl_plugin.domain.billing import Billing
    from slurm_rl_plugin.domain.job_class import JobClassifier, JobDescription
    from slurm_rl_plugin.domain.machine import Machine
    from slurm_rl_plugin.domain.nodes import NodeNow
    from slurm_rl_plugin.domain.site import Allocation, JobRequest
    from slurm_rl_plugin.machine_files.reader import DescribedCluster
    from slurm_rl_plugin.units import FloatArray, IntArray

#: Calls of any adapter that load accounting and not the scheduler.
ACCOUNTING_CALLS = frozenset({"sacct"})
#: The highest priority of a job, unless a batch system has another.
HIGHEST_PRIORITY = 2**32 - 1024
#: Bound of factors in both directions: 32 bits around an offset, whose outermost values mean none.
LARGEST_FACTOR = 2147483645
PASS, WARN, FAIL = "pass", "warn", "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorChange:
    """Set our additive term in the priority of one pending job (array, for a job array)."""

    job_id: int  #: as in `JobTable.job_id`
    old: int  #: the factor that the snapshot reported
    new: int  #: the factor to write, in the batch system's priority points


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyReport:
    """The outcome of the changes in one call; `|` joins the reports of several calls."""

    accepted: frozenset[int] = frozenset()  #: job numbers
    #: Job number -> the batch system's message, also for jobs that have started or ended.
    rejected: Mapping[int, str] = field(default_factory=dict)
    later: frozenset[int] = frozenset()  #: rejected, but may still carry our factor: write again

    @property
    def applied(self) -> int:
        """Number of changed jobs."""
        return len(self.accepted)

    def __or__(self, other: ApplyReport) -> ApplyReport:
        return ApplyReport(
            accepted=self.accepted | other.accepted,
            rejected={
                **{job: why for job, why in self.rejected.items() if job not in other.accepted},
                **other.rejected,
            },
            later=(self.later - other.accepted) | other.later,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerFacts:
    """How the batch system orders; read again in each cycle, since a site may change it."""

    release: str  #: of the batch system, for people to read
    lever: str  #: what we write, by the batch system's name; "" for nothing
    harm: str | None  #: why writes have no effect or are undone; None if they work
    points_an_hour: float  #: priority points of an hour of waiting
    pass_interval: float  #: seconds between the scheduler's own passes over the queue
    in_charge: bool | None  #: False: another host's daemon must act; None: not known now
    highest_priority: int = HIGHEST_PRIORITY  #: all terms together
    controller_here: bool = True  #: whether this host has a controller
    fairshare_points: float = 0.0  #: points of an account that has used nothing; 0 if unknown
    replaced_points: float = 0.0  #: points of age, fair share, size and resources; 0 for none
    write_cost: str = ""  #: what a write costs, one sentence; "" if unknown
    no_influence: str | None = None  #: why hours cannot bound our order; None if they can
    alone: str | None = None  #: why no daemon may run next to another controller's
    #: First and last tested release.
    tried: tuple[tuple[int, int], tuple[int, int]] | None = None

    def bound(self, hours: float) -> float:
        """Hours of waiting that our first place adds; 0 if our order cannot be bounded."""
        return 0.0 if self.no_influence is not None else hours


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerLoad:
    """How busy the batch system is, as read between two cycles."""

    struggles: str | None  #: why we should write nothing now; None if it is well
    events: tuple[int, ...]  #: counters of jobs; a changed counter means a changed queue
    backlog: int = 0  #: messages that wait for the accounting daemon; 0 if unknown
    submitted: int = 0  #: jobs submitted since the batch system began to count; 0 if unknown


class Check(NamedTuple):
    """One check of `slurm-rl check`: PASS, WARN or FAIL, its name, the finding and the fix."""

    result: str
    name: str
    what: str


class SiteNames(NamedTuple):
    """Names in the jobs of a site; None if they are not known."""

    accounts: frozenset[str] | None
    partitions: frozenset[str] | None
    qos: frozenset[str] | None


class BatchSystem(ABC):
    """A queue that can be read and reordered. Every call ends within the adapter's time-out.

    Capabilities of only some batch systems do nothing in this class.
    """

    name: str  #: of the adapter in reports and metrics, such as `slurm_commands`
    lists_pending: bool = False  #: whether `pending_now` costs less than a whole snapshot
    #: Which pending jobs show no factor, and why: one sentence; "" for none.
    hidden_factors: str = ""

    @abstractmethod
    def facts(self) -> SchedulerFacts:
        """Read how the batch system orders."""

    @abstractmethod
    def load(self) -> SchedulerLoad:
        """Read how busy the batch system is, and its counters of jobs; cheap."""

    @abstractmethod
    def snapshot(self) -> QueueSnapshot:
        """Read the queue, our current factors, shares and usage."""

    @abstractmethod
    def apply(self, changes: Sequence[FactorChange]) -> ApplyReport:
        """Write factors; single refusals are reported, not raised."""

    @abstractmethod
    def release(self, job_ids: IntArray | None = None) -> ApplyReport:
        """Set our factor to 0 for these jobs, or for every pending job that has one."""

    def pending_now(self) -> QueueSnapshot:
        """The last snapshot with the present pending jobs, priorities and factors.

        If `lists_pending`, all else is as in that snapshot, and no job has started or ended.
        """
        return self.snapshot()

    def go_on_from(self, earlier: BatchSystem) -> None:  # noqa: B027 - a capability of some
        """Take over the state of an adapter of the same kind, so that each start is reported once.

        The earlier adapter makes no snapshot after that; one of another kind is ignored.
        """

    def tell_past(self, days: float) -> None:  # noqa: B027 - a capability of some
        """Report, in the next snapshot, the runs of these days that accounting has."""

    def beat(self) -> None:  # noqa: B027 - a capability of some
        """Show that the daemon lives, every few seconds; OSError if it cannot."""

    def leave(self) -> None:  # noqa: B027 - a capability of some
        """Show that there is nothing left to undo; OSError if it cannot."""

    def limit_batch(self, amounts: Mapping[str, int] | None) -> None:
        """Let all batch jobs together use at most this; None removes our limit.

        Running jobs continue. The site's own limit is saved before the first change, and restored
        with None. Only differences are written, and each write is read back. Amounts are at least
        1, memory in MiB; a missing resource gets no limit.
        """
        del amounts
        raise ChangeRejected(
            f'{self.name} cannot limit batch jobs: set [reserve] mechanism = "off"'
        )

    def limit_checks(self, *, writes: bool) -> Iterator[Check]:
        """Check that a limit on batch jobs works; `writes` allows a write that changes nothing."""
        del writes
        yield Check(FAIL, "reserve", f"{self.name} cannot limit batch jobs: turn it off")

    def own_checks(self, *, wants_runs: bool = False) -> Iterable[Check]:
        """Check what only this batch system has; with `wants_runs` accounting must answer."""
        del wants_runs
        return ()

    def site_names(self) -> SiteNames:
        """Names that jobs can have; None for what the batch system does not say."""
        return SiteNames(None, None, None)


#: Characters of a name in a label, a table or the audit log; a longer one is cut, with a digest.
LONGEST_NAME = 200


class Names:
    """Numbers names in the order of their first use."""

    def __init__(self, first: Iterable[str] = ()) -> None:
        self._index: dict[str, int] = {}
        for name in first:
            self.number(name)

    def number(self, name: str) -> int:
        """The number of a name, which is cut to LONGEST_NAME."""
        if len(name) > LONGEST_NAME:
            digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:12]
            name = f"{name[: LONGEST_NAME - 13]}~{digest}"
        return self._index.setdefault(name, len(self._index))

    @property
    def all(self) -> tuple[str, ...]:
        """Every name in the order of the numbers."""
        return tuple(self._index)


def to_sum_one(column: FloatArray) -> FloatArray:
    """The column scaled to sum 1, unless it is all 0."""
    whole = column.sum()
    return column / whole if whole > 0 else column


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRun:
    """When a job ran; seconds since the epoch."""

    job_id: int
    submitted: float  #: when it could have started first
    started: float
    ended: float  #: NaN while it runs; a run that failed before its start has both times equal
    failed: bool = False  #: whether the site failed it: a node, a launch, a missed deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitCommand:
    """A parsed command that submits a job."""

    words: tuple[str, ...]  #: arguments after the program's name, as given
    options: Mapping[str, str]  #: long name -> value, of the arguments alone
    script: str | None  #: path as given; None if it is wrapped or on standard input
    reads_stdin: bool  #: whether the script would be read from standard input


class JobSubmission(Protocol):
    """Submits jobs, as the user, to clusters that share one accounting database."""

    @property
    def program(self) -> str:
        """Name on the PATH of the command that submits."""

    def command(self, words: Sequence[str]) -> SubmitCommand:
        """Parse a user's words, the program's name first.

        ConfigurationError for another command, and for an option that is unknown or binds the job
        to one cluster; `request` raises it for values and lines of the script.
        """

    def request(
        self, command: SubmitCommand, script: str, environment: Mapping[str, str], user: str
    ) -> JobRequest:
        """What the command asks for."""

    def submit(self, cluster: str, words: Sequence[str], script: str | None) -> tuple[int, str]:
        """Submit, with a script for standard input if it is read; job number and command output.

        JobNotAccepted, with the batch system's message, if the job was not submitted;
        SubmissionUnknown if it may have been.
        """

    def ended(
        self, cluster: str, job_ids: Sequence[int], since: float | None = None
    ) -> tuple[list[EndedRun], list[int]]:
        """Runs of these jobs, one for each start, and the jobs that ended without running.

        `since` selects all of this user's jobs in the last `since` seconds instead.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitKeys:
    """Names in the configuration of what carries a limit on batch jobs."""

    mechanism: str | None = None  #: one of `BatchSystemKind.limits`; None for none
    qos: str = ""  #: QOS of batch jobs
    license: str = ""  #: batch jobs ask for one of it for each processor
    reservation: str = ""  #: by which the daemon withholds licences from batch jobs
    queues: tuple[str, ...] = ()  #: execution queues of batch jobs
    resources: tuple[str, ...] = ()  #: limited in addition to processors, of BASIC_RESOURCES
    #: False if the configuration is faulty: then only the record of an outstanding limit counts.
    is_known: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterParts:
    """What an adapter needs to know of the cluster and of this host."""

    adapter: str = "auto"  #: as configured, `auto` or one of `BatchSystemKind.adapters`
    shares: Mapping[str, float] | None  #: scaled to sum 1; None asks the batch system
    classifier: JobClassifier  #: the site's classes of jobs
    clock: Callable[[], float]  #: seconds since the epoch
    timeout: float = 10.0  #: seconds that any call may take
    environment: Mapping[str, str] | None = None  #: of the calls; None takes this process's own
    on_call: Callable[[tuple[str, float]], None] | None = None  #: gets each call's (name, seconds)
    history_days: float = 0.0  #: of past runs that the first snapshot reports as ended
    host: str = ""  #: this machine; "" is no controller's
    state_file: Path | None = None  #: of the daemon; an adapter's own files lie in its folder
    limits_file: Path | None = None  #: keeps the site's own limits while ours are outstanding
    limit: LimitKeys = field(default_factory=LimitKeys)


class OfferingSite(Protocol):
    """What the batch system itself says about a site to brokers; any thread may call."""

    def expected_start(self, request: JobRequest) -> float | None:
        """When a job submitted now would start, seconds since the epoch; None if not known.

        JobNotAccepted, with the batch system's message, if the job would be refused or never start.
        """

    def reserve(self, name: str, request: JobRequest, start: float, idle: float) -> None:
        """Reserve processors for the job's account from `start` on; JobNotAccepted if refused.

        The batch system ends the reservation after `idle` seconds without a job in it.
        """

    def release(self, name: str) -> bool:
        """Delete a reservation; False if a job uses it."""

    def schedule(self) -> Sequence[Allocation]:
        """Running jobs until their time limits, and planned starts."""

    def name(self) -> str:
        """Name of the cluster."""

    def processors(self) -> int:
        """All processors of the cluster, down nodes included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """What a batch system says of one job that a snapshot does not hold."""

    number: int | None = None  #: of the job, or of its array; None if not known
    state: str = ""  #: the batch system's word; "" if not known
    is_pending: bool = False  #: whether some of it waits; the next fields are of what waits
    name: str = ""
    qos: str = ""
    reason: str = ""
    meaning: str = ""  #: what the reason means, and what the user can do
    tasks: str = ""  #: pending tasks of an array; "" for another job
    description: JobDescription | None = None  #: what the class rules see of it
    #: Partition -> term of the priority -> points.
    terms: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    unread: tuple[str, ...] = ()  #: queries that failed, in sentences


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDump:
    """Jobs that ended, as accounting printed them."""

    text: str  #: a log that its reader can also read from a file
    lines: int  #: after the header; a job whose text holds line breaks has several
    commands: tuple[str, ...]  #: command lines that print it


class OwnAccounting(Protocol):
    """The batch system's accounting as a log to train on, with shares and billing."""

    def check(self) -> None:
        """Raise ConfigurationError on a host without accounting, before any query."""

    def dump(
        self, since: datetime, until: datetime, progress: Callable[[int, float], None]
    ) -> LogDump:
        """Jobs that ended in a time; `progress` gets the queries done and the lines so far."""

    def queries(self, since: datetime, until: datetime) -> int:
        """Number of queries of a dump."""

    def read(self, dump: LogDump, when: str) -> tuple[JobLog, ReadReport]:
        """The jobs of a dump that ran; AccountingLogError, with the words `when`, for none."""

    def processors(self) -> int:
        """All processors of the cluster, down nodes included."""

    def shares(self, accounts: Sequence[str]) -> dict[str, float] | None:
        """Shares of these accounts, scaled to sum 1; None if none has any."""

    def billing(self) -> Billing:
        """How jobs are billed, by the weights of now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSystemKind:
    """A batch system by name; None means that it cannot. Floats are seconds within which to end."""

    name: str  #: in the configuration and the log
    title: str  #: for people
    adapters: tuple[str, ...]  #: values of [batch_system] adapter
    limits: Mapping[str, tuple[str, ...]]  #: mechanism of [reserve] -> keys that it needs
    limit_resources: frozenset[str]  #: mechanisms that limit more than processors
    job_record: Callable[[int, float], JobRecord]  #: a failed query is reported in the record
    build: Callable[[AdapterParts], BatchSystem]  #: ConfigurationError if no adapter can work here
    #: Which command is missing on this host, "" if none is, by PATH and other variables; these
    #: functions run nothing.
    lacks: Callable[[Mapping[str, str]], str]
    #: Which configuration is missing on this host; "" if none is.
    lacks_configuration: Callable[[Mapping[str, str]], str]
    answers: Callable[[Mapping[str, str], float], bool]
    by_hand: str  #: shell command that ends our order without our program
    offers: Callable[[float, str], OfferingSite] | None = None  #: for an account, "" for any
    accounting: Callable[[float], OwnAccounting] | None = None
    submission: Callable[[Mapping[str, str], float], JobSubmission] | None = None  #: of a user
    machine: Callable[[float], Machine] | None = None  #: nodes, queues, limits and settings
    cluster: Callable[[float], DescribedCluster] | None = None  #: the same as configured
    nodes: Callable[[float], Sequence[NodeNow]] | None = None  #: what is free now
    licences: Callable[[float], Mapping[str, float]] | None = None  #: free ones by name
    bounds_order: bool = True  #: by hours of waiting
