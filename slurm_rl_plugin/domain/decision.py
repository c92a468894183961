"""What a policy says: a score for each pending job, and processors to keep free of batch work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: What a policy remembers from one decision to the next; only the policy knows what it means.
Memory = FloatArray
#: Part of the influence by which a written term may be off: ranks shift with every arrival.
INFLUENCE_TOLERANCE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a policy decides in one cycle: scores, a reserve, and what it remembers."""

    scores: FloatArray  #: float64[n], one for each pending job; higher starts earlier
    #: Processors to keep free of batch work; 0 is the papers' greedy model, None the site's choice.
    reserve: int | None = None
    memory: Memory | None = None  #: for the policy's next decision; None for one without
    #: Returns seconds below which parts of such runs end (`run_history.PARTS`), shape [n,
    #: parts]; called by `explain` and by evaluations only. None without predictions.
    run_times: Callable[[], FloatArray] | None = None
    #: Jobs of a higher step go before those of a lower one, also where the site's own priority
    #: bounds the weight of the order; the site's points and a user's own order move jobs within a
    #: step only; int64[n]. None where all jobs have one step.
    steps: IntArray | None = None
    #: Jobs whose place a guard rail gave: no other job of their users takes it; bool[n].
    kept: BoolArray | None = None

    def putting_first(self, places: IntArray) -> Self:
        """The decision with the jobs at these places before all others, in this order."""
        # ranks, because next to a huge score the steps between the first jobs would be lost
        _, rank = np.unique(self.scores, return_inverse=True)
        scores = rank.astype(np.float64)
        scores[places] = len(scores) + np.arange(len(places))[::-1]
        steps = np.zeros(len(scores), dtype=np.int64)
        steps[places] = 1
        return replace(self, steps=steps).keeping(places, scores)

    def keeping(self, places: IntArray, scores: FloatArray) -> Self:
        """The decision with other scores, in which the jobs at these places keep theirs."""
        kept = np.zeros(len(scores), dtype=np.bool_) if self.kept is None else self.kept.copy()
        kept[places] = True
        return replace(self, scores=scores, kept=kept)
