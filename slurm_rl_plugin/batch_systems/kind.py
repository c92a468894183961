"""What a batch system is called and can do beyond the port of the hook.

The configuration and `slurm-rl release` ask for names, so nothing is imported here but types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from slurm_rl_plugin.accounting.port import JobLog, ReadReport
    from slurm_rl_plugin.batch_systems.port import BatchSystem
    from slurm_rl_plugin.domain.billing import Billing
    from slurm_rl_plugin.domain.job_class import JobClassifier, JobDescription
    from slurm_rl_plugin.domain.machine import Machine
    from slurm_rl_plugin.domain.nodes import NodeNow
    from slurm_rl_plugin.domain.site import Allocation, JobRequest
    from slurm_rl_plugin.machine_files.reader import DescribedCluster


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
    on_call: Callable[[str, float], None] | None = None  #: gets each call's name and seconds
    history_days: float = 0.0  #: of past runs that the first snapshot reports as ended
    host: str = ""  #: this machine; "" is no controller's
    state_file: Path | None = None  #: of the daemon; an adapter's own files lie in its folder
    limits_file: Path | None = None  #: keeps the site's own limits while ours are outstanding
    limit: LimitKeys = field(default_factory=LimitKeys)


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """What of a batch system is on this host, found without running anything."""

    is_here: bool  #: whether its commands are
    sign: str  #: what shows that they are
    lacks: str  #: what is missing if they are not, as in "no OpenPBS is here (no scontrol)"
    is_configured: bool
    lacks_configuration: str  #: the missing configuration


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
    presence: Callable[[Mapping[str, str]], Presence]  #: from PATH and other variables
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
