"""The policy port, and the policy that replaces a model that could not be loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from slurm_rl_plugin.domain import Decision, Memory, QueueSnapshot
from slurm_rl_plugin.errors import PolicyError


class Policy(Protocol):
    """Ranks the pending jobs of a snapshot."""

    @property
    def name(self) -> str:
        """Name in reports and metrics."""
        ...

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        """Score every pending job; higher starts earlier.

        Raises:
            PolicyError: the policy cannot decide; the hook falls back to FIFO.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UnavailablePolicy:
    """Raises the reason for which the model was not loaded at every decision."""

    name: str
    reason: PolicyError

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        """Raise the reason, so that the fallback decides."""
        del snapshot, memory
        raise type(self.reason)(str(self.reason))
