"""Asks the policy, checks its answer, and takes FIFO's where it cannot be used."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from slurm_rl_plugin.domain import Decision, Memory, QueueSnapshot
from slurm_rl_plugin.errors import PolicyError, PolicyTimeout
from slurm_rl_plugin.hook.memory.records import MemoryFile
from slurm_rl_plugin.hook.rails.guard_rails import GuardRail, rail_name
from slurm_rl_plugin.policies.port import Policy
from slurm_rl_plugin.policies.registry import rule_policy

logger = logging.getLogger(__name__)

#: Seconds between two writes of the memory file; a kill loses what was learnt since the last one.
MEMORY_INTERVAL = 300.0


@dataclass(slots=True, kw_only=True)
class PolicyGuard:
    """Keeps the policy's memory between decisions, and counts its failures.

    Attributes:
        guard_rails: checks on each decision, in order.
        deadline: seconds that a decision may take.
        breaker_failures: failures in a row after which the policy rests.
        breaker_rest: decisions that it rests.
        monotonic: clock for the deadline and for the memory file, seconds.
        memory_file: keeps the memory across restarts; written every MEMORY_INTERVAL, the first
            time at once, and by `remember`.
    """

    guard_rails: Sequence[GuardRail]
    deadline: float
    breaker_failures: int
    breaker_rest: int
    monotonic: Callable[[], float]
    memory_file: MemoryFile
    _memory: Memory | None = field(init=False)
    #: When the memory file was last written; None where a write is due.
    _written: float | None = None
    #: Whether the file has it all.
    _is_kept: bool = True
    _failures: int = 0
    _rest: int = 0
    _reason: str | None = None
    _acted: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._memory = self.memory_file.read()

    def begin_anew(self) -> None:
        """Go on with what the file says; another daemon may have written it."""
        self._memory = self.memory_file.read()
        self._written, self._is_kept, self._reason, self._acted = None, True, None, ()
        self._failures = self._rest = 0

    @property
    def memory(self) -> Memory | None:
        """What the policy remembers for its next decision."""
        return self._memory

    def remember(self) -> None:
        """Write the memory file, where it does not know everything."""
        if self._memory is not None and not self._is_kept:
            self.memory_file.write(self._memory)
            self._is_kept, self._written = True, self.monotonic()

    @property
    def acted(self) -> tuple[str, ...]:
        """Names of the guard rails that changed the last decision."""
        return self._acted

    def decide(
        self,
        policy: Policy,
        snapshot: QueueSnapshot,
        seen: QueueSnapshot | None = None,
        *,
        remembers: bool = True,
    ) -> tuple[Decision, str | None]:
        """The guarded decision, and why it is FIFO's if it is; never raises PolicyError.

        Args:
            policy: decides.
            snapshot: the queue.
            seen: the queue as the policy sees it, with lifts; None for the queue as it is.
            remembers: False where running jobs are those of an earlier look: some have ended.
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
        self._acted = ()
        if self._rest:
            raise PolicyError(self._reason)
        begin = self.monotonic()
        decision = self._asked(policy, seen)
        took = self.monotonic() - begin
        for rail in self.guard_rails:
            before, decision = decision, rail.check(decision, snapshot)
            if decision is not before:
                self._acted += (rail_name(rail),)
        if remembers:
            self._memory = decision.memory  # of a late decision too: a job ends only once
            self._is_kept = False
            self._remember_now_and_then(begin)
        if took > self.deadline:
            raise PolicyTimeout(
                f"the policy took {took:.2f} s, its deadline is {self.deadline:g} s: raise it or "
                "take a smaller model."
            )
        self._failures = 0
        return decision

    def _remember_now_and_then(self, now: float) -> None:
        if self._written is None or now - self._written >= MEMORY_INTERVAL:
            self.remember()

    def _asked(self, policy: Policy, snapshot: QueueSnapshot) -> Decision:
        try:
            return policy.decide(snapshot, self._memory)
        except PolicyError:
            raise
        except Exception as error:  # a bug in a policy is no reason to leave the queue unordered
            logger.exception("policy=broken")
            raise PolicyError(f"the policy broke ({type(error).__name__}: {error}).") from error
