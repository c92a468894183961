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
    SchedulerFacts,
    SchedulerLoad,
)
from slurm_rl_plugin.domain import Decision, QueueSnapshot
from slurm_rl_plugin.domain.jobs import ChangedRequests, RequestWatch
from slurm_rl_plugin.errors import (
    BatchSystemError,
    BatchSystemUnavailable,
    ChangeRejected,
    SlurmRLError,
)
from slurm_rl_plugin.hook.audit.log import AuditLog
from slurm_rl_plugin.hook.cycle_report import (
    NO_CONTROLLER_HERE,
    NOBODY_IN_CHARGE,
    CycleReport,
    CycleSettings,
)
from slurm_rl_plugin.hook.memory.account_service import AccountService, Lifts, ServiceSeen
from slurm_rl_plugin.hook.memory.carried_factors import (
    FOUND,
    AccountingWatch,
    CarriedFactors,
    Disturbances,
    MemoryFile,
    StateFile,
    memory_path,
)
from slurm_rl_plugin.hook.order.queue_plan import QueuePlan, in_safe_order, planned_order
from slurm_rl_plugin.hook.order.said_order import OwnNice
from slurm_rl_plugin.hook.outstanding import Outstanding, outstanding_at, restore_all
from slurm_rl_plugin.hook.rails.guard_rails import GuardRail, PolicyGuard, UntouchedJobs
from slurm_rl_plugin.hook.rails.reserve import BatchLimit, counted_classes
from slurm_rl_plugin.policies.port import Policy
from slurm_rl_plugin.units import BoolArray
from slurm_rl_plugin.whole_file import beside

logger = logging.getLogger(__name__)
#: Changes sent in one call, and seconds of calls after which the rest waits for the next cycle, so
#: that jobs which come meanwhile get their places.
WRITES_AT_ONCE, LONGEST_WRITING = 250, 2.0
_UNCHANGED = ChangedRequests()


