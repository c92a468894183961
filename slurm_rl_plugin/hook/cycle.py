"""One scheduling cycle: observe, decide, guard, order changes, apply, report."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from slurm_rl_plugin.batch_systems.port import ApplyReport, BatchSystem, FactorChange
from slurm_rl_plugin.domain import Decision, QueueSnapshot
from slurm_rl_plugin.errors import (
    BatchSystemError,
    ChangeRejected,
    SlurmRLError,
)
from slurm_rl_plugin.hook.audit_log import AuditLog, DecidedOrder
from slurm_rl_plugin.hook.carried_factors import CarriedFactors
from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.hook.guard_rails import GuardRail, UntouchedJobs
from slurm_rl_plugin.hook.memory_file import MemoryFile, memory_path
from slurm_rl_plugin.hook.policy_guard import PolicyGuard
from slurm_rl_plugin.hook.queue_plan import QueuePlan, planned_order
from slurm_rl_plugin.hook.state_file import StateFile
from slurm_rl_plugin.policies.port import Policy

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleSettings:
    """What the site allows a cycle to do.

    Attributes:
        shadow: decide, report and audit, but write nothing.
        max_writes: most factors written in one cycle.
        inference_deadline: seconds that a decision may take.
        fallback: "fifo" orders by submission, "site" takes our factors back.
        breaker_failures: policy failures in a row after which the policy rests.
        breaker_rest: cycles that it rests.
    """

    shadow: bool = True
    max_writes: int = 2000
    inference_deadline: float = 2.0
    fallback: str = "fifo"
    breaker_failures: int = 5
    breaker_rest: int = 10


def in_safe_order(changes: Sequence[FactorChange]) -> list[FactorChange]:
    """Changes so that no two jobs pass each other on the way: Slurm may start a job in between.

    Jobs that rise go first, the highest foremost; then those that sink, the lowest foremost.

    Args:
        changes: the highest placed first.
    """
    rising = [change for change in changes if change.new >= change.old]
    sinking = [change for change in changes if change.new < change.old]
    return rising + sinking[::-1]


@dataclass(slots=True)
class _Stopwatch:
    """Seconds spent in each phase of one cycle."""

    clock: Callable[[], float]
    phases: dict[str, float] = field(default_factory=dict)

    def lap(self, phase: str, since: float) -> float:
        now = self.clock()
        self.phases[phase] = max(now - since, 0.0)  # clocks may be set back
        return now


@dataclass(slots=True, kw_only=True)
class Cycle:
    """Runs cycles.

    Attributes:
        batch_system: where jobs are read and ordered.
        policy: who scores them.
        model_sha256: of the policy's model; "" for a rule.
        settings: what the site allows.
        guard_rails: checks on each decision.
        untouched: jobs that never get a factor.
        state: where the jobs with factors are remembered; the policy's memory lies beside it.
        audit: where decisions and writes are recorded.
        monotonic: clock for durations, seconds.
        calls: seconds of batch-system calls, filled by the adapter, emptied by each report.
    """

    batch_system: BatchSystem
    policy: Policy
    model_sha256: str
    settings: CycleSettings
    guard_rails: Sequence[GuardRail]
    untouched: UntouchedJobs
    state: StateFile
    audit: AuditLog
    monotonic: Callable[[], float]
    calls: list[tuple[str, float]] = field(default_factory=list)
    _factors: CarriedFactors = field(init=False)
    _guard: PolicyGuard = field(init=False)

    def __post_init__(self) -> None:
        self._factors = CarriedFactors(self.state)
        self._guard = self._new_guard()

    def _new_guard(self, *, read_only: bool = False) -> PolicyGuard:
        return PolicyGuard(
            guard_rails=self.guard_rails,
            deadline=self.settings.inference_deadline,
            breaker_failures=self.settings.breaker_failures,
            breaker_rest=self.settings.breaker_rest,
            monotonic=self.monotonic,
            memory_file=MemoryFile(
                path=memory_path(self.state.path),
                model_sha256=self.model_sha256,
                read_only=read_only,
            ),
        )

    def run(self) -> CycleReport:
        """One cycle; never raises for a fault of the batch system, the policy or a file."""
        watch = _Stopwatch(self.monotonic)
        snapshot: QueueSnapshot | None = None
        try:
            begin = self.monotonic()
            snapshot = self.batch_system.snapshot()
            watch.lap("observe", begin)
            report = self._order(snapshot, watch)
        except ChangeRejected as error:
            report = self._failed("write", error, snapshot)
        except BatchSystemError as error:
            report = self._failed("batch_system", error, snapshot)
        except SlurmRLError as error:
            report = self._failed("write", error, snapshot)
        except Exception as error:  # whatever breaks, slurmctld must not notice
            logger.exception("cycle=failed failure=internal")
            report = self._failed("internal", error, snapshot)
        report = replace(report, phase_seconds=watch.phases, calls=tuple(self.calls))
        self.calls.clear()
        return report

    def release(self) -> ApplyReport:
        """Take back every factor of ours.

        Raises:
            BatchSystemUnavailable: no answer in time; call again.
        """
        return self._factors.release(self.batch_system)

    @property
    def carries_factors(self) -> bool:
        """Whether some job may carry a factor of ours."""
        return bool(self._factors)

    def _failed(
        self, failure: str, error: Exception, snapshot: QueueSnapshot | None
    ) -> CycleReport:
        logger.error("cycle=failed failure=%s reason=%s", failure, error)
        return CycleReport(
            time=snapshot.now if snapshot else 0.0,
            mode="shadow" if self.settings.shadow else "active",
            policy=self.policy.name,
            model_sha256=self.model_sha256,
            snapshot=snapshot,
            failure=failure,
            failure_reason=str(error),
        )

    def _order(self, snapshot: QueueSnapshot, watch: _Stopwatch) -> CycleReport:
        begin = self.monotonic()
        decision, fallback_reason = self._guard.decide(self.policy, snapshot)
        begin = watch.lap("decide", begin)
        suppressed = Counter(
            {
                reason: int(np.count_nonzero(matches))
                for reason, matches in self.untouched.reasons(snapshot).items()
            }
        )
        plan = self._plan(snapshot, decision, fallback_reason)
        suppressed["write_bound"] = max(len(plan.changes) - self.settings.max_writes, 0)
        changes = plan.changes[: self.settings.max_writes]
        begin = watch.lap("order", begin)
        report = CycleReport(
            time=snapshot.now,
            mode=self._mode(fallback_reason),
            policy=self.policy.name if fallback_reason is None else self.settings.fallback,
            model_sha256=self.model_sha256,
            snapshot=snapshot,
            fallback_reason=fallback_reason,
            reserve=decision.reserve,
            order_length=len(plan.order),
        )
        self._audit(report, plan, changes)
        if self.settings.shadow:
            suppressed["shadow"] = len(changes)
            return replace(report, suppressed=suppressed)
        report = self._apply(report, plan, changes, suppressed)
        watch.lap("apply", begin)
        return report

    def look(self) -> QueuePlan:
        """What a cycle would decide now; nothing is written, audited or remembered.

        Raises:
            BatchSystemError: the queue cannot be read.
        """
        snapshot = self.batch_system.snapshot()
        guard = self._new_guard(read_only=True)
        remembered = guard.memory
        decision, fallback_reason = guard.decide(self.policy, snapshot)
        return replace(self._plan(snapshot, decision, fallback_reason), memory=remembered)

    def _plan(
        self, snapshot: QueueSnapshot, decision: Decision, fallback_reason: str | None
    ) -> QueuePlan:
        order, changes = planned_order(snapshot, decision.scores, self.untouched)
        releases = fallback_reason is not None and self.settings.fallback == "site"
        return QueuePlan(
            snapshot=snapshot,
            decision=decision,
            fallback_reason=fallback_reason,
            order=order,
            changes=[] if releases else changes,
            releases=releases,
        )

    def _mode(self, fallback_reason: str | None) -> str:
        if self.settings.shadow:
            return "shadow"
        return "active" if fallback_reason is None else "fallback"

    def _audit(
        self,
        report: CycleReport,
        plan: QueuePlan,
        changes: Sequence[FactorChange],
    ) -> None:
        snapshot, order = plan.snapshot, plan.order
        decided = DecidedOrder(
            time=snapshot.now,
            mode=report.mode,
            policy=report.policy,
            model_sha256=report.model_sha256,
            reason=report.fallback_reason or "policy",
            job_ids=snapshot.pending.jobs.job_id[order].tolist(),
            scores=plan.decision.scores[order],
        )
        self.audit.record(decided, changes, "would_write" if self.settings.shadow else "write")

    def _apply(
        self,
        report: CycleReport,
        plan: QueuePlan,
        changes: Sequence[FactorChange],
        suppressed: Counter[str],
    ) -> CycleReport:
        adjustments: Counter[str] = Counter()
        if plan.releases:
            adjustments["reset"] = self.release().applied
            return replace(report, adjustments=adjustments, suppressed=suppressed)
        self._factors.before_writing(plan.snapshot, (change.job_id for change in changes))
        if changes:
            result = self.batch_system.apply(in_safe_order(changes))
            suppressed["rejected"] = len(result.rejected)
            for change in changes:
                if change.job_id not in result.rejected:
                    adjustments["up" if change.new > change.old else "down"] += 1
        return replace(report, adjustments=adjustments, suppressed=suppressed)
