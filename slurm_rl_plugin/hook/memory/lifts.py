"""Lifts: what accounts count for in the order while they get less than their shares promise.

Only a policy sees them. A lift moves slowly and is bounded, so it corrects a policy that is
wrong about an account and never takes the order over.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.units import DAY, FloatArray

#: Doublings by which a lift moves in a day. What it answers to is a mean over a fortnight: eight
#: days to the bound leave that mean time to move first.
A_DAY = 0.25
#: Doublings at most: a quarter of the usage. What a lift of two cannot correct, a person must.
MOST = 2.0
#: Part of its entitlement below which an account is short of it. Running jobs do not stop at a
#: share, so nine tenths are usual where an order keeps shares (docs/order.md, 5 % quantile .87).
SHORT = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifts:
    """Lifts in one cycle.

    Attributes:
        accounts: doublings of each account of the snapshot, shape [accounts]; empty where shares
            do not count.
    """

    accounts: FloatArray = field(default_factory=lambda: np.empty(0))

    def seen(self, snapshot: QueueSnapshot) -> QueueSnapshot:
        """The snapshot as the policy sees it: with the usage of lifted accounts lowered."""
        if not self.accounts.any():
            return snapshot
        return replace(snapshot, usage=snapshot.usage * np.exp2(-self.accounts))


def moved(lifts: Mapping[str, float], rising: Collection[str], seconds: float) -> dict[str, float]:
    """The lifts after some time, those above 0: of rising names higher, of all others lower.

    Args:
        lifts: name -> doublings.
        rising: names.
        seconds: since the lifts were moved last.
    """
    step = A_DAY * seconds / DAY
    found = {name: lift - step for name, lift in lifts.items() if name not in rising}
    found |= {name: min(lifts.get(name, 0.0) + step, MOST) for name in rising}
    return {name: lift for name, lift in found.items() if lift > 0.0}
