"""Lifts: what accounts and groups of jobs count for in the order while they get less than is due.

Only a policy sees them. A lift moves slowly and is bounded, so it corrects a policy that is
wrong about them and never takes the order over.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.domain.job_groups import Grouping, grouped_by_limit, grouped_by_width
from slurm_rl_plugin.domain.jobs import JobTable
from slurm_rl_plugin.units import DAY, MINUTE, FloatArray

#: Doublings by which a lift moves in a day. What it answers to is a mean over a fortnight: eight
#: days to the bound leave that mean time to move first.
A_DAY = 0.25
#: Doublings at most: a quarter of the usage. What a lift of two cannot correct, a person must.
MOST = 2.0
#: Part of its entitlement below which an account is short of it. Running jobs do not stop at a
#: share, so nine tenths are usual where an order keeps shares (docs/order.md, 5 % quantile .87).
SHORT = 0.9
#: Standard deviations by which an account of small entitlement must be short before it is lifted:
#: one job more or less is much of its service.
SURE = 2.0
#: Times its target above which a group waits too long, and starts in a fortnight by which it is
#: judged: the mean of a hundred waits that differ much is known within a fifth.
LATE, ENOUGH_STARTS = 1.2, 100
#: A mean wait under the site's own order of less counts as so many seconds: nobody is robbed of it.
LEAST_TARGET = 5 * MINUTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifts:
    """Lifts in one cycle.

    Attributes:
        accounts: doublings of each account of the snapshot, shape [accounts]; empty where shares
            do not count.
        groups: doublings of each group of jobs that has a target.
        group_waits: mean wait of each group in the last fortnight, seconds; of those with
            ENOUGH_STARTS.
    """

    accounts: FloatArray = field(default_factory=lambda: np.empty(0))
    groups: Mapping[str, float] = field(default_factory=dict)
    group_waits: Mapping[str, float] = field(default_factory=dict)

    def seen(self, snapshot: QueueSnapshot) -> QueueSnapshot:
        """The snapshot as the policy sees it: less usage of lifted accounts, longer waits."""
        if self.accounts.any():
            snapshot = replace(snapshot, usage=snapshot.usage * np.exp2(-self.accounts))
        if any(self.groups.values()):
            counts = np.exp2(self._of_jobs(snapshot))
            snapshot = replace(snapshot, pending=replace(snapshot.pending, wait_counts=counts))
        return snapshot

    def _of_jobs(self, snapshot: QueueSnapshot) -> FloatArray:
        """Doublings of each pending job, shape [pending]: the greater of its two groups."""
        by_width, by_limit = (
            np.array([self.groups.get(name, 0.0) for name in each.names])[each.place]
            for each in groupings(snapshot.pending.jobs, snapshot.capacity)
        )
        return np.asarray(np.maximum(by_width, by_limit))


def groupings(jobs: JobTable, capacity: int) -> tuple[Grouping, Grouping]:
    """Jobs by width and by time limit."""
    width = grouped_by_width(jobs.processors, max(capacity, 1))
    return width, grouped_by_limit(jobs.time_limit)


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
