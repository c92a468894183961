"""Guard rails: a decision is checked before it reaches the batch system, or FIFO applies."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from slurm_rl_plugin.domain import Decision, Memory, QueueSnapshot
from slurm_rl_plugin.errors import PolicyError, PolicyTimeout, ScoreInvalid
from slurm_rl_plugin.hook.memory.carried_factors import MemoryFile
from slurm_rl_plugin.policies.port import Policy
from slurm_rl_plugin.policies.registry import rule_policy
from slurm_rl_plugin.units import HOUR, MINUTE, BoolArray, IntArray

logger = logging.getLogger(__name__)
#: Seconds between two writes of the memory file; a kill loses what was learnt since the last write.
MEMORY_INTERVAL = 300.0


class GuardRail(Protocol):
    """One check of a decision, which passes, corrects or refuses it."""

    def check(self, decision: Decision, snapshot: QueueSnapshot) -> Decision:
        """The decision, corrected if the rail may; PolicyError if it must not be used."""
        ...


@dataclass(frozen=True, slots=True)
class FiniteScores:
    """Exactly one finite score for each pending job."""

    def check(self, decision: Decision, snapshot: QueueSnapshot) -> Decision:
        """Refuse a decision with missing, surplus or infinite scores, or NaN (ScoreInvalid)."""
        shape, wanted = decision.scores.shape, (len(snapshot.pending),)
        if shape != wanted:
            raise ScoreInvalid(
                f"the policy gave scores of shape {shape} for {wanted[0]} pending jobs: retrain it."
            )
        broken = int(np.count_nonzero(~np.isfinite(decision.scores)))
        if broken:
            raise ScoreInvalid(f"the policy gave {broken} scores that are not finite: retrain it.")
        return decision


#: Seconds for which a job is passed over, and then counted again: Slurm shows the reason of its
#: last attempt, and it tries only the first jobs of the queue (backfill `bf_max_job_test` of them),
#: so the limit may no longer apply.
PASSED_OVER, LOOKED_AT = 4.0 * HOUR, 5.0 * MINUTE


@dataclass(slots=True, kw_only=True)
class StarvationBound:
    """A job whose unserved wait is longer than `bound` seconds goes first of its account.

    It takes the best place of its account and the account's other jobs move down, so no other
    account loses a place.

    A job that waits for a reason of its own is passed over until it waits for the machine again. It
    keeps its accrued wait, so a job that reaches its own limit from time to time does not starve.
    It is counted again from time to time, so that the batch system tests its reason again.
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
    """Jobs that never get a factor, each for the first reason that applies."""

    accounts: Collection[str] = ()  #: exempt names, as those below
    partitions: Collection[str] = ()
    qos: Collection[str] = ()

    def reasons(self, snapshot: QueueSnapshot) -> dict[str, BoolArray]:
        """Reason -> the pending jobs that it keeps untouched, shape [n]; a job has at most one."""
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
        """Jobs exempt by a name, whose factor may be removed, shape [n]."""
        reasons = self.reasons(snapshot)
        return reasons["exempt_account"] | reasons["exempt_partition"] | reasons["exempt_qos"]

    def orderable(self, snapshot: QueueSnapshot) -> BoolArray:
        """Which pending jobs may be given a factor, shape [n]."""
        blocked: BoolArray = np.any(list(self.reasons(snapshot).values()), axis=0)
        return ~blocked


def _named(column: IntArray | None, names: tuple[str, ...], exempt: Collection[str]) -> BoolArray:
    if column is None:
        return np.zeros(1, dtype=np.bool_)
    index = [place for place, name in enumerate(names) if name in exempt]
    return np.isin(column, np.array(index, dtype=np.int64))


