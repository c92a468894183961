"""The policy port: the one thing that a way of ordering the queue must offer."""

from __future__ import annotations

from typing import Protocol

from slurm_rl_plugin.domain import Decision, Memory, QueueSnapshot


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
