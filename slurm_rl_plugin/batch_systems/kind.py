"""What is known of a batch system by its name, and what it can do beyond the port of the hook.

The configuration and the way out ask for names: nothing here is imported but types.
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

    job_id: int  #: its number
    submitted: float  #: when it could have started first
    started: float
    ended: float  #: NaN while it runs; of a run that never was both are its end
    failed: bool = False  #: whether the site failed it: a node, a launch, a missed deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitCommand:
    """A command that submits, understood as far as it goes."""

    words: tuple[str, ...]  #: behind the program's name, as given
    options: Mapping[str, str]  #: long name -> value, of the words alone
    script: str | None  #: its word; None where it is on standard input, or wrapped
    reads_stdin: bool  #: whether the script would be read from standard input


class JobSubmission(Protocol):
    """Submits to clusters that share one accounting, as the user who asks."""

    @property
    def program(self) -> str:
        """What submits, by its name on the PATH."""

    def command(self, words: Sequence[str]) -> SubmitCommand:
        """Understand a user's words, the program's name first.

        ConfigurationError for another command, and for an option or, later, a line or a value that
        is not understood or binds the job to one place.
        """

    def request(
        self, command: SubmitCommand, script: str, environment: Mapping[str, str], user: str
    ) -> JobRequest:
        """What the command asks for."""

    def submit(self, cluster: str, words: Sequence[str], script: str | None) -> tuple[int, str]:
        """Submit, with a script for standard input if it is read; the job's number, and the words.

        JobNotAccepted, in the batch system's words, where it was surely not submitted;
        SubmissionUnknown where it may have been.
        """

    def ended(
        self, cluster: str, job_ids: Sequence[int], since: float | None = None
    ) -> tuple[list[EndedRun], list[int]]:
        """Which of the jobs run or have run (a requeued one for each start), and which never did.

        With `since` all jobs of this user in the last so many seconds, instead of these.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitKeys:
    """What the site names to carry a limit on batch jobs; each mechanism goes by some of it."""

    mechanism: str | None = None  #: one of `BatchSystemKind.limits`; None for none
    qos: str = ""  #: that batch jobs have
    license: str = ""  #: that batch jobs ask for, one a processor
    reservation: str = ""  #: of ours, that takes licences away from them
    queues: tuple[str, ...] = ()  #: execution queues whose jobs are batch work
    resources: tuple[str, ...] = ()  #: limited beside processors, of BASIC_RESOURCES
    #: False where the configuration is faulty: then the file that remembers a limit counts alone.
    is_known: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterParts:
    """What an adapter is told of the cluster and of the machine that it runs on."""

    adapter: str = "auto"  #: as configured, `auto` or one of `BatchSystemKind.adapters`
    shares: Mapping[str, float] | None  #: scaled to sum 1; None asks the batch system
    classifier: JobClassifier  #: the site's classes of jobs
    clock: Callable[[], float]  #: seconds since the epoch
    timeout: float = 10.0  #: seconds that any call may take
    environment: Mapping[str, str] | None = None  #: of the calls; None takes this process's own
    on_call: Callable[[str, float], None] | None = None  #: told each call's name and seconds
    history_days: float = 0.0  #: of past runs that the first snapshot reports as ended
    host: str = ""  #: this machine; "" is none of the controllers'
    state_file: Path | None = None  #: of the daemon; an adapter's own files lie beside it
    limits_file: Path | None = None  #: keeps the site's own limits while ours stand
    limit: LimitKeys = field(default_factory=LimitKeys)  #: what carries a limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """What of a batch system is on this host; nothing is run to see it."""

    is_here: bool  #: whether its commands are
    sign: str  #: by what that is seen
    lacks: str  #: what is missing where it is not here, in words behind "no OpenPBS is here"
    is_configured: bool  #: whether a configuration of it is here
    lacks_configuration: str  #: which is missing otherwise


