"""Who may use the reserve: which jobs of the interactive class count as batch.

Users choose the class of their jobs, by a time limit for example. So the interactive jobs of one
account, and of one user, hold at most a part of the reserve; further jobs count as batch. So do
jobs that are interactive only by their time limit, or because their user chose so, if limits end
too many runs of that user (`overruns`). Where no reserve bounds them, no user's choice counts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace

import numpy as np

from slurm_rl_plugin.domain import JobTable, QueueSnapshot
from slurm_rl_plugin.hook.rails.guard_rails import total_priority
from slurm_rl_plugin.hook.rails.reserve import ReserveSettings
from slurm_rl_plugin.units import BoolArray, IntArray

ACCOUNT, USER, OVERRUN = "account_share", "user_share", "overrun"
NO_RESERVE = "no_reserve"
#: Why a job of the interactive class counts as batch; `PendingJobs.as_batch` has places in it.
AS_BATCH = (ACCOUNT, USER, OVERRUN, NO_RESERVE)
#: In `PendingJobs.as_batch`: the job counts as its class says.
AS_CLASSED = -1


def counted_classes(
    snapshot: QueueSnapshot, settings: ReserveSettings, overrunners: Collection[int] = ()
) -> QueueSnapshot:
    """The queue with classes as they count for the reserve.

    Running jobs claim processors first, in the order of their starts; then pending ones by
    priority. A pending job that could not start now holds nothing, and an array holds what all its
    waiting tasks ask for. A job that started and ended since the last snapshot holds nothing. No
    bound holds for an account that is the only one.

    Args:
        snapshot: the queue.
        settings: how much one account and one user may hold.
        overrunners: numbers of the users whose time limits make no job interactive.
    """
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
    order = np.lexsort((jobs.job_id, jobs.submit, -total_priority(pending), ~holds))
    as_batch = room.claim(jobs, jobs.processors * tasks, order, holds)
    return replace(
        snapshot,
        running=replace(running, jobs=_counted(running.jobs, refused == AS_CLASSED)),
        started=replace(started, jobs=_counted(started.jobs, still)),
        pending=replace(pending, jobs=_counted(jobs, as_batch == AS_CLASSED), as_batch=as_batch),
    )


def classes_without_reserve(snapshot: QueueSnapshot) -> QueueSnapshot:
    """The queue with classes as they count where nothing bounds what one user's jobs hold."""
    running, pending, started = snapshot.running, snapshot.pending, snapshot.started
    chosen = pending.jobs.by_user
    if chosen is None:
        return snapshot
    as_batch = np.where(chosen, AS_BATCH.index(NO_RESERVE), AS_CLASSED)
    return replace(
        snapshot,
        running=replace(running, jobs=_by_rules(running.jobs)),
        started=replace(started, jobs=_by_rules(started.jobs)),
        pending=replace(pending, jobs=_by_rules(pending.jobs), as_batch=as_batch),
    )


def _by_rules(jobs: JobTable) -> JobTable:
    return jobs if jobs.by_user is None else _counted(jobs, ~jobs.by_user)


def _counted(jobs: JobTable, as_classed: BoolArray) -> JobTable:
    return replace(jobs, interactive=jobs.interactive & as_classed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Room:
    """Processors that accounts and users hold so far.

    Attributes:
        account_most, user_most: processors that one account, and one user, may hold.
        overrunners: numbers of users that have lost the class, shape [users].
    """

    account_most: float
    user_most: float
    overrunners: IntArray
    _accounts: Counter[int] = field(default_factory=Counter)
    _users: Counter[int] = field(default_factory=Counter)

    def claim(
        self, jobs: JobTable, amounts: IntArray, order: IntArray, holds: BoolArray
    ) -> IntArray:
        """Let interactive jobs claim processors one after another while there is room.

        Args:
            jobs: n jobs.
            amounts: processors that each claims, shape [n].
            order: places of the jobs, the first to claim first, shape [n].
            holds: whether later jobs lack what the job claims, shape [n].

        Returns:
            As `PendingJobs.as_batch`, shape [n].
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
