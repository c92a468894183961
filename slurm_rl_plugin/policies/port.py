"""The policy port, and the policy that stands in for a model that could not be loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from slurm_rl_plugin.domain import Decision, Memory, QueueSnapshot
from slurm_rl_plugin.errors import PolicyError


class Policy(Protocol):
    """Ranks the pending jobs of a snapshot."""

    @property
    def name(self) -> str:
        """What reports and metrics call the policy."""
        ...

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        """Score every pending job; higher starts earlier.

        Raises:
            PolicyError: the policy cannot decide; the hook falls back to FIFO.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UnavailablePolicy:
    """Refuses every decision with the reason for which the model was not loaded."""

    name: str
    reason: PolicyError

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        """Raise the reason for which the model cannot be used, so that the fallback decides."""
        del snapshot, memory
        raise type(self.reason)(str(self.reason))
