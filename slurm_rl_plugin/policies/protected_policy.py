"""A policy with jobs protected: those that were overtaken for long go first, then its own order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from slurm_rl_plugin.domain import Decision, Memory, QueueSnapshot
from slurm_rl_plugin.policies.port import Policy
from slurm_rl_plugin.policies.protection import (
    FOR_GOOD,
    Protection,
    borne_by,
    longest_wait,
    overtaken_by,
    protected_after,
)
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: Which pending jobs of a snapshot may be given a place, shape [n].
Orderable = Callable[[QueueSnapshot], BoolArray]
#: Numbers before the jobs in a memory: version of the order of numbers, time, longest wait, jobs.
_LAYOUT, _HEAD = 1.0, 4
#: Seconds by which clocks and rounded waits may put two jobs of one moment into another order.
_SAME_TIME = 1.0
#: Seconds by which a clock is set back that was wrong; a leap second is none.
_SET_BACK = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Overtaken:
    """What is remembered of the jobs that wait; the simulator keeps the same (`scoring`).

    Attributes:
        time: up to which it is counted, seconds since the epoch; -inf before the first look.
        longest: the longest wait lately, seconds.
        job_id: jobs that were overtaken at all, ascending, shape [n].
        seconds: by how much, shape [n].
    """

    time: float = -np.inf
    longest: float = 0.0
    job_id: FloatArray = field(default_factory=lambda: np.empty(0))
    seconds: FloatArray = field(default_factory=lambda: np.empty(0))

    @classmethod
    def from_memory(cls, memory: Memory) -> tuple[Self, Memory | None]:
        """What `to_memory` put before a policy's own memory, and that memory."""
        count = memory[_HEAD - 1] if len(memory) >= _HEAD and memory[0] == _LAYOUT else -1.0
        behind = _HEAD + 2 * int(count)
        if count < 0 or count % 1 or behind > len(memory):
            return cls(), None
        jobs, seconds = memory[_HEAD:behind].reshape(2, -1)
        rest = memory[behind:]
        known = cls(time=float(memory[1]), longest=float(memory[2]), job_id=jobs, seconds=seconds)
        return known, rest if len(rest) else None

    def to_memory(self, own: Memory | None) -> Memory:
        """All of it, then the policy's own memory."""
        head = [_LAYOUT, self.time, self.longest, float(len(self.job_id))]
        parts = [np.array(head), self.job_id, self.seconds]
        return np.concatenate(parts if own is None else [*parts, own])

    def of(self, job_id: IntArray) -> FloatArray:
        """Seconds of each of these jobs, 0 for one that is not known; shape [n]."""
        if len(self.job_id) == 0:
            return np.zeros(len(job_id))
        place = np.minimum(np.searchsorted(self.job_id, job_id), len(self.job_id) - 1)
        return np.where(self.job_id[place] == job_id, self.seconds[place], 0.0)

    def for_good(self, job_id: IntArray) -> Self:
        """The same, where these jobs, which it knows, are protected until they start."""
        seconds, place = self.seconds.copy(), np.searchsorted(self.job_id, job_id)
        seconds[place] = np.maximum(seconds[place], FOR_GOOD)
        return replace(self, seconds=seconds)

    def after(self, snapshot: QueueSnapshot) -> Self:
        """What is known after a snapshot; jobs that wait no more are forgotten.

        A job that does not wait for the machine is not overtaken meanwhile. Where the clock was
        ahead and is set back, waits were counted too long: nobody is overtaken by more than he has
        waited, and the longest wait is less by as much as the clock was ahead.
        """
        job_id, waits = snapshot.pending.jobs.job_id, snapshot.waits_for_machine
        waited, last = np.nan_to_num(snapshot.accrued_wait), min(self.time, snapshot.now)
        ahead = max(self.time - snapshot.now, 0.0)
        bound = waited if ahead > _SET_BACK else np.inf
        added = np.where(waits, _overtaken_since(snapshot, last), 0.0)
        seconds = np.minimum(self.of(job_id), bound) + added
        kept = np.flatnonzero(seconds > 0.0)
        kept = kept[np.argsort(job_id[kept])]
        before = max(self.longest - ahead, 0.0)
        return replace(
            self,
            time=snapshot.now,
            longest=float(
                longest_wait(before, snapshot.now - last, waited[waits].max(initial=0.0))
            ),
            job_id=job_id[kept].astype(np.float64),
            seconds=seconds[kept],
        )


def _overtaken_since(snapshot: QueueSnapshot, last: float) -> FloatArray:
    """Seconds by which each pending job was overtaken since `last` in what it asks most of, [n]."""
    came, used, whole = _used(snapshot, last)
    arrived = _arrivals(snapshot)
    order = np.argsort(arrived, kind="stable")
    ascending, added = arrived[order], np.zeros(len(arrived))
    if snapshot.resources is None:
        added[order] = overtaken_by(ascending, came, used[:, 0], whole)
        return added
    dominant = snapshot.shares_asked(snapshot.pending.jobs).argmax(axis=1)[order]
    for resource in np.unique(dominant).tolist():
        by = overtaken_by(ascending, came, used[:, resource], whole)
        added[order[dominant == resource]] = by[dominant == resource]
    return added