@dataclass(slots=True, kw_only=True)
class Cycle:
    """One scheduling cycle after another: snapshot, decision, guard rails, writes, report."""

    batch_system: BatchSystem
    policy: Policy
    model_sha256: str  #: "" for a rule
    settings: CycleSettings
    guard_rails: Sequence[GuardRail]
    untouched: UntouchedJobs
    state: StateFile  #: the policy's memory lies next to this file
    audit: AuditLog
    monotonic: Callable[[], float]  #: seconds
    limit: BatchLimit = field(default_factory=BatchLimit)
    #: Seconds of batch-system calls, filled by the adapter, emptied by each report.
    calls: list[tuple[str, float]] = field(default_factory=list)
    left_to_site: bool = False  #: write nothing, even in active mode: it is the site's turn
    candidate: str = ""  #: of an experiment, while it decides; "" for the configured model
    configured: tuple[str, str] = field(init=False)  #: name and checksum of the model
    stood_by: bool = False  #: on standby in the last cycle that the batch system answered
    disturbances: Disturbances = field(default_factory=Disturbances)  #: emptied by each report
    _accounting: AccountingWatch = field(default_factory=AccountingWatch)
    _requests: RequestWatch = field(default_factory=RequestWatch)
    _service: AccountService = field(init=False)
    _own_nice: OwnNice = field(init=False)
    _factors: CarriedFactors = field(init=False)
    _guard: PolicyGuard = field(init=False)
    _denied: int = 0
    #: Writes that fit into LONGEST_WRITING, as the last long writing went.
    _in_time: float = math.inf
    _seen_at: float = math.inf  #: time of the last snapshot by whose decision places were written
    _unaudited: list[str] = field(default_factory=list)
    #: Of this cycle: answers of the batch system, and seconds of each phase.
    _facts: SchedulerFacts | None = None
    _load: SchedulerLoad | None = None
    _snapshot: QueueSnapshot | None = None
    _phases: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._factors = CarriedFactors(self.state, self.disturbances)
        self._read_files()
        self.configured = self.policy.name, self.model_sha256
        self._guard = self._new_guard()

    def _read_files(self) -> None:
        """Read the files, which another daemon may have written."""
        self._service = self._new_service()
        self._own_nice = OwnNice(path=beside(self.state.path, "own-nice"))

    def _new_service(self) -> AccountService:
        return AccountService(
            path=beside(self.state.path, "service"),
            goals=self.settings.goals,
            wait_targets=self.settings.wait_targets,
            counts_overruns=self.limit.rail is not None,
        )

    def _new_guard(self, *, read_only: bool = False) -> PolicyGuard:
        path = memory_path(self.state.path, of_candidate=bool(self.candidate))
        return PolicyGuard(
            guard_rails=self.guard_rails,
            deadline=self.settings.inference_deadline,
            breaker_failures=self.settings.breaker_failures,
            breaker_rest=self.settings.breaker_rest,
            monotonic=self.monotonic,
            memory_file=MemoryFile(path=path, model_sha256=self.model_sha256, read_only=read_only),
        )

    def change_policy(
        self, policy: Policy, model_sha256: str, *, candidate: str, past_days: float
    ) -> None:
        """Let another policy decide, with its own memory file.

        It reads the runs of `past_days` days of accounting again; 0 for no days.
        """
        self.remember()
        self.policy, self.model_sha256, self.candidate = policy, model_sha256, candidate
        self._guard = self._new_guard()
        if past_days:
            self.batch_system.tell_past(past_days)

    def run(self, *, new_jobs: bool = False) -> CycleReport:
        """One cycle; never raises for a fault of the batch system, the policy or a file.

        With `new_jobs` it reads only pending jobs, and writes the places of those without one.
        """
        self._facts = self._load = self._snapshot = None
        self._phases = {}
        if not new_jobs:  # a denied right rests for whole cycles
            self._denied = max(self._denied - 1, 0)
        answered = True
        try:
            report = self._steps(new_jobs=new_jobs)
        except ChangeRejected as error:
            self._denied = self.settings.breaker_rest
            report = self._failed("write", str(error))
        except BatchSystemError as error:
            answered = not isinstance(error, BatchSystemUnavailable)
            report = self._failed("batch_system", str(error))
        except SlurmRLError as error:
            report = self._failed("write", str(error))
        except Exception as error:  # whatever breaks, the site must not notice
            logger.exception("cycle=failed failure=internal")
            report = self._failed("internal", str(error))
        if answered and not new_jobs and report.failure not in (None, "busy") and self._is_ours:
            # Slurm is up but we cannot follow the queue: a job could starve behind our limit.
            report = replace(report, limit=self.limit.lift(self.batch_system))
        calls, self._snapshot = tuple(self.calls), None  # a queue of 100,000 jobs takes memory
        self.calls.clear()
        return replace(
            report,
            of_new_jobs=new_jobs,
            snapshot=None if new_jobs else report.snapshot,
            phase_seconds=self._phases,
            pass_interval=self._facts.pass_interval if self._facts else 0.0,
            release=self._facts.release if self._facts else "",
            events=self._load.events if self._load else (),
            submitted=self._load.submitted if self._load else 0,
            calls=calls,
            disturbances=self.disturbances.taken(),
        )

    def _steps(self, *, new_jobs: bool) -> CycleReport:
        begin = self.monotonic()
        # 1. Ask which host must act. On standby query nothing further.
        self._facts = facts = self.batch_system.facts()
        if self._stands_by_now(facts):
            return replace(self._report(), mode="standby")
        # 2. Do nothing if the batch system is overloaded, or if our writes would do harm.
        self._load = load = self.batch_system.load()
        if not new_jobs:  # a backlog is judged over cycles, not over seconds
            self._accounting.look(load.backlog, self.disturbances)
        if (obstacle := self._obstacle(facts, load)) is not None:
            return self._failed(*obstacle)
        # 3. Read the queue.
        system = self.batch_system
        snapshot = system.pending_now() if new_jobs else system.snapshot()
        self._snapshot = snapshot = self._classed(snapshot, self._service)
        begin = self._lap("observe", begin)
        if not self._shadow:
            self._factors.compare(snapshot)
        requests = self._requests.compare(snapshot, self.untouched.orderable(snapshot))
        report = replace(self._report(), suppressed=self._suppressed(snapshot))
        if new_jobs and (self._shadow or requests.first is None or not requests.first.any()):
            return report
        # 4. Decide, as accounts and groups of jobs are lifted.
        service = None if new_jobs else self._service.look(snapshot, sites_turn=self.left_to_site)
        lifts = self._service.lifts(snapshot)
        seen = lifts.seen(snapshot)
        decided = self._guard.decide(self.policy, snapshot, seen, remembers=not new_jobs)
        begin = self._lap("decide", begin)
        if new_jobs and decided[1] is not None:  # new jobs stay where the site puts them
            return report
        # 5. Plan the writes that give the order; of new jobs only, their own.
        plan = self._planned(snapshot, facts, *decided, requests, new_jobs=new_jobs)
        changes = plan.changes[: self.settings.max_writes]
        begin = self._lap("order", begin)
        # 6. Record the decision before anything is changed.
        report = replace(report, requests_changed=requests.parts)
        if not new_jobs:
            self._own_nice.keep()
            report = self._with_decision(report, plan, service, lifts)
        said = {"guard_rails": self._guard.acted, "failed": self._unaudited}
        self.audit.record(report, plan, changes, new_jobs=new_jobs, **said)
        self._unaudited = self._unaudited if new_jobs else []
        # 7. Write. In shadow mode only restore a limit that an earlier run left.
        if self._shadow:
            return self._only_shown(report, plan, changes)
        sent = self._write(plan, changes)
        if not new_jobs:
            report = replace(report, limit=self.limit.carry_out(self.batch_system, plan.limit))
        self._lap("apply", begin)
        # 8. Report the result of the writes.
        return self._with_writes(report, plan, changes, sent)

    def _obstacle(self, facts: SchedulerFacts, load: SchedulerLoad) -> tuple[str, str] | None:
        """One of FAILURES and a sentence where this cycle must do nothing."""
        if load.struggles is not None:
            return "busy", load.struggles
        # two faulty daemons would undo each other's order
        harm = controller_fault(self.settings, facts) or facts.harm
        return None if harm is None or self.writes_nothing else ("refused", harm)

    def _with_decision(
        self, report: CycleReport, plan: QueuePlan, service: ServiceSeen | None, lifts: Lifts
    ) -> CycleReport:
        if plan.fallback_reason is not None:
            mode = report.mode if self._shadow else "fallback"
            report = replace(report, mode=mode, policy=self.settings.fallback)
        unwritten = max(len(plan.changes) - self.settings.max_writes, 0)
        return replace(
            report,
            fallback_reason=plan.fallback_reason,
            suppressed={**report.suppressed, "write_bound": unwritten},
            reserve=plan.decision.reserve or 0,
            limit=plan.limit,
            order=() if plan.releases else plan.order,
            service=service,
            lifts=lifts,
            overrunners=self._service.overrunners,
        )

    def _only_shown(
        self, report: CycleReport, plan: QueuePlan, changes: Sequence[FactorChange]
    ) -> CycleReport:
        if self.writes_nothing:  # if the right was denied, old places must still be removed
            self._requests.commit()
        limit = self.limit.only_shown(self.batch_system, plan.limit)
        suppressed = {**report.suppressed, "shadow": len(changes)}
        return replace(report, suppressed=suppressed, limit=limit)

    def _planned(
        self,
        snapshot: QueueSnapshot,
        facts: SchedulerFacts,
        decision: Decision,
        fallback_reason: str | None,
        requests: ChangedRequests = _UNCHANGED,
        *,
        new_jobs: bool = False,
    ) -> QueuePlan:
        most = 0 if new_jobs else int(min(self.settings.max_writes, self._in_time))
        hours = math.inf if facts.no_influence is not None else self.settings.influence
        influence = math.inf if math.isinf(hours) else hours * facts.points_an_hour
        # a bounded order leaves the site's points as they are
        is_full = self.settings.site_points and math.isinf(influence)
        order, changes = planned_order(
            snapshot,
            decision,
            self.untouched,
            influence,
            facts.highest_priority,
            most,
            requests,
            span=facts.replaced_points if is_full else None,
            nice=self._own_nice.look(snapshot),
        )
        falls_back = fallback_reason is not None
        releases = falls_back and self.settings.fallback == "site"
        plan = QueuePlan(
            snapshot=snapshot,
            decision=decision,
            fallback_reason=fallback_reason,
            order=order,
            changes=[] if releases else changes,
            releases=releases,
            limit=self.limit.planned(snapshot, decision.reserve or 0, fallback=falls_back),
            requests=requests,
        )
        return replace(plan, changes=_first_changes(plan)) if new_jobs else plan

    def _write(self, plan: QueuePlan, changes: Sequence[FactorChange]) -> ApplyReport:
        """Send the writes of a plan, or restore every factor, also those of an earlier run."""
        if plan.releases:
            self._factors.before_writing(plan.snapshot, ())
            return self._factors.restore(self.batch_system)
        in_turn = _in_turn(plan, changes)
        return self._factors.write(plan.snapshot, in_turn, lambda: self._apply(in_turn))

    def _apply(self, changes: Sequence[FactorChange]) -> ApplyReport:
        """Send changes in small calls, until all are sent or LONGEST_WRITING is over."""
        report, begin = ApplyReport(), self.monotonic()
        for place in range(0, len(changes), WRITES_AT_ONCE):
            try:
                report |= self.batch_system.apply(changes[place : place + WRITES_AT_ONCE])
            except ChangeRejected:
                if not report.accepted:
                    raise
                break  # the jobs of this call are refused, not the right to write
            taken = self.monotonic() - begin
            if len(changes) >= WRITES_AT_ONCE:
                sent = place + WRITES_AT_ONCE
                self._in_time = max(sent * LONGEST_WRITING / max(taken, 1e-3), WRITES_AT_ONCE)
            if taken >= LONGEST_WRITING:
                break
        return report

    def _with_writes(
        self,
        report: CycleReport,
        plan: QueuePlan,
        changes: Sequence[FactorChange],
        sent: ApplyReport,
    ) -> CycleReport:
        """Commit the requests; report the writes, and new jobs' delays since they could start."""
        jobs, before = plan.snapshot.pending.jobs, self._requests.left
        left = {change.job_id for change in _first_changes(plan)}
        left -= sent.accepted.union(sent.rejected)
        self._requests.commit(frozenset(left))
        since, self._seen_at = self._seen_at, plan.snapshot.now
        if plan.requests.new is not None:
            came = jobs.eligible >= math.floor(since)  # the others were held, for an unknown time
            came |= np.isin(jobs.job_id, list(before))
            came &= plan.requests.new & ~np.isin(jobs.job_id, list(left))
            now = plan.snapshot.now + sum(self._phases.values())
            seconds = np.maximum(now - jobs.eligible[came], 0.0)
            report = replace(report, place_seconds=tuple(seconds.tolist()))
        if plan.releases:
            directions, suppressed = Counter(reset=sent.applied), Counter[str]()
        else:
            accepted = [change for change in changes if change.job_id in sent.accepted]
            directions = Counter("up" if each.new > each.old else "down" for each in accepted)
            unsent = len(changes) - len(accepted) - len(sent.rejected)
            suppressed = Counter(rejected=len(sent.rejected), write_bound=unsent)
            for job, words in list(sent.rejected.items())[:1]:
                logger.info("rejected=%d first=%d reason=%s", len(sent.rejected), job, words)
        suppressed = Counter(report.suppressed) + suppressed
        return replace(report, adjustments=directions, suppressed=suppressed)

    def look(self) -> QueuePlan:
        """Decide as a cycle would now; write, audit and remember nothing."""
        facts, service = self.batch_system.facts(), self._new_service()
        snapshot = self._classed(self.batch_system.snapshot(), service)
        guard = self._new_guard(read_only=True)
        memory, lifts = guard.memory, service.lifts(snapshot)
        decision, fallback_reason = guard.decide(self.policy, snapshot, lifts.seen(snapshot))
        return replace(
            self._planned(snapshot, facts, decision, fallback_reason),
            memory=memory,
            lifts=lifts,
            service=service.served(snapshot),
            overruns=service.overruns(snapshot),
        )

    def release(self) -> ApplyReport:
        """Restore all that is outstanding in the batch system: the limit on batch jobs, factors."""
        return restore_all(self._outstanding, self.batch_system)

    def look_back(self) -> None:
        """Report factors that an earlier run left; this run goes on with them.

        With several controllers they may belong to a daemon that is running.
        """
        if self.has_outstanding and not self.settings.beside_controllers:
            self.disturbances.report(FOUND, "an earlier run has not restored its factors")

    def remember(self) -> None:
        """Save the memory of the policy and of the accounts' service before a stop or a reload.

        On standby the daemon of the other host does this.
        """
        if not self.stood_by:
            self._guard.remember()
            self._service.keep(0.0)
            self._own_nice.keep()

    def stands_by(self) -> bool:
        """Whether the factors belong to a daemon on another host."""
        alone = not self.settings.beside_controllers
        return not alone and self._leaves_to_another(self.batch_system.facts())

    @property
    def has_outstanding(self) -> bool:
        """Whether a write of the daemon may be outstanding in the batch system."""
        return any(entry.is_outstanding() for entry in self._outstanding)

    @property
    def writes_nothing(self) -> bool:
        """Whether no job may carry a factor of the daemon."""
        return self.settings.shadow or self.left_to_site

    @property
    def _outstanding(self) -> tuple[Outstanding, ...]:
        return outstanding_at(self.state.path, limit=self.limit, factors=self._factors)

    @property
    def _shadow(self) -> bool:
        """Whether the cycle writes nothing: as configured, or because the right was denied."""
        return self.writes_nothing or self._denied > 0

    @property
    def _is_ours(self) -> bool:
        """Whether the limit on batch jobs cannot be that of another host's daemon."""
        if self._facts is None:
            return not self.settings.beside_controllers
        return controller_fault(self.settings, self._facts) is None

    def _stands_by_now(self, facts: SchedulerFacts) -> bool:
        """Whether another host's daemon acts; if so, forget what that daemon will change."""
        if self._leaves_to_another(facts):
            self.stood_by = True
            self._factors.forget_values()
            self._requests.forget()
            logger.info("mode=standby: another host's controller is in charge")
            return True
        if self.stood_by:
            self.stood_by = False
            self._guard.begin_anew()
            self._read_files()
        return False

    def _leaves_to_another(self, facts: SchedulerFacts) -> bool:
        """Whether another host's daemon must act; BatchSystemUnavailable where that is unknown."""
        if self.settings.beside_controllers and facts.in_charge is None:
            raise BatchSystemUnavailable(NOBODY_IN_CHARGE)
        return self.settings.beside_controllers and not facts.in_charge

    def _classed(self, snapshot: QueueSnapshot, service: AccountService) -> QueueSnapshot:
        """The queue with the classes that count for the reserve."""
        rail = self.limit.rail
        settings = None if rail is None else rail.settings
        return counted_classes(snapshot, settings, service.overruns(snapshot))

    def _suppressed(self, snapshot: QueueSnapshot) -> Counter[str]:
        """Reason -> pending jobs that get no factor."""
        reasons = self.untouched.reasons(snapshot).items()
        return Counter({reason: int(np.count_nonzero(matches)) for reason, matches in reasons})

    def _report(self) -> CycleReport:
        return CycleReport(
            time=self._snapshot.now if self._snapshot else 0.0,
            snapshot=self._snapshot,
            mode="shadow" if self._shadow else "active",
            policy=self.policy.name,
            model_sha256=self.model_sha256,
        )

    def _failed(self, failure: str, reason: str) -> CycleReport:
        logger.error("cycle=failed failure=%s reason=%s", failure, reason)
        self._unaudited = [*self._unaudited[-999:], failure]
        return replace(self._report(), failure=failure, failure_reason=reason)

    def _lap(self, phase: str, since: float) -> float:
        """End a phase of this cycle that began at `since`; the time now."""
        now = self.monotonic()
        self._phases[phase] = max(now - since, 0.0)  # clocks may be set back
        return now


