"""Guard rails: what a policy says is checked before it reaches the batch system."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from slurm_rl_plugin.domain import Decision, PendingJobs, QueueSnapshot
from slurm_rl_plugin.errors import ScoreInvalid
from slurm_rl_plugin.units import HOUR, MINUTE, BoolArray, IntArray


class GuardRail(Protocol):
    """One check of a decision, which passes it, mends it or refuses it."""

    def check(self, decision: Decision, snapshot: QueueSnapshot) -> Decision:
        """The decision, mended where the rail may mend it.

        Raises:
            PolicyError: the decision must not be used; the cycle falls back.
        """
        ...


@dataclass(frozen=True, slots=True)
class CompleteRanking:
    """One score for each pending job, no more and no fewer."""

    def check(self, decision: Decision, snapshot: QueueSnapshot) -> Decision:
        """Refuse a decision with missing or surplus scores (ScoreInvalid)."""
        shape, wanted = decision.scores.shape, (len(snapshot.pending),)
        if shape != wanted:
            raise ScoreInvalid(
                f"the policy gave scores of shape {shape} for {wanted[0]} pending jobs: retrain it."
            )
        return decision


@dataclass(frozen=True, slots=True)
class FiniteScores:
    """Every score is a finite number."""

    def check(self, decision: Decision, snapshot: QueueSnapshot) -> Decision:
        """Refuse NaN and infinite scores (ScoreInvalid)."""
        del snapshot
        broken = int(np.count_nonzero(~np.isfinite(decision.scores)))
        if broken:
            raise ScoreInvalid(f"the policy gave {broken} scores that are not finite: retrain it.")
        return decision


#: Seconds for which a job is passed over before it has its turn for some: the reason that Slurm
#: shows is that of its last look, and it looks at the first jobs of the queue alone (the backfill
#: at `bf_max_job_test` of them), so a limit may be long gone.
PASSED_OVER, LOOKED_AT = 4.0 * HOUR, 5.0 * MINUTE


@dataclass(slots=True, kw_only=True)
class StarvationBound:
    """A job whose unserved wait is longer than `bound` seconds goes first of its account.

    Within the account it takes the best place, the others move down: no other account loses one.

    One that waits by its own doing is passed over until it waits for the machine again: what it
    accrued is kept, so a job that reaches a limit of its own now and then does not starve. Now and
    then it has its turn, so that the batch system looks whether its reason still holds.
    """

    bound: float
    #: Job -> since when it is passed over, seconds since the epoch.
    _since: dict[int, float] = field(default_factory=dict)

    def check(self, decision: Decision, snapshot: QueueSnapshot) -> Decision:
        """Put overdue jobs before the others of their account, the longest waiting first."""
        waited = snapshot.unserved_wait
        is_overdue = waited > self.bound
        is_overdue &= ~self._passed_over(snapshot, is_overdue & snapshot.pending.each_own_doing)
        may = np.flatnonzero(UntouchedJobs().orderable(snapshot))  # others take no place
        starved = is_overdue[may]
        if not starved.any():
            return decision
        account, scores = snapshot.pending.jobs.account[may], decision.scores[may]
        places = np.lexsort((-scores, account))
        first = np.lexsort((np.where(starved, -waited[may], -scores), ~starved, account))
        moved = decision.scores.copy()
        moved[may[first]] = scores[places]
        return decision.keeping(may[starved], moved)

    def _passed_over(self, snapshot: QueueSnapshot, own: BoolArray) -> BoolArray:
        """Those of them that do not have their turn now, shape [n]."""
        places, now = np.flatnonzero(own), snapshot.now
        jobs = snapshot.pending.jobs.job_id[places].tolist()
        since = {job: min(self._since.get(job, now), now) for job in jobs}
        over = {job: began for job, began in since.items() if now - began > PASSED_OVER + LOOKED_AT}
        self._since = since | dict.fromkeys(over, now)
        passed = np.zeros(len(own), dtype=np.bool_)
        passed[places] = [now - self._since[job] <= PASSED_OVER for job in jobs]
        return passed


@dataclass(frozen=True, slots=True, kw_only=True)
class UntouchedJobs:
    """Jobs that are never given a factor, each for the first reason that holds.

    Attributes:
        accounts: exempt account names.
        partitions: exempt partition names.
        qos: exempt names of QOS.
    """

    accounts: Collection[str] = ()
    partitions: Collection[str] = ()
    qos: Collection[str] = ()

    def reasons(self, snapshot: QueueSnapshot) -> dict[str, BoolArray]:
        """Reason -> which pending jobs it keeps untouched, shape [n]; a job has one at most."""
        pending = snapshot.pending
        candidates = {
            "held": pending.held,
            "admin_set": pending.admin_set,
            "not_eligible": pending.jobs.eligible > snapshot.now,
            "shared": np.zeros(1, dtype=np.bool_) if pending.shared is None else pending.shared,
            "exempt_account": _named(pending.jobs.account, snapshot.accounts, self.accounts),
            "exempt_partition": _named(
                pending.jobs.partition, snapshot.partitions, self.partitions
            ),
            "exempt_qos": _named(pending.qos, snapshot.qos, self.qos),
        }
        taken = np.zeros(len(pending), dtype=np.bool_)
        reasons: dict[str, BoolArray] = {}
        for reason, matches in candidates.items():
            reasons[reason] = matches & ~taken
            taken |= matches
        return reasons

    def exempt(self, snapshot: QueueSnapshot) -> BoolArray:
        """Jobs exempt by a name, whose factor may be taken back, shape [n]."""
        reasons = self.reasons(snapshot)
        return reasons["exempt_account"] | reasons["exempt_partition"] | reasons["exempt_qos"]

    def orderable(self, snapshot: QueueSnapshot) -> BoolArray:
        """Which pending jobs may be given a factor, shape [n]."""
        blocked = np.zeros(len(snapshot.pending), dtype=np.bool_)
        for matches in self.reasons(snapshot).values():
            blocked |= matches
        return ~blocked


def _named(column: IntArray | None, names: tuple[str, ...], exempt: Collection[str]) -> BoolArray:
    if column is None:
        return np.zeros(1, dtype=np.bool_)
    index = [place for place, name in enumerate(names) if name in exempt]
    return np.isin(column, np.array(index, dtype=np.int64))


def rail_name(rail: GuardRail) -> str:
    """A rail's name for people, `starvation bound` for StarvationBound."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", type(rail).__name__).lower()


def total_priority(pending: PendingJobs) -> IntArray:
    """The batch system's own priority plus our factor, shape [n]."""
    return pending.native_priority + pending.factor


def default_guard_rails(
    starvation_bound: float, reserve: GuardRail | None = None
) -> tuple[GuardRail, ...]:
    """The rails in their order.

    Args:
        starvation_bound: seconds; inf for none.
        reserve: the rail of a site that keeps processors free of batch jobs.
    """
    rails: tuple[GuardRail, ...] = (CompleteRanking(), FiniteScores())
    if reserve is not None:
        rails += (reserve,)
    if np.isfinite(starvation_bound):
        rails += (StarvationBound(bound=starvation_bound),)
    return rails
