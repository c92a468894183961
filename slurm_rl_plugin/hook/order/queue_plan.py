"""What a decision means for the queue: the order, and the writes that would bring it about."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from slurm_rl_plugin.batch_systems.port import HIGHEST_PRIORITY, LARGEST_FACTOR, FactorChange
from slurm_rl_plugin.domain import Decision, Memory, PendingJobs, QueueSnapshot
from slurm_rl_plugin.domain.request_watch import ChangedRequests
from slurm_rl_plugin.hook.memory.account_service import Lifts, Overrun, ServiceSeen
from slurm_rl_plugin.hook.order.order_changes import bounded_changes, order_changes
from slurm_rl_plugin.hook.order.said_order import in_own_order, in_site_order
from slurm_rl_plugin.hook.rails.guard_rails import UntouchedJobs
from slurm_rl_plugin.hook.rails.reserve import LimitReport
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

_UNCHANGED = ChangedRequests()
#: The rank of a job that cannot start: held, or not eligible yet.
NO_RANK = 0


class PlannedChanges(Sequence[FactorChange]):
    """Writes as columns, made objects when they are asked for: few of many are sent in a cycle."""

    def __init__(self, job_id: IntArray, old: IntArray, new: IntArray) -> None:
        self._job_id, self._old, self._new = job_id, old, new

    def __len__(self) -> int:
        return len(self._job_id)

    def __iter__(self) -> Iterator[FactorChange]:
        columns = (self._job_id.tolist(), self._old.tolist(), self._new.tolist())
        for job, old, new in zip(*columns, strict=True):
            yield FactorChange(job_id=job, old=old, new=new)

    def __getitem__(self, place: Any) -> Any:
        if not isinstance(place, slice):
            return self[place : place + 1 or None][0]
        return list(PlannedChanges(self._job_id[place], self._old[place], self._new[place]))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlan:
    """A decision on one snapshot, before anything is written.

    Attributes:
        snapshot: the queue.
        decision: scores as the guard rails left them; FIFO's where the policy cannot be used.
        fallback_reason: why the policy is not used; None when it is.
        order: places of the orderable jobs, first to start first.
        changes: every write that gives the order, the most valuable first; before them those that
            take away a place that was for another request.
        releases: the site's own order is wanted: our factors go, whatever `changes` says.
        memory: what the policy remembered before this decision.
        limit: on batch jobs that is to be set.
        lifts: with which the policy saw the queue.
        service: of accounts in the last fortnight; None until enough of it has been seen.
        overruns: number of each user whose time limits make no job interactive -> why.
        requests: what ranked jobs have changed since they were ordered.
    """

    snapshot: QueueSnapshot
    decision: Decision
    fallback_reason: str | None
    order: list[int]
    changes: Sequence[FactorChange]
    releases: bool = False
    memory: Memory | None = None
    limit: LimitReport = field(default_factory=LimitReport)
    lifts: Lifts = field(default_factory=Lifts)
    service: ServiceSeen | None = None
    overruns: Mapping[int, Overrun] = field(default_factory=dict)
    requests: ChangedRequests = field(default_factory=ChangedRequests)

    @property
    def seen(self) -> QueueSnapshot:
        """The queue as the policy saw it."""
        return self.lifts.seen(self.snapshot)

    @property
    def priority_after(self) -> IntArray:
        """Priority of each pending job once all is written, shape [n]."""
        pending = self.snapshot.pending
        if self.releases:
            return pending.native_priority.copy()
        factor = pending.factor.copy()
        place_of = {job: place for place, job in enumerate(pending.jobs.job_id.tolist())}
        for change in self.changes:
            factor[place_of[change.job_id]] = change.new
        return pending.native_priority + factor


def planned_order(
    snapshot: QueueSnapshot,
    decision: Decision,
    untouched: UntouchedJobs,
    influence: float = math.inf,
    highest: int = HIGHEST_PRIORITY,
    most: int | None = None,
    requests: ChangedRequests = _UNCHANGED,
    span: float | None = None,
    nice: IntArray | None = None,
) -> tuple[list[int], PlannedChanges]:
    """Job places in the decided order, and the fewest writes that give it.

    Jobs are ordered by score, then by the points of the site, then by each user's own order.

    Args:
        snapshot: the queue.
        decision: on every pending job.
        untouched: jobs that get no factor.
        influence: priority points that the best place is worth; inf where our order wins.
        highest: priority that the batch system takes.
        most: writes that are sent in one cycle; None for all, 0 for so few that nothing is spaced
            anew.
        requests: writes of jobs whose place was for another request come first, then those of jobs
            that had no place yet.
        span: points that our order is worth if it wins, in addition to those of QOS, partition
            and association; None if these move no job.
        nice: of each pending job as its user meant it, lower first, shape [n]; None for that of
            the batch system.
    """
    pending, steps, kept = snapshot.pending, decision.steps, decision.kept
    weighed = replace(pending, jobs=snapshot.weighed(pending.jobs))
    order = orderable_by_score(snapshot, decision.scores, untouched)
    if span is not None:
        order = in_site_order(weighed, order, span, steps, kept)
    order = in_own_order(weighed, order, pending.nice if nice is None else nice, steps, kept)
    ceiling = _ceiling(snapshot, order, untouched, highest)
    lost = None if requests.lost is None else requests.lost[order]
    if math.isinf(influence):
        wanted = order_changes(pending.total_priority[order], ceiling, most, lost)
    else:
        native, factor_now = pending.native_priority[order], pending.factor[order]
        in_steps = None if steps is None else steps[order]
        wanted = bounded_changes(native, factor_now, influence, ceiling, lost, in_steps)
    moved = order[wanted.place]
    factor = np.clip(
        wanted.priority - pending.native_priority[moved], -LARGEST_FACTOR, LARGEST_FACTOR
    )
    freed = np.flatnonzero(untouched.exempt(snapshot) & (pending.factor != 0))
    joined = _torn_apart(pending, order, moved, factor)
    places = np.concatenate([moved, joined, freed])
    stays = pending.factor[joined]
    stays[stays == 0] = 1  # 0 would mean that the job carries no factor
    wanted_factor = np.concatenate([factor, stays, np.zeros(len(freed), dtype=np.int64)])
    haste = np.zeros(len(pending), dtype=np.int64)
    haste += 0 if requests.lost is None else 2 * requests.lost
    haste += 0 if requests.new is None else requests.new
    first = np.argsort(-haste[places], kind="stable")
    places, wanted_factor = places[first], wanted_factor[first]
    changes = PlannedChanges(pending.jobs.job_id[places], pending.factor[places], wanted_factor)
    return order.tolist(), changes


def _torn_apart(
    pending: PendingJobs, order: IntArray, moved: IntArray, factor: IntArray
) -> IntArray:
    """Places of jobs to write though they stand right: another job is between their components.

    A write puts the components of a job together, whatever value it sets.
    """
    if pending.spread is None or not pending.spread[order].any():
        return np.empty(0, dtype=np.int64)
    priority = pending.total_priority
    priority[moved] = pending.native_priority[moved] + factor
    by_priority = np.sort(priority[~pending.held])
    whole = np.setdiff1d(order[pending.spread[order] > 0], moved)
    low, high = priority[whole] - pending.spread[whole], priority[whole] + pending.spread[whole]
    among = np.searchsorted(by_priority, high, "right") - np.searchsorted(by_priority, low)
    return np.asarray(whole[among > 1], dtype=np.int64)


def orderable_by_score(
    snapshot: QueueSnapshot, scores: FloatArray, untouched: UntouchedJobs
) -> IntArray:
    """Places of the orderable jobs, highest score first; ties by submission, then by number."""
    jobs = snapshot.pending.jobs
    may = np.flatnonzero(untouched.orderable(snapshot))
    return may[np.lexsort((jobs.job_id[may], jobs.submit[may], -scores[may]))]


def _ceiling(
    snapshot: QueueSnapshot, order: IntArray, untouched: UntouchedJobs, highest: int
) -> int:
    """Below the untouched jobs that the site itself puts before all jobs we may order."""
    pending = snapshot.pending
    others = ~untouched.orderable(snapshot) & ~pending.held
    others &= pending.jobs.eligible <= snapshot.now
    native = pending.native_priority
    before = native[others & (native > native[order].max(initial=0))]
    return int(before.min()) if len(before) else highest + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsideredJobs:
    """Columns of shape [n], one row for each pending job of the plan's snapshot.

    Ranks count from 1 over all jobs that the site may start, those included that we never touch.
    They are by the tier of the partition and then by priority, as the batch system tries them;
    reservations and room are not considered.

    Attributes:
        plan: where they come from.
        rank: once the decided order is written.
        site_rank: by the site's own priority, without our factor.
        current_rank: by the priority that the jobs have now, our factors included.
        untouched: why a job is never given a factor; "" for one that may be.
        wait: seconds since the job was eligible; 0 before.
        accrued: those of them that count for the score, the starvation bound and a lift.
        passed_over: whether it waits by its own doing, so that the starvation bound passes over it.
    """

    plan: QueuePlan
    rank: IntArray
    site_rank: IntArray
    current_rank: IntArray
    untouched: tuple[str, ...]
    wait: FloatArray
    accrued: FloatArray
    passed_over: BoolArray

    @classmethod
    def of(cls, plan: QueuePlan, untouched: UntouchedJobs) -> Self:
        """What a plan makes of each job."""
        snapshot = plan.snapshot
        pending = snapshot.pending
        startable = ~pending.held & (pending.jobs.eligible <= snapshot.now)
        names = np.full(len(pending), "", dtype=object)
        for reason, matches in untouched.reasons(snapshot).items():
            names[matches] = reason
        waited = np.where(startable, snapshot.now - pending.jobs.eligible, 0.0)
        return cls(
            plan=plan,
            rank=_ranks(snapshot, plan.priority_after, startable),
            site_rank=_ranks(snapshot, pending.native_priority, startable),
            current_rank=_ranks(snapshot, pending.total_priority, startable),
            untouched=tuple(names.tolist()),
            wait=np.maximum(waited, 0.0),
            accrued=np.where(startable, snapshot.unserved_wait, 0.0),
            passed_over=pending.each_own_doing,
        )

    @property
    def ranked(self) -> int:
        """How many jobs have a rank."""
        return int(np.count_nonzero(self.rank != NO_RANK))

    @property
    def in_order(self) -> list[int]:
        """Places of all pending jobs: by rank, then those that cannot start."""
        last = np.where(self.rank == NO_RANK, len(self.rank) + 1, self.rank)
        job_id = self.plan.snapshot.pending.jobs.job_id
        return [int(place) for place in np.lexsort((job_id, last))]


def _ranks(snapshot: QueueSnapshot, priority: IntArray, startable: BoolArray) -> IntArray:
    """Place of each job by tier and priority; of equal ones the lower job number comes first."""
    pending = snapshot.pending
    places = np.flatnonzero(startable)
    job_id = pending.jobs.job_id[places]
    order = places[np.lexsort((job_id, -priority[places], -pending.each_tier[places]))]
    rank = np.full(len(priority), NO_RANK, dtype=np.int64)
    rank[order] = np.arange(1, len(order) + 1)
    return rank
