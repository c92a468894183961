"""One scheduling cycle: observe, decide, guard, order changes, apply, report."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

import numpy as np

from slurm_rl_plugin.batch_systems.port import (
    ApplyReport,
    BatchSystem,
    FactorChange,
    ListsPending,
    SchedulerFacts,
    SchedulerLoad,
    WatchesJobs,
)
from slurm_rl_plugin.domain import Decision, QueueSnapshot
from slurm_rl_plugin.domain.request_watch import ChangedRequests, RequestWatch
from slurm_rl_plugin.errors import (
    BatchSystemError,
    BatchSystemUnavailable,
    ChangeRejected,
    SlurmRLError,
)
from slurm_rl_plugin.hook.audit.log import AuditLog, decided_order
from slurm_rl_plugin.hook.cycle.in_charge import Charge
from slurm_rl_plugin.hook.cycle.settings import CycleSettings
from slurm_rl_plugin.hook.cycle_report import CycleReport
from slurm_rl_plugin.hook.disturbances import (
    FOUND,
    AccountingWatch,
    Disturbances,
    WrittenFactors,
)
from slurm_rl_plugin.hook.memory.account_service import AccountService, service_path
from slurm_rl_plugin.hook.memory.carried_factors import CarriedFactors
from slurm_rl_plugin.hook.memory.policy_memory import MemoryFile, memory_path
from slurm_rl_plugin.hook.memory.state_file import StateFile
from slurm_rl_plugin.hook.order.order_changes import in_safe_order
from slurm_rl_plugin.hook.order.own_nice import OwnNice, own_nice_path
from slurm_rl_plugin.hook.order.queue_plan import QueuePlan, planned_order
from slurm_rl_plugin.hook.order.said_order import SaidOrder
from slurm_rl_plugin.hook.outstanding import Outstanding, outstanding_at, restore_all
from slurm_rl_plugin.hook.rails.batch_limit import BatchLimit
from slurm_rl_plugin.hook.rails.claims import counted_classes
from slurm_rl_plugin.hook.rails.guard_rails import GuardRail, UntouchedJobs
from slurm_rl_plugin.hook.rails.policy_guard import PolicyGuard
from slurm_rl_plugin.policies.port import Policy
from slurm_rl_plugin.units import BoolArray

logger = logging.getLogger(__name__)
#: Changes sent in one call, and seconds of calls after which the rest waits for the next cycle:
#: jobs that come meanwhile have no place.
WRITES_AT_ONCE, LONGEST_WRITING = 250, 2.0


@dataclass(slots=True)
class Stopwatch:
    """Seconds spent in each phase of one cycle.

    Attributes:
        clock: seconds.
        phases: phase -> seconds.
    """

    clock: Callable[[], float]
    phases: dict[str, float] = field(default_factory=dict)

    def lap(self, phase: str, since: float) -> float:
        """End a phase that began at `since`; returns the time now."""
        now = self.clock()
        self.phases[phase] = max(now - since, 0.0)  # clocks may be set back
        return now


@dataclass(frozen=True, slots=True)
class _Sent:
    """What became of the writes of a cycle.

    Attributes:
        jobs: those whose change was sent, whether accepted or refused.
        directions: direction -> writes accepted.
        suppressed: reason -> changes not made.
    """

    jobs: frozenset[int] = frozenset()
    directions: Counter[str] = field(default_factory=Counter)
    suppressed: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True, kw_only=True)
class Cycle:
    """One scheduling cycle after another: snapshot, decision, guard rails, writes, report.

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
        limit: on batch jobs, so that processors stay free for interactive ones.
        calls: seconds of batch-system calls, filled by the adapter, emptied by each report.
        left_to_site: nothing is written though the mode be active: it is the site's turn.
        candidate: of an experiment, while it decides; "" for the model that is configured.
        configured: name and checksum of that model, whichever decides.
        stood_by: whether the last cycle that Slurm answered was another host's to do.
        disturbances: what happened from outside, emptied by each report.
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
    limit: BatchLimit = field(default_factory=BatchLimit)
    calls: list[tuple[str, float]] = field(default_factory=list)
    left_to_site: bool = False
    candidate: str = ""
    configured: tuple[str, str] = field(init=False)
    stood_by: bool = False
    disturbances: Disturbances = field(default_factory=Disturbances)
    _accounting: AccountingWatch = field(default_factory=AccountingWatch)
    _written: WrittenFactors = field(default_factory=WrittenFactors)
    _requests: RequestWatch = field(default_factory=RequestWatch)
    _service: AccountService = field(init=False)
    _own_nice: OwnNice = field(init=False)
    _factors: CarriedFactors = field(init=False)
    _guard: PolicyGuard = field(init=False)
    _denied: int = 0
    #: Writes that fit into LONGEST_WRITING, as the last long writing went.
    _in_time: float = math.inf
    #: Time of the last snapshot by whose decision places were written.
    _seen_at: float = math.inf
    _unaudited: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._factors = CarriedFactors(self.state, self.disturbances)
        self._service = self._new_service()
        self._own_nice = OwnNice(path=own_nice_path(self.state.path))
        self.configured = self.policy.name, self.model_sha256
        self._guard = self._new_guard()

    def change_policy(
        self, policy: Policy, model_sha256: str, *, candidate: str, past_days: float
    ) -> None:
        """Let another policy decide; it goes on from its own memory file.

        Args:
            policy: that decides from now on.
            model_sha256: of its model; "" for a rule.
            candidate: as `self.candidate`.
            past_days: days of accounting from which it reads past runs again; 0 for none.
        """
        self.remember()
        self.policy, self.model_sha256, self.candidate = policy, model_sha256, candidate
        self._guard = self._new_guard()
        if past_days and isinstance(self.batch_system, WatchesJobs):
            self.batch_system.tell_past(past_days)

    def _new_guard(self, *, read_only: bool = False) -> PolicyGuard:
        path = memory_path(self.state.path, of_candidate=bool(self.candidate))
        file = MemoryFile(path=path, model_sha256=self.model_sha256, read_only=read_only)
        return self.settings.guard(self.guard_rails, self.monotonic, file)

    def _new_service(self) -> AccountService:
        return AccountService(
            path=service_path(self.state.path),
            goals=self.settings.goals,
            wait_targets=self.settings.wait_targets,
            counts_overruns=self.limit.rail is not None,
        )

    def run(self, *, new_jobs: bool = False) -> CycleReport:
        """One cycle; never raises for a fault of the batch system, the policy or a file.

        Args:
            new_jobs: read only the pending jobs, and write the places of those that had none.
        """
        watch = Stopwatch(self.monotonic)
        snapshot: QueueSnapshot | None = None
        facts: SchedulerFacts | None = None
        load: SchedulerLoad | None = None
        ours = not self.settings.beside_controllers
        self._denied = max(self._denied - 1, 0)
        try:
            begin = self.monotonic()
            facts = self.batch_system.facts()
            obstacle = self._standby(facts)
            if obstacle is None:  # on standby we query nothing further
                ours = self._charge.fault(facts) is None
                load = self.batch_system.load()
                if not new_jobs:  # a backlog is judged over cycles, not over seconds
                    self._accounting.look(load.backlog, self.disturbances)
                obstacle = self._obstacle(facts, load)
            if obstacle is None:
                snapshot = self._classed(self._read(new_jobs=new_jobs), self._service)
                watch.lap("observe", begin)
                if not self._shadow:
                    self._written.look(snapshot, self.disturbances)
                order = self._place_new_jobs if new_jobs else self._order
                report = order(snapshot, facts, watch)
            else:
                report = obstacle
        except ChangeRejected as error:
            self._denied = self.settings.breaker_rest
            report = self._failed("write", str(error), snapshot)
        except BatchSystemError as error:
            ours = ours and not isinstance(error, BatchSystemUnavailable)
            report = self._failed("batch_system", str(error), snapshot)
        except SlurmRLError as error:
            report = self._failed("write", str(error), snapshot)
        except Exception as error:  # whatever breaks, the site must not notice
            logger.exception("cycle=failed failure=internal")
            report = self._failed("internal", str(error), snapshot)
        if ours and report.failure not in (None, "busy") and not new_jobs:
            # Slurm is up but we cannot follow the queue: a job could starve behind our limit.
            report = replace(report, limit=self.limit.lift(self.batch_system))
        calls = tuple(self.calls)
        self.calls.clear()
        return replace(
            report,
            of_new_jobs=new_jobs,
            phase_seconds=watch.phases,
            pass_interval=facts.pass_interval if facts else report.pass_interval,
            release=facts.release if facts else report.release,
            events=load.events if load else report.events,
            submitted=load.submitted if load else report.submitted,
            calls=calls,
            disturbances=self.disturbances.taken(),
        )

    def _read(self, *, new_jobs: bool) -> QueueSnapshot:
        if new_jobs and isinstance(self.batch_system, ListsPending):
            return self.batch_system.pending_now()
        return self.batch_system.snapshot()

    def _classed(self, snapshot: QueueSnapshot, service: AccountService) -> QueueSnapshot:
        """The queue with classes as they count where processors are kept free."""
        rail = self.limit.rail
        if rail is None:
            return snapshot
        return counted_classes(snapshot, rail.settings, service.overruns(snapshot))

    def _standby(self, facts: SchedulerFacts) -> CycleReport | None:
        """The report of a cycle that is another host's to do, or None."""
        if not self._charge.is_anothers(facts):
            if self.stood_by:
                self.stood_by = False
                self._guard.begin_anew()  # with what the other daemon remembers
                self._service = self._new_service()
                self._own_nice = OwnNice(path=own_nice_path(self.state.path))
            return None
        self.stood_by = True
        self._written.forget()  # the other writes them now
        self._requests.forget()
        logger.info("mode=standby: another host's controller is in charge")
        return replace(self._report(), mode="standby")

    def _obstacle(self, facts: SchedulerFacts, load: SchedulerLoad) -> CycleReport | None:
        """The report of a cycle that should do nothing, or None."""
        if load.struggles is not None:
            return self._failed("busy", load.struggles, None)
        harm = self._charge.harm(facts)
        if harm is not None and not self.writes_nothing:
            return self._failed("refused", harm, None)
        return None

    def release(self) -> ApplyReport:
        """Restore all that is outstanding in the batch system: the limit on batch jobs, factors.

        Raises:
            BatchSystemUnavailable: no answer in time; call again.
        """
        self._written.forget()
        return restore_all(self._outstanding, self.batch_system)

    def look_back(self) -> None:
        """Tell of factors that an earlier run left, which this one goes on with.

        Beside several controllers they may be those of a daemon that runs.
        """
        if self.has_outstanding and not self.settings.beside_controllers:
            self.disturbances.tell(FOUND, "an earlier run has not taken its factors back")

    def remember(self) -> None:
        """Write down what policy and accounts' service remember, before a stop or a reload.

        On standby another host's daemon does.
        """
        if not self.stood_by:
            self._guard.remember()
            self._service.keep(0.0)
            self._own_nice.keep()

    def stands_by(self) -> bool:
        """Whether the factors are those of a daemon on another host.

        Raises:
            BatchSystemUnavailable: no answer in time: it cannot be told.
        """
        return self.settings.beside_controllers and self._charge.is_anothers(
            self.batch_system.facts()
        )

    @property
    def has_outstanding(self) -> bool:
        """Whether anything of ours may be outstanding in the batch system."""
        return any(entry.is_outstanding() for entry in self._outstanding)

    @property
    def _outstanding(self) -> tuple[Outstanding, ...]:
        """The list, with what this process remembers."""
        return outstanding_at(self.state.path, limit=self.limit, factors=self._factors)

    @property
    def _charge(self) -> Charge:
        return Charge(self.settings.beside_controllers)

    @property
    def _shadow(self) -> bool:
        """Whether nothing is written: as configured, or since the right was denied."""
        return self.writes_nothing or self._denied > 0

    @property
    def writes_nothing(self) -> bool:
        """Whether nothing may carry a factor of ours."""
        return self.settings.shadow or self.left_to_site

    def _report(self) -> CycleReport:
        return CycleReport(
            time=0.0,
            mode="shadow" if self._shadow else "active",
            policy=self.policy.name,
            model_sha256=self.model_sha256,
        )

    def _failed(self, failure: str, reason: str, snapshot: QueueSnapshot | None) -> CycleReport:
        logger.error("cycle=failed failure=%s reason=%s", failure, reason)
        self._unaudited = [*self._unaudited[-999:], failure]
        return replace(
            self._report(),
            time=snapshot.now if snapshot else 0.0,
            snapshot=snapshot,
            failure=failure,
            failure_reason=reason,
        )

    def _place_new_jobs(
        self, snapshot: QueueSnapshot, facts: SchedulerFacts, watch: Stopwatch
    ) -> CycleReport:
        """Write the places of jobs that had none, or had theirs for another request."""
        requests = self._requests.compare(snapshot, self.untouched.orderable(snapshot))
        suppressed = self._suppressed(snapshot)
        report = replace(self._report(), time=snapshot.now, suppressed=suppressed)
        if requests.first is None or not requests.first.any():
            return report
        begin = self.monotonic()
        seen = self._service.lifts(snapshot).seen(snapshot)
        decision, fallback_reason = self._guard.decide(self.policy, snapshot, seen, remembers=False)
        begin = watch.lap("decide", begin)
        if fallback_reason is not None:
            return report
        plan = self._planned(snapshot, facts, decision, None, requests, most=0)
        changes = _first_changes(plan, requests)[: self.settings.max_writes]
        begin = watch.lap("order", begin)
        decided = decided_order(replace(report, snapshot=snapshot), plan, self._guard.acted, ())
        self.audit.record(decided, changes, "write", None, requests.changes, whole=False)
        sent = self._write(plan, changes, requests)
        watch.lap("apply", begin)
        return replace(
            report,
            adjustments=sent.directions,
            suppressed=suppressed + sent.suppressed,
            requests_changed=requests.parts,
            place_seconds=self._placed(plan, requests, sent, watch),
        )

    def _order(
        self, snapshot: QueueSnapshot, facts: SchedulerFacts, watch: Stopwatch
    ) -> CycleReport:
        begin = self.monotonic()
        service = self._service.look(snapshot, sites_turn=self.left_to_site)
        lifts = self._service.lifts(snapshot)
        decision, fallback_reason = self._guard.decide(self.policy, snapshot, lifts.seen(snapshot))
        begin = watch.lap("decide", begin)
        suppressed = self._suppressed(snapshot)
        requests = self._requests.compare(snapshot, self.untouched.orderable(snapshot))
        most = int(min(self.settings.max_writes, self._in_time))
        plan = self._planned(snapshot, facts, decision, fallback_reason, requests, most=most)
        self._own_nice.keep()
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
            reserve=decision.reserve or 0,
            limit=plan.limit,
            order=() if plan.releases else plan.order,
            requests_changed=requests.parts,
            service=service,
            lifts=lifts,
            overrunners=self._service.overrunners,
        )
        what = "would_write" if self._shadow else "write"
        decided = decided_order(report, plan, self._guard.acted, self._unaudited)
        self.audit.record(decided, changes, what, plan.limit, requests.changes)
        self._unaudited = []
        if self._shadow:
            if self.writes_nothing:  # else the right was denied, and the place is still to be lost
                self._requests.commit()
            suppressed["shadow"] = len(changes)
            limit = self.limit.only_shown(self.batch_system, plan.limit)
            return replace(report, suppressed=suppressed, limit=limit)
        sent = self._write(plan, changes, requests)
        limit = self.limit.carry_out(self.batch_system, plan.limit)
        watch.lap("apply", begin)
        return replace(
            report,
            adjustments=sent.directions,
            suppressed=suppressed + sent.suppressed,
            limit=limit,
            place_seconds=self._placed(plan, requests, sent, watch),
        )

    def _suppressed(self, snapshot: QueueSnapshot) -> Counter[str]:
        """Reason -> pending jobs that get no factor."""
        reasons = self.untouched.reasons(snapshot).items()
        return Counter({reason: int(np.count_nonzero(matches)) for reason, matches in reasons})

    def _planned(
        self,
        snapshot: QueueSnapshot,
        facts: SchedulerFacts,
        decision: Decision,
        fallback_reason: str | None,
        requests: ChangedRequests,
        most: int,
    ) -> QueuePlan:
        """The order, the writes and the limit that a decision asks for.

        Args:
            snapshot: the queue.
            facts: of the scheduler.
            decision: as the guard rails left it.
            fallback_reason: why the policy is not used; None when it is.
            requests: what ranked jobs have changed since they were ordered.
            most: writes that may be sent of this plan; 0 for the fewest that give the order.
        """
        order, changes = planned_order(
            snapshot,
            decision.scores,
            self.untouched,
            self._influence(facts),
            facts.highest_priority,
            most,
            requests.lost,
            requests.new,
            self._said(snapshot, facts, decision),
        )
        releases = fallback_reason is not None and self.settings.fallback == "site"
        return QueuePlan(
            snapshot=snapshot,
            decision=decision,
            fallback_reason=fallback_reason,
            order=order,
            changes=[] if releases else changes,
            releases=releases,
            limit=self.limit.planned(
                snapshot, decision.reserve or 0, fallback=fallback_reason is not None
            ),
        )

    def _said(
        self, snapshot: QueueSnapshot, facts: SchedulerFacts, decision: Decision
    ) -> SaidOrder:
        """What site and users said of the order; a bounded order leaves the site's points as is."""
        is_full = self.settings.site_points and math.isinf(self._influence(facts))
        return SaidOrder(
            span=facts.replaced_points if is_full else None,
            nice=self._own_nice.look(snapshot),
            steps=decision.steps,
            kept=decision.kept,
        )

    def _influence(self, facts: SchedulerFacts) -> float:
        """Priority points that the first place is worth; inf if our order wins."""
        if facts.traits.no_influence is not None or math.isinf(self.settings.influence):
            return math.inf
        return self.settings.influence * facts.points_an_hour

    def _write(
        self, plan: QueuePlan, changes: Sequence[FactorChange], requests: ChangedRequests
    ) -> _Sent:
        """Remember the jobs, then send the writes of a plan, or restore every factor.

        Args:
            plan: what was decided.
            changes: those of its changes that may be sent in this cycle.
            requests: whose changes are sent before all others.

        Raises:
            BatchSystemUnavailable: no answer in time.
            ConfigurationError: the state file cannot be written; nothing was sent.
        """
        if plan.releases:
            # every job that carries a factor, also those of an earlier run
            self._factors.before_writing(plan.snapshot, ())
            self._written.forget()  # before: a release may be cut short
            reset = self._factors.restore(self.batch_system).applied
            return _Sent(directions=Counter(reset=reset))
        self._factors.before_writing(plan.snapshot, (change.job_id for change in changes))
        if not changes:
            return _Sent()
        self._written.about_to_write({change.job_id: change.new for change in changes})
        try:
            result = self._apply(_in_turn(plan, changes, requests))
        except BatchSystemUnavailable:
            self._factors.without_answer()
            raise
        self._factors.answered()
        accepted = [change for change in changes if change.job_id in result.accepted]
        self._written.written({change.job_id: change.new for change in accepted})
        for job, words in list(result.rejected.items())[:1]:
            logger.info("rejected=%d first=%d reason=%s", len(result.rejected), job, words)
        return _Sent(
            result.accepted.union(result.rejected),
            Counter("up" if change.new > change.old else "down" for change in accepted),
            Counter(
                rejected=len(result.rejected),
                write_bound=len(changes) - len(accepted) - len(result.rejected),
            ),
        )

    def _apply(self, changes: Sequence[FactorChange]) -> ApplyReport:
        """Send changes in small calls, until all are sent or it has taken long enough."""
        report, begin = ApplyReport(), self.monotonic()
        for place in range(0, len(changes), WRITES_AT_ONCE):
            try:
                report |= self.batch_system.apply(changes[place : place + WRITES_AT_ONCE])
            except ChangeRejected:
                if not report.accepted:
                    raise
                break  # jobs of this call are refused, and the right is not missing
            taken = self.monotonic() - begin
            if len(changes) >= WRITES_AT_ONCE:
                sent = place + WRITES_AT_ONCE
                self._in_time = max(sent * LONGEST_WRITING / max(taken, 1e-3), WRITES_AT_ONCE)
            if taken >= LONGEST_WRITING:
                break
        return report

    def _placed(
        self, plan: QueuePlan, requests: ChangedRequests, sent: _Sent, watch: Stopwatch
    ) -> tuple[float, ...]:
        """Remember by which requests jobs got their places.

        Returns:
            Seconds from when each new job could start until now, its place being written.
        """
        jobs, before = plan.snapshot.pending.jobs, self._requests.left
        left = {change.job_id for change in _first_changes(plan, requests)} - sent.jobs
        self._requests.commit(frozenset(left))
        since, self._seen_at = self._seen_at, plan.snapshot.now
        if requests.new is None:
            return ()
        came = jobs.eligible >= math.floor(since)  # others were held, and for how long?
        came |= np.isin(jobs.job_id, list(before))
        came &= requests.new & ~np.isin(jobs.job_id, list(left))
        now = plan.snapshot.now + sum(watch.phases.values())
        return tuple(np.maximum(now - jobs.eligible[came], 0.0).tolist())

    def look(self) -> QueuePlan:
        """What a cycle would decide now; nothing is written, audited or remembered.

        Raises:
            BatchSystemError: the queue cannot be read.
        """
        facts, service = self.batch_system.facts(), self._new_service()
        snapshot = self._classed(self.batch_system.snapshot(), service)
        guard = self._new_guard(read_only=True)
        remembered = guard.memory
        lifts = service.lifts(snapshot)
        decision, fallback_reason = guard.decide(self.policy, snapshot, lifts.seen(snapshot))
        plan = self._planned(
            snapshot,
            facts,
            decision,
            fallback_reason,
            ChangedRequests(),
            most=self.settings.max_writes,
        )
        return replace(
            plan,
            memory=remembered,
            lifts=lifts,
            service=service.served(snapshot),
            overruns=service.overruns(snapshot),
        )

    def _mode(self, fallback_reason: str | None) -> str:
        if self._shadow:
            return "shadow"
        return "active" if fallback_reason is None else "fallback"


def _numbers(plan: QueuePlan, chosen: BoolArray | None) -> frozenset[int]:
    """Numbers of the chosen pending jobs; of none where there is no choice."""
    if chosen is None:
        return frozenset()
    return frozenset(plan.snapshot.pending.jobs.job_id[chosen].tolist())


def _first_changes(plan: QueuePlan, requests: ChangedRequests) -> list[FactorChange]:
    """The changes of a plan that come before all others."""
    first = _numbers(plan, requests.first)
    return list(takewhile(lambda change: change.job_id in first, plan.changes))


def _in_turn(
    plan: QueuePlan, changes: Sequence[FactorChange], requests: ChangedRequests
) -> list[FactorChange]:
    """Changes as they are sent: places for another request go, new jobs get theirs, then others."""
    turn = dict.fromkeys(_numbers(plan, requests.new), 1)
    turn |= dict.fromkeys(_numbers(plan, requests.lost), 0)
    return sorted(in_safe_order(changes), key=lambda change: turn.get(change.job_id, 2))