def controller_fault(settings: CycleSettings, facts: SchedulerFacts) -> str | None:
    """Why no daemon can run next to a controller here, one sentence; None where it can."""
    if not settings.beside_controllers:
        return None
    if facts.alone is not None:
        return f"{facts.alone}."
    return None if facts.controller_here else NO_CONTROLLER_HERE


def _numbers(plan: QueuePlan, chosen: BoolArray | None) -> frozenset[int]:
    """Numbers of the chosen pending jobs; of none where there is no choice."""
    if chosen is None:
        return frozenset()
    return frozenset(plan.snapshot.pending.jobs.job_id[chosen].tolist())


def _first_changes(plan: QueuePlan) -> list[FactorChange]:
    first = _numbers(plan, plan.requests.first)
    return list(takewhile(lambda change: change.job_id in first, plan.changes))


def _in_turn(plan: QueuePlan, changes: Sequence[FactorChange]) -> list[FactorChange]:
    """Changes as they are sent: places for another request go, new jobs get theirs, then others."""
    turn = dict.fromkeys(_numbers(plan, plan.requests.new), 1)
    turn |= dict.fromkeys(_numbers(plan, plan.requests.lost), 0)
    return sorted(in_safe_order(changes), key=lambda change: turn.get(change.job_id, 2))
