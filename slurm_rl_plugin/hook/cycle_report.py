"""What one cycle saw and did: the only thing that metrics, logs and status are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slurm_rl_plugin.domain import QueueSnapshot
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