def _arrivals(snapshot: QueueSnapshot) -> FloatArray:
    """From when on each pending job's wait counts, seconds since the epoch, shape [n].

    A job of which that is not told comes now: nobody has overtaken it.
    """
    arrived = snapshot.pending.jobs.eligible
    if snapshot.pending.accrued is not None:
        arrived = snapshot.now - snapshot.accrued_wait + _SAME_TIME
    return np.where(np.isnan(arrived), snapshot.now, arrived)


def _used(snapshot: QueueSnapshot, last: float) -> tuple[FloatArray, FloatArray, float]:
    """When each job came that used the machine since `last`, and its seconds times what it had.

    Of each resource, shape [jobs, resources], and how much of each the machine has: as parts of it,
    or processors where nothing else is told. One of which that is not told has overtaken nobody.
    """
    running, ended = snapshot.running, snapshot.ended
    told = np.flatnonzero(np.isfinite(ended.start) & np.isfinite(ended.end))
    over = ended.jobs.select(told)
    seconds = np.concatenate(
        [
            snapshot.now - np.maximum(running.start, last),
            ended.end[told] - np.maximum(ended.start[told], last),
        ]
    )
    jobs, whole = (running.jobs, over), 1.0
    if snapshot.resources is None:
        whole = float(snapshot.capacity)
        had = np.concatenate([each.size for each in jobs])[:, None]
    else:
        had = np.concatenate([snapshot.shares_asked(each) for each in jobs])
    came = np.concatenate([np.fmax(each.submit, each.eligible) for each in jobs])
    used = np.nan_to_num(np.maximum(seconds, 0.0)[:, None] * had)
    return np.where(np.isnan(came), -np.inf, came), used, whole


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedPolicy:
    """Another policy's order behind the protected jobs.

    Its memory is `Overtaken`, and behind it the policy's own.

    Attributes:
        policy: who scores.
        protection: of whom, and when.
        name: as configurations and reports call it.
        orderable: which pending jobs the order reaches; None for all. Others would take the place
            of a protected job and stay where they are.
    """

    policy: Policy
    protection: Protection
    name: str
    orderable: Orderable | None = None

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        """Score the pending jobs by the policy, and put the protected ones first.

        Raises:
            PolicyError: the policy cannot decide.
        """
        known, own = (Overtaken(), None) if memory is None else Overtaken.from_memory(memory)
        decision = self.policy.decide(snapshot, own)
        known = known.after(snapshot)
        protected = self._protected(snapshot, known)
        known = known.for_good(snapshot.pending.jobs.job_id[protected])
        decision = decision.putting_first(protected) if len(protected) else decision
        return replace(decision, memory=known.to_memory(decision.memory), protected=protected)

    def _protected(self, snapshot: QueueSnapshot, known: Overtaken) -> IntArray:
        """Places of the protected jobs, the oldest first."""
        limit = protected_after(known.longest, self.protection.after)
        jobs = snapshot.pending.jobs
        may = snapshot.waits_for_machine
        if self.orderable is not None:
            may &= self.orderable(snapshot)
        late = np.flatnonzero(
            (known.of(jobs.job_id) > borne_by(jobs.time_limit, limit, known.longest)) & may
        )
        oldest = late[np.lexsort((jobs.job_id[late], _arrivals(snapshot)[late]))]
        taken: Counter[tuple[int, ...]] = Counter()  # of each partition, and of each user there
        kept = []
        columns = (oldest, jobs.partition[oldest], jobs.user[oldest])
        for job, partition, user in zip(*(each.tolist() for each in columns), strict=True):
            of_all, of_user = taken[(partition,)], taken[partition, user]
            if of_all < self.protection.jobs and of_user < self.protection.of_one_user:
                taken.update([(partition,), (partition, user)])
                kept.append(job)
        return np.array(kept, dtype=np.int64)


def protected_policy(policy: Policy, protection: Protection | None, name: str = "") -> Policy:
    """The policy with jobs protected; the policy itself where none are.

    Args:
        policy: who scores.
        protection: None for none.
        name: what reports call it; the policy's own by default.
    """
    if protection is None or protection.jobs == 0:
        return policy
    return ProtectedPolicy(policy=policy, protection=protection, name=name or policy.name)


def protecting_among(policy: Policy, orderable: Orderable) -> Policy:
    """The policy, which protects those pending jobs alone that its order reaches."""
    if not isinstance(policy, ProtectedPolicy):
        return policy
    return replace(policy, orderable=orderable)


def scorer_of(policy: Policy, memory: Memory | None) -> tuple[Policy, Memory | None]:
    """Who scores the jobs behind the protected ones, and what he remembers."""
    if not isinstance(policy, ProtectedPolicy):
        return policy, memory
    return policy.policy, None if memory is None else Overtaken.from_memory(memory)[1]
