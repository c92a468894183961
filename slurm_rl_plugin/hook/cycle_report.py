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
    """What one cycle saw, decided and wrote, and why it did not where it did not.

    Attributes:
        time: of the snapshot, seconds since the epoch; 0 without one.
        mode: one of MODES.
        policy: name of the policy that decided; in fallback "fifo" or "site".
        model_sha256: of the model that decided; "" for a rule.
        snapshot: the queue as seen; None when the batch system did not answer.
        failure: one of FAILURES, or None when the cycle did what it should.
        failure_reason: one sentence.
        fallback_reason: why the policy was not used; None when it was.
        adjustments: direction -> writes accepted.
        suppressed: reason -> changes not made.
        reserve: processors the decision keeps free of batch work.
        limit: on batch jobs, that the reserve asks for.
        phase_seconds: phase -> duration.
        calls: batch-system calls of this cycle: (call, seconds).
        order: decided order, as places in the snapshot's pending jobs; empty where the site's own
            order is left to stand.
        release: of the batch system; "" if it is unknown.
        events: what had happened to jobs when the cycle began (`SchedulerLoad`).
        submitted: jobs that had been submitted by then (`SchedulerLoad`).
        pass_interval: seconds between the scheduler's own looks at the queue; 0 where unknown.
        disturbances: what happened from outside and was got over, one of DISTURBANCES -> count.
        requests_changed: what jobs ask for otherwise than when they were ranked, one of
            REQUEST_PARTS -> jobs.
        experiment: whose turn it is, where there is one.
        service: of accounts in the last fortnight; None until enough of it has been seen.
        lifts: with which the policy saw the queue.
        of_new_jobs: the cycle only placed new jobs, and knows nothing else of the queue.
        place_seconds: seconds from when each job could start until its first place was written.
        overrunners: users that have lost an interactive class.
    """

    time: float
    mode: str
    policy: str
    model_sha256: str = ""
    snapshot: QueueSnapshot | None = None
    failure: str | None = None
    failure_reason: str | None = None
    fallback_reason: str | None = None
    adjustments: Mapping[str, int] = field(default_factory=dict)
    suppressed: Mapping[str, int] = field(default_factory=dict)
    reserve: int = 0
    limit: LimitReport = field(default_factory=LimitReport)
    phase_seconds: Mapping[str, float] = field(default_factory=dict)
    calls: tuple[tuple[str, float], ...] = ()
    order: Sequence[int] = ()
    release: str = ""
    events: tuple[int, ...] = ()
    submitted: int = 0
    pass_interval: float = 0.0
    disturbances: Mapping[str, int] = field(default_factory=dict)
    requests_changed: Mapping[str, int] = field(default_factory=dict)
    experiment: ExperimentReport = field(default_factory=ExperimentReport)
    service: ServiceSeen | None = None
    lifts: Lifts = field(default_factory=Lifts)
    of_new_jobs: bool = False
    place_seconds: tuple[float, ...] = ()
    overrunners: int = 0

    @property
    def succeeded(self) -> bool:
        """Whether the cycle did all it should, a fallback included."""
        return self.failure is None

    @property
    def misdelivered(self) -> float | None:
        """Part of the last fortnight's service that went to the wrong account.

        None where shares do not count, or too little has been seen.
        """
        counts = self.service is not None and len(self.lifts.accounts) > 0
        return self.service.misdelivered if self.service is not None and counts else None

    @property
    def writes(self) -> int:
        """Writes accepted by the batch system."""
        return sum(self.adjustments.values())
