"""What a decision means for the queue: the order, and the writes that give it."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Self

import numpy as np

from slurm_rl_plugin.batch_systems.port import HIGHEST_PRIORITY, LARGEST_FACTOR, FactorChange
from slurm_rl_plugin.domain import Decision, Memory, PendingJobs, QueueSnapshot
from slurm_rl_plugin.domain.decision import INFLUENCE_TOLERANCE
from slurm_rl_plugin.domain.jobs import ChangedRequests
from slurm_rl_plugin.hook.memory.account_service import Lifts, Overrun, ServiceSeen
from slurm_rl_plugin.hook.order.said_order import in_own_order, in_site_order
from slurm_rl_plugin.hook.rails.guard_rails import UntouchedJobs
from slurm_rl_plugin.hook.rails.reserve import LimitReport
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: Batch systems raise what is below 1 to 1 (ties), or let such a job never run.
LOWEST_PRIORITY = 1
#: Priority points left free between jobs where there is room, so that later jobs fit between.
_SPACING = 1000
#: Priority points left free below a queue that is ordered for the first time.
ROOM_BELOW = 1_000_000
#: Up to this number of writes, a queue is never spaced anew.
FEW_WRITES = 16
#: Priorities that a head may reach, far below the largest factor.
HEAD_AT_MOST = 2**30
#: The head of a queue is written first while this part of the queue or more must be written: when
#: it is ordered for the first time or by another model, and not when a few thousand jobs sink.
HEAD_FIRST_FROM = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderChanges:
    """What to write; columns of shape [writes], the most valuable (highest placed) first."""

    place: IntArray  #: in the wanted order
    priority: IntArray  #: that the job should get in all


def jobs_to_keep(
    priority: IntArray,
    ceiling: int = HIGHEST_PRIORITY + 1,
    lost: BoolArray | None = None,
    floor: int = LOWEST_PRIORITY - 1,
) -> BoolArray:
    """Which jobs of a wanted order can keep their priority, as many as possible.

    Job a before job b can both keep theirs iff priority[a] - priority[b] >= b - a: then the jobs
    between find distinct whole numbers. So priority + place must not rise: a longest non-increasing
    subsequence, found in O(n log n). All stay between `floor` and `ceiling`; `lost` jobs do not
    keep theirs. Arrays are in the wanted order, first to start first, shape [n].
    """
    count = len(priority)
    place = np.arange(count)
    has_room = priority > floor + (count - 1 - place)
    has_room &= priority < ceiling - place
    if lost is not None:
        has_room &= ~lost
    level = -(priority + place)  # non-increasing becomes non-decreasing
    tails: list[int] = []
    tail_place: list[int] = []
    before = [-1] * count
    chosen = np.flatnonzero(has_room)
    for index, value in zip(chosen.tolist(), level[chosen].tolist(), strict=True):
        if not tails or value >= tails[-1]:  # as for most jobs of a queue that is in order
            before[index] = tail_place[-1] if tails else -1
            tails.append(value)
            tail_place.append(index)
            continue
        length = bisect_right(tails, value)
        before[index] = tail_place[length - 1] if length else -1
        tails[length] = value
        tail_place[length] = index
    keep = np.zeros(count, dtype=np.bool_)
    index = tail_place[-1] if tail_place else -1
    while index >= 0:
        keep[index] = True
        index = before[index]
    return keep


def order_changes(
    priority: IntArray,
    ceiling: int = HIGHEST_PRIORITY + 1,
    most: int | None = None,
    lost: BoolArray | None = None,
) -> OrderChanges:
    """The fewest writes after which priorities, shape [n], fall strictly along the wanted order.

    Only `most` of them are sent at a time. While nearly all must be written, the first writes put
    the head of the queue before all others, so that jobs that could start next soon have their
    places. A queue longer than `most` is never spaced anew: that would never end. Those `lost` had
    their priority for another request. The lowest job that stays before all of these has priority
    `ceiling`; it is ignored if fewer whole numbers lie below it than there are jobs.
    """
    if ceiling - LOWEST_PRIORITY < len(priority):
        ceiling = HIGHEST_PRIORITY + 1
    keep = jobs_to_keep(priority, ceiling, lost)
    if (most is None or len(priority) <= most) and _out_of_room(priority, keep):
        anew = _spaced_anew(priority, ceiling)
        if anew is not None:
            return anew
    wanted = _placed(priority, keep, ceiling)
    moved = np.flatnonzero(~keep)
    nearly_all = len(moved) >= HEAD_FIRST_FROM * len(priority)
    nothing_lost = lost is None or not lost.any()
    if most is not None and 0 < most < len(moved) and nearly_all and nothing_lost:
        head = _head_first(priority, wanted, ceiling, most)
        if head is not None:
            return head
    return OrderChanges(place=moved, priority=wanted[moved])


def _placed(priority: IntArray, keep: BoolArray, ceiling: int) -> IntArray:
    """Priorities, with jobs that do not keep theirs placed into the gaps."""
    wanted = priority.astype(np.int64).copy()
    edges = [-1, *np.flatnonzero(keep).tolist(), len(priority)]
    for left, right in pairwise(edges):
        if right - left > 1:
            wanted[left + 1 : right] = _between(priority, left, right, ceiling)
    return wanted


def _head_first(
    priority: IntArray, wanted: IntArray, ceiling: int, most: int
) -> OrderChanges | None:
    """Writes whose first `most` put as many first jobs as possible before all; None for no room.

    A job is in place if its priority is above those of all later jobs. Jobs in place are kept; the
    first of the others go above all jobs behind them, with room for the rest. Some that sink from
    above are sent before them, if that puts more jobs in place.
    """
    sinking = np.flatnonzero(wanted < priority)
    sinking = sinking[np.argsort(-priority[sinking], kind="stable")]
    numbers = [0, *(2**power for power in range(most.bit_length()))]
    choices = (sinking[:number] for number in numbers if number < min(most, len(sinking) + 1))
    heads = [(_head_in_place(priority, wanted, sunk, most), sunk) for sunk in choices]
    head, sunk = max(heads, key=lambda each: each[0])  # the fewest of equals
    after = _after(priority, wanted, sunk)
    in_place = after > _later(after)
    in_place[sunk] = False
    sunk = sunk[sunk >= head]  # the others get their place in the head
    floor = max(int(after[head:].max(initial=0)), LOWEST_PRIORITY - 1)
    in_place[head:] = False
    keep = jobs_to_keep(after, ceiling, ~in_place, floor)
    last = int(np.flatnonzero(keep)[-1]) if keep.any() else -1
    behind = len(priority) - 1 - last
    high = int(priority[last]) if last >= 0 else floor + ROOM_BELOW + _SPACING * (behind + 1)
    high = min(high, ceiling, HEAD_AT_MOST)
    step = min(_SPACING, (high - floor) // (behind + 1))
    if step < 1:
        return None
    after[: last + 1] = _placed(after[: last + 1], keep[: last + 1], ceiling)
    after[last + 1 : head] = high - step * np.arange(1, head - last, dtype=np.int64)
    given = np.arange(len(priority)) < head
    given[sunk] = True
    after = _placed(after, given, ceiling)  # the others in between are written in later cycles
    moved = ~keep
    moved[sunk] = False
    places = np.concatenate([sunk, np.flatnonzero(moved)])
    return OrderChanges(place=places, priority=after[places])


def _after(priority: IntArray, wanted: IntArray, sunk: IntArray) -> IntArray:
    after = priority.astype(np.int64).copy()
    after[sunk] = wanted[sunk]
    return after


def _later(priority: IntArray) -> IntArray:
    later = np.full(len(priority), LOWEST_PRIORITY - 1, dtype=np.int64)
    later[:-1] = np.maximum.accumulate(priority[::-1])[::-1][1:]
    return later


def _head_in_place(priority: IntArray, wanted: IntArray, sunk: IntArray, most: int) -> int:
    """How many first jobs are in place when these have sunk and the rest of `most` is written."""
    after = _after(priority, wanted, sunk)
    missing = np.flatnonzero(after <= _later(after))
    left = most - len(sunk)
    return int(missing[left - 1]) + 1 if len(missing) >= left else len(priority)


def out_of_order(priority: IntArray) -> int:
    """How many jobs are in the wrong place: all but a longest falling subsequence."""
    tails: list[int] = []
    for value in (-priority).tolist():
        place = bisect_left(tails, value)
        tails[place : place + 1] = [value]
    return len(priority) - len(tails)


def _out_of_room(priority: IntArray, keep: BoolArray) -> bool:
    """Whether most writes are due to missing gaps, and not to jobs in the wrong place.

    Arrival upon arrival at the same end of the queue uses its gaps up; from then on each would
    push many jobs along. Spacing all of them anew once makes the next thousand cheap again.
    """
    writes = int(np.count_nonzero(~keep))
    return writes > FEW_WRITES and writes > 2 * out_of_order(priority) + FEW_WRITES


def _spaced_anew(priority: IntArray, ceiling: int) -> OrderChanges | None:
    """Every job above the present lowest one, with room below; None if that does not fit."""
    count = len(priority)
    wanted = int(priority.min()) + ROOM_BELOW + _SPACING * np.arange(count, 0, -1, dtype=np.int64)
    if wanted[0] >= ceiling:
        return None
    return OrderChanges(place=np.arange(count), priority=wanted)


def _between(priority: IntArray, left: int, right: int, ceiling: int) -> IntArray:
    """Falling priorities for the places strictly between two kept ones (or the ends)."""
    count = right - left - 1
    below = len(priority) - right  # jobs from `right` on need numbers of their own
    low = int(priority[right]) if right < len(priority) else LOWEST_PRIORITY - 1 + below
    if left < 0:
        # most of the queue goes up together: new jobs at the site's own priority fit below it
        room = ROOM_BELOW if count > below else 0
        high = min(low + room + _SPACING * (count + 1), ceiling)
    else:
        high = int(priority[left])
    steps = np.arange(count, 0, -1, dtype=np.int64)
    if high - _SPACING * (count + 1) >= low:  # close below the one before, the gap stays whole
        return high - _SPACING * steps[::-1]
    spaced = low + steps * (high - low) // (count + 1)
    # whole numbers may meet where the gap is tight: push them apart from below
    ascending = spaced[::-1] - np.arange(count)
    apart = np.maximum.accumulate(ascending) + np.arange(count)
    return np.asarray(np.minimum(apart, high - np.arange(count, 0, -1)), dtype=np.int64)[::-1]


def in_safe_order(changes: Sequence[FactorChange]) -> list[FactorChange]:
    """Changes so that no two jobs pass each other, since Slurm may start a job meanwhile.

    `changes` begin with the highest placed job. Jobs that rise go first, the highest foremost; then
    jobs that sink, the lowest foremost.
    """
    rising = [change for change in changes if change.new >= change.old]
    sinking = [change for change in changes if change.new < change.old]
    return rising + sinking[::-1]


def bounded_changes(
    native: IntArray,
    factor: IntArray,
    points: float,
    ceiling: int = HIGHEST_PRIORITY + 1,
    lost: BoolArray | None = None,
    steps: IntArray | None = None,
) -> OrderChanges:
    """What to write so that the best place adds `points` and the last almost nothing.

    The terms fall evenly from place to place, as in the simulator. A term that is off by less than
    INFLUENCE_TOLERANCE of the influence is not changed, so two jobs closer than that may be in
    either order. All jobs of a step (`Decision.steps`) get the same points on top, as many as put
    them before the lower steps. Arrays are in the wanted order, shape [n]: the site's own
    priorities and our terms; the others as in `order_changes`.
    """
    count = len(native)
    ideal = np.rint(points * np.arange(count, 0, -1) / max(count, 1)).astype(np.int64)
    room = ceiling - 1 - native
    if steps is not None:
        ideal = _raised(native, ideal, steps, points)
        room += steps - steps.max(initial=0)
    ideal = np.minimum(ideal, np.maximum(room, 0))
    off = np.abs(ideal - factor) > INFLUENCE_TOLERANCE * points
    if lost is not None:
        off |= lost & (ideal != factor)
    newcomers = (factor == 0) & (ideal > 0)  # 0 means that a job was never placed
    moved = np.flatnonzero(off | newcomers)
    most_wrong_first = np.argsort(-np.abs(ideal - factor)[moved], kind="stable")
    place = moved[most_wrong_first]
    priority = np.maximum(native[place] + ideal[place], LOWEST_PRIORITY)
    return OrderChanges(place=place, priority=priority)


def _raised(native: IntArray, term: IntArray, steps: IntArray, points: float) -> IntArray:
    """Terms that put each step above the lower ones, whatever the native priorities; shape [n].

    In whole multiples of the influence, so that a queue that hardly changes costs hardly any
    writes; and with room for the tolerance of both terms.
    """
    raised, grain = term.copy(), max(math.ceil(points), 1)
    apart = 2 * math.ceil(INFLUENCE_TOLERANCE * points) + 1
    for step in np.unique(steps)[1:]:
        mine, lower = steps == step, steps < step
        total = native + raised
        missing = int(total[lower].max()) + apart - int(total[mine].min())
        raised[mine] += grain * math.ceil(max(missing, 0) / grain)
    return raised


_UNCHANGED = ChangedRequests()
#: The rank of a job that cannot start: held, or not eligible yet.
NO_RANK = 0


class PlannedChanges(Sequence[FactorChange]):
    """Writes as columns; objects are made on demand, since a cycle sends few of many."""

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
    """A decision on one snapshot, before anything is written."""

    snapshot: QueueSnapshot
    decision: Decision  #: as the guard rails left it; FIFO's where the policy cannot be used
    fallback_reason: str | None  #: why the policy is not used; None when it is
    order: list[int]  #: places of the orderable jobs, first to start first
    #: The most valuable first; before them those that remove a place for another request.
    changes: Sequence[FactorChange]
    releases: bool = False  #: all factors are removed, whatever `changes` says
    memory: Memory | None = None  #: before this decision
    limit: LimitReport = field(default_factory=LimitReport)  #: to set on batch jobs
    lifts: Lifts = field(default_factory=Lifts)  #: with which the policy saw the queue
    service: ServiceSeen | None = None  #: in the last fortnight; None until enough is seen
    #: Number of each user whose time limits make no job interactive -> why.
    overruns: Mapping[int, Overrun] = field(default_factory=dict)
    #: Requests that changed since the jobs were ordered.
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

    Jobs are ordered by score, then by the points of the site, then by each user's own order (`nice`
    as its user meant it, shape [n]; None for that of the batch system). The best place adds
    `influence` priority points, inf if the daemon's order comes first; then it adds `span` to the
    points of QOS, partition and association, None if these move no job. Of `most` writes a cycle
    (with 0 nothing is spaced anew) those for changed requests come first, then those of jobs
    without a place.
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
    """Places of jobs to write although they are right: another job is between their components.

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
    """Below the untouched jobs that the site itself puts before all jobs that may be ordered."""
    pending = snapshot.pending
    others = ~untouched.orderable(snapshot) & ~pending.held
    others &= pending.jobs.eligible <= snapshot.now
    native = pending.native_priority
    before = native[others & (native > native[order].max(initial=0))]
    return int(before.min()) if len(before) else highest + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsideredJobs:
    """Columns of shape [n], one row for each pending job of the plan's snapshot.

    Ranks count from 1 over all jobs that the site may start, also those that the daemon never
    changes: by the tier of the partition and then by priority, as the batch system tries them.
    Reservations and free resources are not considered.
    """

    plan: QueuePlan
    rank: IntArray  #: once the decided order is written
    site_rank: IntArray  #: by the site's own priority, without our factor
    current_rank: IntArray  #: by the priority that the jobs have now, with our factors
    untouched: tuple[str, ...]  #: why a job never gets a factor; "" for one that may
    wait: FloatArray  #: seconds since the job was eligible; 0 before
    accrued: FloatArray  #: seconds that count for the score, starvation bound and lifts
    passed_over: BoolArray  #: waits for a reason of its own: the starvation bound does not count

    @classmethod
    def of(cls, plan: QueuePlan, untouched: UntouchedJobs) -> Self:
        """The columns of a plan."""
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
