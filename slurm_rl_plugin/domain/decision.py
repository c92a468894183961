"""What a policy says: a score for each pending job, and processors to keep free of batch work."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_rl_plugin.units import FloatArray

#: What a policy remembers from one decision to the next; only the policy knows what it means.
Memory = FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a policy decides in one cycle: scores, a reserve, and what it remembers.

    Attributes:
        scores: float64[n], one for each pending job of the snapshot; higher starts earlier.
        reserve: processors to keep free of batch work; 0 is the papers' greedy model.
        memory: the policy's memory for its next decision; None for a policy without one.
    """

    scores: FloatArray
    reserve: int = 0
    memory: Memory | None = None
