"""What a site allows a cycle to do, what one cycle saw and did, and the pace of cycles.

Metrics, logs and status are made from nothing else than a `CycleReport`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from slurm_rl_plugin.batch_systems.port import ACCOUNTING_CALLS, SchedulerLoad
from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.domain.goals import AS_TRAINED, Goals
from slurm_rl_plugin.hook.experiment.turns import ExperimentReport
from slurm_rl_plugin.hook.memory.account_service import Lifts, ServiceSeen
from slurm_rl_plugin.hook.rails.reserve import LimitReport

#: Closed lists: a metric's label never takes any other value.
MODES = ("shadow", "active", "fallback", "disabled", "standby")
CONFIGURED_MODES = ("shadow", "active")
PHASES = ("observe", "decide", "order", "apply")
FAILURES = ("batch_system", "write", "internal", "busy", "refused")
DIRECTIONS = ("up", "down", "reset")
SUPPRESSIONS = (
    "held",
    "admin_set",
    "not_eligible",
    "shared",
    "exempt_account",
    "exempt_partition",
    "exempt_qos",
    "write_bound",
    "shadow",
    "rejected",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleReport:
    """What one cycle saw, decided and wrote, and why it did not where it did not."""

    time: float  #: of the snapshot, seconds since the epoch; 0 without one
    mode: str  #: one of MODES
    policy: str  #: that decided; in fallback "fifo" or "site"
    model_sha256: str = ""  #: "" for a rule
    snapshot: QueueSnapshot | None = None  #: None when the batch system did not answer
    failure: str | None = None  #: one of FAILURES; None when the cycle worked
    failure_reason: str | None = None  #: one sentence
    fallback_reason: str | None = None  #: None when the policy was used
    adjustments: Mapping[str, int] = field(default_factory=dict)  #: direction -> accepted writes
    suppressed: Mapping[str, int] = field(default_factory=dict)  #: reason -> changes not made
    reserve: int = 0  #: processors that the decision keeps free of batch work
    limit: LimitReport = field(default_factory=LimitReport)
    phase_seconds: Mapping[str, float] = field(default_factory=dict)
    calls: tuple[tuple[str, float], ...] = ()  #: of the batch system, and seconds of each
    order: Sequence[int] = ()  #: places in the snapshot's pending jobs; empty for the site's order
    release: str = ""  #: of the batch system; "" if unknown
    events: tuple[int, ...] = ()  #: of jobs when the cycle began (`SchedulerLoad`)
    submitted: int = 0  #: jobs by then (`SchedulerLoad`)
    pass_interval: float = 0.0  #: seconds between the scheduler's passes; 0 if unknown
    #: One of DISTURBANCES -> how often; the cycle got over them.
    disturbances: Mapping[str, int] = field(default_factory=dict)
    #: One of REQUEST_PARTS -> jobs that have changed it since they were ranked.
    requests_changed: Mapping[str, int] = field(default_factory=dict)
    experiment: ExperimentReport = field(default_factory=ExperimentReport)
    service: ServiceSeen | None = None  #: in the last fortnight; None until enough is seen
    lifts: Lifts = field(default_factory=Lifts)
    of_new_jobs: bool = False  #: only new jobs were placed; nothing else of the queue is known
    #: From when each job could start until its first place was written.
    place_seconds: tuple[float, ...] = ()
    overrunners: int = 0  #: users that have lost an interactive class

    @property
    def succeeded(self) -> bool:
        """Whether the cycle did all it should, a fallback included."""
        return self.failure is None

    @property
    def misdelivered(self) -> float | None:
        """Part of the last fortnight's service to wrong accounts; None without enough data."""
        counts = self.service is not None and len(self.lifts.accounts) > 0
        return self.service.misdelivered if self.service is not None and counts else None

    @property
    def writes(self) -> int:
        """Writes accepted by the batch system."""
        return sum(self.adjustments.values())