def rail_name(rail: GuardRail) -> str:
    """A rail's name for people, `starvation bound` for StarvationBound."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", type(rail).__name__).lower()


def default_guard_rails(
    starvation_bound: float, reserve: GuardRail | None = None
) -> tuple[GuardRail, ...]:
    """The rails in their order."""
    rails: tuple[GuardRail, ...] = (FiniteScores(),)
    if reserve is not None:
        rails += (reserve,)
    if np.isfinite(starvation_bound):
        rails += (StarvationBound(bound=starvation_bound),)
    return rails


@dataclass(slots=True, kw_only=True)
class PolicyGuard:
    """Keeps the policy's memory between decisions, and counts its failures."""

    guard_rails: Sequence[GuardRail]  #: in the order of their checks
    deadline: float  #: of a decision, seconds
    breaker_failures: int  #: in a row, after which the policy rests
    breaker_rest: int  #: decisions
    monotonic: Callable[[], float]  #: seconds
    memory_file: MemoryFile  #: written at once, then every MEMORY_INTERVAL, and by `remember`
    memory: Memory | None = field(init=False)  #: for the next decision
    acted: tuple[str, ...] = ()  #: names of the guard rails that changed the last decision
    #: When the memory file was last written; None where a write is due.
    _written: float | None = None
    _is_kept: bool = True  #: whether the file holds the memory
    _failures: int = 0
    _rest: int = 0
    _reason: str | None = None

    def __post_init__(self) -> None:
        self.memory = self.memory_file.read()

    def begin_anew(self) -> None:
        """Read the memory file again; another daemon may have written it."""
        self.memory = self.memory_file.read()
        self._written, self._is_kept, self._reason, self.acted = None, True, None, ()
        self._failures = self._rest = 0

    def remember(self) -> None:
        """Write the memory file if the memory has changed."""
        if self.memory is not None and not self._is_kept:
            self.memory_file.write(self.memory)
            self._is_kept, self._written = True, self.monotonic()

    def decide(
        self,
        policy: Policy,
        snapshot: QueueSnapshot,
        seen: QueueSnapshot | None = None,
        *,
        remembers: bool = True,
    ) -> tuple[Decision, str | None]:
        """The guarded decision, and why it is FIFO's if so; never raises PolicyError.

        The policy sees `seen`, which has the lifts, or the queue as it is. It `remembers` unless
        the running jobs are those of an earlier poll: some of them may have ended.
        """
        try:
            decision = self._checked(policy, snapshot, seen or snapshot, remembers=remembers)
            if len(snapshot.pending):  # an empty queue proves nothing about a failing policy
                self._reason = None
            return decision, self._reason
        except PolicyError as error:
            self._count_failure()
            self._reason = str(error)
            logger.warning("fallback=yes reason=%s", error)
            return rule_policy("fifo").decide(snapshot), self._reason

    def _count_failure(self) -> None:
        if self._rest:
            self._rest -= 1
            return
        self._failures += 1
        if self._failures % self.breaker_failures == 0:
            self._rest = self.breaker_rest

    def _checked(
        self, policy: Policy, snapshot: QueueSnapshot, seen: QueueSnapshot, *, remembers: bool
    ) -> Decision:
        self.acted = ()
        if self._rest:
            raise PolicyError(self._reason)
        begin = self.monotonic()
        decision = self._asked(policy, seen)
        took = self.monotonic() - begin
        for rail in self.guard_rails:
            before, decision = decision, rail.check(decision, snapshot)
            if decision is not before:
                self.acted += (rail_name(rail),)
        if remembers:
            self.memory = decision.memory  # of a late decision too, since a job ends only once
            self._is_kept = False
            if self._written is None or begin - self._written >= MEMORY_INTERVAL:
                self.remember()
        if took > self.deadline:
            raise PolicyTimeout(
                f"the policy took {took:.2f} s, its deadline is {self.deadline:g} s: raise it or "
                "take a smaller model."
            )
        self._failures = 0
        return decision

    def _asked(self, policy: Policy, snapshot: QueueSnapshot) -> Decision:
        try:
            return policy.decide(snapshot, self.memory)
        except PolicyError:
            raise
        except Exception as error:  # a fault of a policy must not leave the queue unordered
            logger.exception("policy=broken")
            raise PolicyError(f"the policy broke ({type(error).__name__}: {error}).") from error
