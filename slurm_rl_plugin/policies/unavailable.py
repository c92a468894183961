"""Stands in for a model that could not be loaded, so that the daemon falls back and says why."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_rl_plugin.domain import Decision, Memory, QueueSnapshot
from slurm_rl_plugin.errors import PolicyError


@dataclass(frozen=True, slots=True, kw_only=True)
class UnavailablePolicy:
    """Refuses every decision with the reason for which the model was not loaded."""

    name: str
    reason: PolicyError

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        """Raise the reason for which the model cannot be used, so that the fallback decides.

        Raises:
            PolicyError: always.
        """
        del snapshot, memory
        raise type(self.reason)(str(self.reason))