NO_CONTROLLER_HERE = (
    "beside_controllers is set, but slurm.conf names no controller as this host is named: give "
    "SlurmctldHost the name that `hostname -s` says, or run one daemon without beside_controllers."
)
NOBODY_IN_CHARGE = (
    "no controller answered the ping of its own cluster, so it is not known which one is in "
    "charge; check with `scontrol ping`"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleSettings:
    """What the site allows a cycle to do."""

    shadow: bool = True  #: decide, report and audit, but write nothing
    max_writes: int = 2000  #: of one cycle
    #: Hours of age that the first place adds; inf if the daemon's order comes first.
    influence: float = math.inf
    #: If the daemon's order comes first, points of QOS, partition and association still count.
    site_points: bool = True
    inference_deadline: float = 2.0  #: seconds
    fallback: str = "fifo"  #: "fifo" orders by submission, "site" restores the site's order
    breaker_failures: int = 5  #: in a row, after which the policy rests
    #: Cycles; also the cycles without a write after the batch system denied the right to write.
    breaker_rest: int = 10
    #: Each controller's host has a daemon: act only where the controller in charge is here.
    beside_controllers: bool = False
    goals: Goals = AS_TRAINED  #: accounts are lifted where shares count
    #: Group of jobs -> mean wait that it should have, seconds.
    wait_targets: Mapping[str, float] = field(default_factory=dict)


#: Seconds between cheap looks at the batch system while a cycle is not due, at least and at most.
SOONEST_POLL, LATEST_POLL = 0.5, 5.0
#: Seconds between polls of the pending jobs while some are held or not eligible: no counter says
#: when one of them may start.
_LOOK_AT_HELD = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long the daemon waits between two cycles, at least and at most."""

    #: Seconds, whatever happens and whatever calls cost: new jobs have no place meanwhile.
    longest: float
    #: Seconds once the queue has changed; 0 takes half of the scheduler's pass, so that each pass
    #: finds a fresh order.
    soonest: float = 0.0
    #: Part of the time that calls may take; calls that place new jobs may take as much again.
    busy_share: float = 0.1

    def earliest(self, report: CycleReport) -> float:
        """Seconds from the beginning of this cycle in which no other may begin."""
        wanted = self.soonest or report.pass_interval / 2.0
        return min(max(wanted, self.owed(report)), self.longest)

    def air(self, taken: float) -> float:
        """Seconds of pause after a cycle that took so long: a slow batch system is left alone."""
        return taken if taken > self.longest else 0.0

    def poll(self, report: CycleReport) -> float:
        """Seconds between looks whether the queue has changed."""
        return min(max(self.earliest(report) / 4.0, SOONEST_POLL), LATEST_POLL)

    def owed(self, report: CycleReport) -> float:
        """Seconds of pause that a report's calls earn the batch system, 1 / busy_share a second.

        Accounting does not count: it is asked once, and is not the scheduler.
        """
        busy = sum(seconds for call, seconds in report.calls if call not in ACCOUNTING_CALLS)
        return busy / self.busy_share


@dataclass(slots=True)
class NewJobsDue:
    """When to poll for new jobs between two cycles; all times count from the start of a cycle."""

    pace: Pace
    next_look: float  #: seconds after which the daemon may poll for new jobs
    submitted: int  #: jobs until the last poll of the pending jobs
    next_held: float  #: seconds after which the pending jobs are polled in any case
    held: bool  #: jobs are held or not eligible yet

    @classmethod
    def after(cls, report: CycleReport, pace: Pace, waited: float) -> Self:
        """After a cycle, from `waited` on."""
        next_look, next_held = waited + SOONEST_POLL, waited + _LOOK_AT_HELD
        return cls(pace, next_look, report.submitted, next_held, _has_held(report))

    def may_have_come(self, load: SchedulerLoad, waited: float) -> bool:
        """Whether a job has come, or may have become eligible."""
        if waited < self.next_look:
            return False
        return load.submitted != self.submitted or (self.held and waited >= self.next_held)

    def looked(self, report: CycleReport, waited: float) -> None:
        """Take the cost of a poll of the pending jobs."""
        self.submitted, self.held = report.submitted, _has_held(report)
        self.next_look = waited + max(SOONEST_POLL, self.pace.owed(report))
        self.next_held = waited + max(_LOOK_AT_HELD, self.pace.owed(report))


def _has_held(report: CycleReport) -> bool:
    return any(report.suppressed.get(reason) for reason in ("held", "not_eligible"))
