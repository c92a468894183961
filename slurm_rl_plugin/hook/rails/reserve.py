"""How much is kept free of batch work, which jobs may use it, and the limit that keeps it free.

As in training, the reserve is the number of processors that stay idle in addition to all running
jobs. So batch jobs may use the capacity less the reserve less the processors of running interactive
jobs.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from slurm_rl_plugin.batch_systems.port import ApplyReport, BatchSystem
from slurm_rl_plugin.domain import Decision, JobTable, QueueSnapshot
from slurm_rl_plugin.domain.resources import CPUS, MEMORY
from slurm_rl_plugin.errors import BatchSystemUnavailable, ChangeRejected, SlurmRLError
from slurm_rl_plugin.units import BoolArray, IntArray
from slurm_rl_plugin.whole_file import may_exist

logger = logging.getLogger(__name__)
#: Reasons for the size of the reserve; a closed list, since they are values of a metric's label.
KEPT, UNWANTED, NOBODY, STARVING = "kept", "unwanted", "nobody_came", "starving"
ACCOUNT, USER, OVERRUN = "account_share", "user_share", "overrun"
NO_RESERVE = "no_reserve"
#: Why a job of the interactive class counts as batch; `PendingJobs.as_batch` is an index into it.
AS_BATCH = (ACCOUNT, USER, OVERRUN, NO_RESERVE)
#: In `PendingJobs.as_batch`: the job counts as its class.
AS_CLASSED = -1
OFF, FALLBACK = "off", "fallback"
#: Reasons for the limit.
LIMIT_REASONS = (OFF, UNWANTED, KEPT, NOBODY, STARVING, FALLBACK)
#: Directions of changes: batch jobs get less of a resource, get more, or have no limit.
LIMIT_CHANGES = ("lowered", "raised", "lifted")
#: Why a limit could not be set or restored.
LIMIT_FAILURES = ("refused", "unavailable")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReserveSettings:
    """How much a policy may keep free for interactive jobs, and how often that may change."""

    most: int  #: processors; always kept for a policy that asks for no number
    widest_batch_job: int = 1  #: processors; batch jobs up to this width always fit
    change_interval: float = 60.0  #: seconds between changes of the limit; lifting does not wait
    #: Seconds of waiting after which a batch job of several processors lifts the limit until it
    #: starts; inf for never.
    lift_after: float = math.inf
    #: Seconds since the last interactive job came, after which nothing is kept; inf for no end.
    idle_after: float = math.inf
    #: Batch jobs wider than `widest_batch_job` go behind the others while something is kept.
    narrow_first: bool = False
    #: As `most`, of other resources; whole numbers, memory in MiB.
    most_resources: Mapping[str, int] = field(default_factory=dict)
    #: Amounts of these that always fit for a batch job; 1 if not given.
    widest_batch_resources: Mapping[str, int] = field(default_factory=dict)
    #: account_share, user_share: part of `most` that the interactive jobs of one account, and of
    #: one user, hold at most; see `counted_classes`.
    account_share: float = 1.0
    user_share: float = 1.0

    @property
    def account_most(self) -> float:
        """Processors that interactive jobs of one account hold at most; inf for no bound."""
        return self._part(self.account_share)

    @property
    def user_most(self) -> float:
        """The same of one user."""
        return self._part(self.user_share)

    def _part(self, share: float) -> float:
        most = math.ceil(round(share * self.most, 6))  # 0.07 * 100 is a little above 7
        return math.inf if share >= 1.0 else float(max(most, 1))


@dataclass(slots=True)
class ReserveRail:
    """Bounds the reserve, drops it if no job needs it or a job starves, puts interactive first.

    While the reserve is above 0, every interactive job goes before every batch job: a batch job
    that waits below the limit would block the jobs behind it. A wide batch job blocks narrow ones
    too, and the limit may keep it from starting: with `narrow_first` it waits behind them until it
    starves.
    """

    settings: ReserveSettings
    reason: str = UNWANTED  #: of the last reserve: `KEPT`, `UNWANTED`, `NOBODY` or `STARVING`
    _last_arrival: float = -math.inf

    def check(self, decision: Decision, snapshot: QueueSnapshot) -> Decision:
        """The decision with a reserve and an order within bounds; see `GuardRail.check`."""
        newest = max(self._last_arrival, newest_interactive(snapshot))
        self._last_arrival = min(newest, snapshot.now)  # a time in the future: the clock was wrong
        wanted = self.settings.most if decision.reserve is None else max(decision.reserve, 0)
        reserve = min(wanted, self.settings.most, snapshot.capacity)
        starving = starving_jobs(snapshot, self.settings)
        nobody = snapshot.now - self._last_arrival > self.settings.idle_after
        if reserve == 0:
            self.reason = UNWANTED
        elif nobody or self._last_arrival == -math.inf:
            self.reason = NOBODY
        elif len(starving):
            self.reason = STARVING
        else:
            self.reason = KEPT
            # interactive jobs above narrow batch jobs above wide ones
            jobs, widest = snapshot.pending.jobs, self.settings.widest_batch_job
            narrow = self.settings.narrow_first & (jobs.processors <= widest)
            steps = np.where(jobs.interactive, 2, narrow).astype(np.int64)
            _, rank = np.unique(decision.scores, return_inverse=True)
            scores = (rank + len(rank) * steps).astype(np.float64)
            return replace(decision, reserve=reserve, scores=scores, steps=steps)
        if self.reason == STARVING:
            decision = decision.putting_first(starving)
        return decision if decision.reserve == 0 else replace(decision, reserve=0)

    def go_on_from(self, earlier: ReserveRail) -> None:
        """After a reload, take over when the last interactive job came."""
        self._last_arrival = earlier._last_arrival


def newest_interactive(snapshot: QueueSnapshot) -> float:
    """When the newest interactive job came, seconds since the epoch; -inf where none is seen."""
    tables = (snapshot.pending.jobs, snapshot.running.jobs, snapshot.started.jobs)
    return max(float(jobs.submit[jobs.interactive].max(initial=-math.inf)) for jobs in tables)


def starving_jobs(snapshot: QueueSnapshot, settings: ReserveSettings) -> IntArray:
    """Places of the wide batch jobs that have waited longer than `settings.lift_after` seconds.

    Below a limit, narrower jobs starve these, since they take each processor that becomes free. A
    job that does not wait for processors is left out: it would take the reserve from all and not
    start. The longest waiting comes first.
    """
    pending = snapshot.pending
    jobs = pending.jobs
    waited = snapshot.accrued_wait
    starved = ~jobs.interactive & ~pending.held & (waited > settings.lift_after)
    starved &= (jobs.processors > 1) | _asks_much(jobs, settings)
    starved &= pending.each_for_processors
    places = np.flatnonzero(starved & (jobs.processors <= snapshot.capacity))
    return places[np.argsort(-waited[places], kind="stable")]


def _asks_much(jobs: JobTable, settings: ReserveSettings) -> BoolArray:
    """Which jobs narrower ones may starve below a limit of another resource, shape [n]."""
    much = np.zeros(len(jobs), dtype=np.bool_)
    if jobs.requests is None:
        return much
    for name in settings.most_resources:
        fits = settings.widest_batch_resources.get(name, math.inf if name == MEMORY else 1)
        much |= jobs.requests.of(name) > (fits if name == MEMORY else 1)
    return much


def batch_limit(
    snapshot: QueueSnapshot, reserve: int, settings: ReserveSettings
) -> dict[str, int] | None:
    """What batch jobs may use together so that the reserve stays free; None for no limit.

    For each resource: capacity - use by interactive jobs - reserve, but at least what the widest
    batch job asks for. A resource that the machine lacks, or that the batch system does not show,
    is not limited.
    """
    if reserve <= 0:
        return None
    running = snapshot.running.jobs
    in_use = int(running.processors[running.interactive].sum())
    limit = max(snapshot.capacity - in_use - reserve, settings.widest_batch_job, 1)
    limits = {CPUS: limit} if limit < snapshot.capacity else {}
    for name, most in settings.most_resources.items():
        whole, in_use = _of_resource(snapshot, name)
        kept = math.ceil(most * reserve / settings.most)
        limit = max(whole - in_use - kept, settings.widest_batch_resources.get(name, 1), 1)
        if kept and limit < whole:
            limits[name] = limit
    return limits or None


def _of_resource(snapshot: QueueSnapshot, name: str) -> tuple[int, int]:
    """The amount that the machine has, and the amount that interactive jobs use."""
    now, jobs = snapshot.resources, snapshot.running.jobs
    if now is None:
        return 0, 0
    # OpenPBS shows no requests if every running job asks for processors only
    in_use = 0.0 if jobs.requests is None else jobs.requests.of(name)[jobs.interactive].sum()
    return math.floor(now.of(name, now.capacity)), math.ceil(in_use)


def counted_classes(
    snapshot: QueueSnapshot, settings: ReserveSettings | None, overrunners: Collection[int] = ()
) -> QueueSnapshot:
    """The queue with the classes that count for the reserve: which jobs may use it.

    Users choose the class of their jobs, for example by a time limit. So the interactive jobs of an
    account, and of a user, hold at most a part of the reserve; further jobs count as batch. So do
    jobs that are interactive only by their limit or their user's choice, if time limits end too
    many runs of that user. Without a reserve no user's choice counts.

    Running jobs claim processors first, by their starts; then pending ones by priority, an array
    for all its waiting tasks. A job that could not start now, or has ended, holds nothing. The only
    account of a cluster has no bound.
    """
    if settings is None:
        return _without_choices(snapshot)
    room = _Room(
        account_most=settings.account_most if len(snapshot.accounts) > 1 else math.inf,
        user_most=settings.user_most,
        overrunners=np.array(sorted(overrunners), dtype=np.int64),
    )
    running, pending, started = snapshot.running, snapshot.pending, snapshot.started
    none, every = np.zeros(len(started), dtype=bool), np.ones(len(running), dtype=bool)
    came = room.claim(started.jobs, started.jobs.processors, np.arange(len(started)), none)
    begun = np.lexsort((running.jobs.job_id, running.start))
    refused = room.claim(running.jobs, running.jobs.processors, begun, every)
    beyond = running.jobs.job_id[refused != AS_CLASSED]
    still = (came == AS_CLASSED) & ~np.isin(started.jobs.job_id, beyond)
    jobs, holds = pending.jobs, snapshot.waits_for_machine
    tasks = 1 if pending.tasks is None else pending.tasks
    order = np.lexsort((jobs.job_id, jobs.submit, -pending.total_priority, ~holds))
    as_batch = room.claim(jobs, jobs.processors * tasks, order, holds)
    return _with_classes(snapshot, refused == AS_CLASSED, still, as_batch)


def _without_choices(snapshot: QueueSnapshot) -> QueueSnapshot:
    tables = (snapshot.running.jobs, snapshot.started.jobs, snapshot.pending.jobs)
    running, started, chosen = (
        np.zeros(len(jobs), dtype=np.bool_) if jobs.by_user is None else jobs.by_user
        for jobs in tables
    )
    as_batch = np.where(chosen, AS_BATCH.index(NO_RESERVE), AS_CLASSED)
    if snapshot.pending.jobs.by_user is None:
        return snapshot
    return _with_classes(snapshot, ~running, ~started, as_batch)


def _with_classes(
    snapshot: QueueSnapshot, running: BoolArray, started: BoolArray, as_batch: IntArray
) -> QueueSnapshot:
    """The queue in which only these of the interactive jobs count as such."""

    def counted(jobs: JobTable, as_classed: BoolArray) -> JobTable:
        return replace(jobs, interactive=jobs.interactive & as_classed)

    of_pending = counted(snapshot.pending.jobs, as_batch == AS_CLASSED)
    return replace(
        snapshot,
        running=replace(snapshot.running, jobs=counted(snapshot.running.jobs, running)),
        started=replace(snapshot.started, jobs=counted(snapshot.started.jobs, started)),
        pending=replace(snapshot.pending, jobs=of_pending, as_batch=as_batch),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Room:
    """Processors that accounts and users hold so far."""

    account_most: float  #: processors that one account may hold
    user_most: float  #: the same of one user
    overrunners: IntArray  #: numbers of users that have lost the class
    _accounts: Counter[int] = field(default_factory=Counter)
    _users: Counter[int] = field(default_factory=Counter)

    def claim(
        self, jobs: JobTable, amounts: IntArray, order: IntArray, holds: BoolArray
    ) -> IntArray:
        """Let interactive jobs claim amounts in their order while there is room; all shape [n].

        Only jobs that `holds` marks reduce the room of later jobs.
        """
        found = np.full(len(jobs), AS_CLASSED, dtype=np.int64)
        for lost in (jobs.by_limit, jobs.by_user):
            if lost is not None:
                found[lost & np.isin(jobs.user, self.overrunners)] = AS_BATCH.index(OVERRUN)
        order = order[(jobs.interactive & (found == AS_CLASSED))[order]]
        claims = (each[order].tolist() for each in (jobs.account, jobs.user, amounts, holds))
        for place, account, user, amount, kept in zip(order.tolist(), *claims, strict=True):
            reason = self._refusal(account, user, amount)
            if reason is not None:
                found[place] = AS_BATCH.index(reason)
            elif kept:
                self._accounts[account] += amount
                self._users[user] += amount
        return found

    def _refusal(self, account: int, user: int, amount: int) -> str | None:
        if user >= 0 and self._users[user] + amount > self.user_most:  # below 0: unknown user
            return USER
        return ACCOUNT if self._accounts[account] + amount > self.account_most else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitReport:
    """The limit on batch jobs in one cycle."""

    #: Resource -> amount that batch jobs may use together (in shadow mode: might); None for none.
    amounts: Mapping[str, int] | None = None
    before: Mapping[str, int] | None = None  #: in the last cycle
    reason: str = OFF  #: one of LIMIT_REASONS
    change: str | None = None  #: one of LIMIT_CHANGES; None for no change
    failure: str | None = None  #: one of LIMIT_FAILURES; the limit is then unchanged
    failure_reason: str | None = None  #: one sentence
    failing: bool = False  #: the last try failed; the next one comes later

    @property
    def processors(self) -> int | None:
        """That batch jobs may use together; None for no limit of processors."""
        return processors_of(self.amounts)

    @property
    def others(self) -> dict[str, int]:
        """The limits of other resources."""
        return {name: each for name, each in (self.amounts or {}).items() if name != CPUS}


@dataclass(slots=True, kw_only=True)
class BatchLimit:
    """Turns the reserve of a decision into a limit on what batch jobs use, and sets it."""

    rail: ReserveRail | None = None  #: None where the site keeps nothing free
    #: The adapter keeps the site's own limit here while the daemon's may be in force.
    path: Path | None = None
    #: Seconds, for the time between changes.
    monotonic: Callable[[], float] = field(default=lambda: 0.0)
    _limit: Mapping[str, int] | None = None
    _changed: float = -math.inf
    _complained: str = ""

    name = "batch_limit"
    words = "a limit of the daemon on batch jobs may be outstanding"

    def is_outstanding(self) -> bool:
        """Whether the daemon's limit may be in force; see `Outstanding`."""
        return self.path is not None and may_exist(self.path)

    def go_on_from(self, earlier: BatchLimit) -> None:
        """After a reload, take over the limit, when it changed, and the last interactive job."""
        self._limit, self._changed = earlier._limit, earlier._changed
        if self.rail is not None and earlier.rail is not None:
            self.rail.go_on_from(earlier.rail)

    def planned(self, snapshot: QueueSnapshot, reserve: int, *, fallback: bool) -> LimitReport:
        """The limit that this cycle must set; changes no state."""
        rail = self.rail
        wanted: Mapping[str, int] | None = None
        if rail is None:
            reason = OFF
        elif fallback:
            reason = FALLBACK
        else:
            reason = rail.reason
            wanted = batch_limit(snapshot, reserve, rail.settings)
        if wanted != self._limit and rail is not None and reason not in (STARVING, FALLBACK):
            too_soon = self.monotonic() - self._changed < rail.settings.change_interval
            wanted = self._limit if too_soon else wanted
        return LimitReport(
            amounts=wanted,
            before=self._limit,
            reason=reason,
            change=_direction(self._limit, wanted),
        )

    def carry_out(self, system: BatchSystem, planned: LimitReport) -> LimitReport:
        """Set the limit and remember it; a failure is reported, not raised."""
        if planned.amounts is None and not self.is_outstanding():
            # the site's own limit is in force; nothing has to be written
            if planned.reason != KEPT:
                self._complained = ""
            return replace(self._remembered(planned), failing=bool(self._complained))
        try:
            system.limit_batch(planned.amounts)
        except SlurmRLError as error:
            return self._failed(planned, error)
        self._complained = ""
        return self._remembered(planned)

    def only_shown(self, system: BatchSystem, planned: LimitReport) -> LimitReport:
        """Set no limit, in shadow mode; restore the site's if an earlier run left one."""
        if self.is_outstanding():
            failed = self.carry_out(system, LimitReport(before=self._limit, reason=OFF))
            if failed.failure is not None:
                return failed
        return self._remembered(planned)

    def _remembered(self, planned: LimitReport) -> LimitReport:
        """The limit is now as planned, or would be in shadow mode."""
        if planned.amounts != self._limit:
            self._limit, self._changed = planned.amounts, self.monotonic()
        return planned

    def lift(self, system: BatchSystem) -> LimitReport:
        """Restore the site's limit at once if a cycle cannot follow the queue, as in fallback."""
        change = _direction(self._limit, None)
        lifted = LimitReport(before=self._limit, reason=FALLBACK, change=change)
        try:
            return self.carry_out(system, lifted)
        except Exception as error:  # that cycle has failed already
            logger.exception("batch_limit=failed")
            return self._failed(lifted, ChangeRejected(str(error)))

    def restore(self, system: BatchSystem) -> ApplyReport:
        """Restore the site's own limit; see `BatchSystem.limit_batch` for what can fail."""
        if self.is_outstanding():
            system.limit_batch(None)
        self._limit = None
        return ApplyReport()

    def _failed(self, planned: LimitReport, error: SlurmRLError) -> LimitReport:
        """Report the failure; the next try waits as long as the next change would."""
        self._changed = self.monotonic()
        if str(error) != self._complained:  # the same line each minute would fill the log
            self._complained = str(error)
            logger.error("batch_limit=failed reason=%s", error)
        failure = "unavailable" if isinstance(error, BatchSystemUnavailable) else "refused"
        return replace(
            planned,
            amounts=planned.before,
            change=None,
            failure=failure,
            failure_reason=str(error),
            failing=True,
        )


def processors_of(amounts: Mapping[str, int] | None) -> int | None:
    """The processors among some limits; None for no limit of them."""
    return None if amounts is None else amounts.get(CPUS)


def _direction(before: Mapping[str, int] | None, after: Mapping[str, int] | None) -> str | None:
    if before == after:
        return None
    if after is None:
        return "lifted"
    less = (each < (before or {}).get(name, math.inf) for name, each in after.items())
    return "lowered" if any(less) else "raised"