class OfferingSite(Protocol):
    """What brokers are told of a site, by the batch system itself; any thread may ask."""

    def expected_start(self, request: JobRequest) -> float | None:
        """When a job submitted now would start, seconds since the epoch; None if not known.

        JobNotAccepted, in the batch system's words, where it would not be taken or never start.
        """

    def reserve(self, name: str, request: JobRequest, start: float, idle: float) -> None:
        """Reserve processors for the account of a job, from `start` on; JobNotAccepted if refused.

        The batch system itself ends the reservation where no job uses it for `idle` seconds.
        """

    def release(self, name: str) -> bool:
        """Take a reservation back; False where a job uses it."""

    def schedule(self) -> Sequence[Allocation]:
        """What runs until its time limit, and what is planned."""

    def name(self) -> str:
        """Of the cluster."""

    def processors(self) -> int:
        """All of the cluster's, those of nodes that are down as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """What a batch system says of one job in words and terms that a snapshot does not hold."""

    number: int | None = None  #: of the job, or of its array; None where it is not known
    state: str = ""  #: in the batch system's word; "" where it is not known
    is_pending: bool = False  #: whether some of it waits
    name: str = ""  #: of what waits, as the next three
    qos: str = ""
    reason: str = ""
    meaning: str = ""  #: what the reason means, and what the user can do
    tasks: str = ""  #: which of an array wait; "" for a job that is none
    description: JobDescription | None = None  #: what the class rules see of it
    #: Partition -> term of the priority -> points.
    terms: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    unread: tuple[str, ...] = ()  #: what could not be asked, in sentences


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDump:
    """Jobs that ended, as accounting printed them."""

    text: str  #: a log that its reader reads from a file too
    lines: int  #: below its header; a job whose text holds line breaks has several
    commands: tuple[str, ...]  #: the command lines that gave it


class OwnAccounting(Protocol):
    """The batch system's accounting as a log to train on, with what a log needs beside jobs."""

    def check(self) -> None:
        """Raise ConfigurationError on a host that has none, before anything is asked."""

    def dump(
        self, since: datetime, until: datetime, progress: Callable[[int, float], None]
    ) -> LogDump:
        """Jobs that ended in a time; `progress` is told the queries done and the lines so far."""

    def queries(self, since: datetime, until: datetime) -> int:
        """How many a dump of that time takes."""

    def read(self, dump: LogDump, when: str) -> tuple[JobLog, ReadReport]:
        """The jobs of a dump that ran; AccountingLogError, with the words `when`, for none."""

    def processors(self) -> int:
        """All processors of the cluster, those of nodes that are down as well."""

    def shares(self, accounts: Sequence[str]) -> dict[str, float] | None:
        """Shares of these accounts, sum 1, unused ones given to others; None where none has any."""

    def billing(self) -> Billing:
        """What jobs are billed by the weights of now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSystemKind:
    """A batch system by name; what is None it cannot do. A call ends within the seconds given."""

    name: str  #: as the configuration and the log call it
    title: str  #: as people do
    adapters: tuple[str, ...]  #: names that [batch_system] adapter may have
    limits: Mapping[str, tuple[str, ...]]  #: mechanism of [reserve] -> keys that it needs
    limit_resources: frozenset[str]  #: mechanisms that limit more than processors
    job_record: Callable[[int, float], JobRecord]  #: what fails is told in the record
    build: Callable[[AdapterParts], BatchSystem]  #: ConfigurationError where none can work here
    presence: Callable[[Mapping[str, str]], Presence]  #: by PATH and other variables
    answers: Callable[[Mapping[str, str], float], bool]  #: in so many seconds
    by_hand: str  #: for a shell: puts our order out of force without our program
    offers: Callable[[float, str], OfferingSite] | None = None  #: for an account, "" for any
    accounting: Callable[[float], OwnAccounting] | None = None
    submission: Callable[[Mapping[str, str], float], JobSubmission] | None = None  #: of a user
    machine: Callable[[float], Machine] | None = None  #: nodes, queues, limits and settings
    cluster: Callable[[float], DescribedCluster] | None = None  #: the same as it is said
    nodes: Callable[[float], Sequence[NodeNow]] | None = None  #: what is free now
    licences: Callable[[float], Mapping[str, float]] | None = None  #: how many of each are free
    bounds_order: bool = True  #: by hours of waiting
