"""What each week would have cost under the site's own order and under the model, by replays.

A replay begins weeks before what is counted of it: where a queue never empties, what an order costs
comes long after it was decided. On SDSC-SP2 replays of single days say that a model gains more and
more, while in truth it loses half of its gain; those of eight weeks agree with the truth
(docs/drift.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.domain.switchback import OURS, SITE, TurnBlock
from slurm_rl_plugin.units import DAY, BoolArray, FloatArray, IntArray
from slurm_rl_plugin.what_if.switchback.costs import GOALS, JobTimes
from slurm_rl_plugin.what_if.switchback.replayed_blocks import ReplayedCluster

WEEK = 7.0 * DAY
#: Weeks that a replay is played before those that count.
LEAD = 7
#: What is counted: the goal that a model is trained for.
_GOAL = GOALS["bounded_slowdown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeeklyCosts:
    """Consecutive or other weeks, shape [n] each.

    Attributes:
        begin: seconds.
        by_site: slowdown that waiting jobs gather in an hour, under the site's own order.
        by_ours: the same under the model.
    """

    begin: FloatArray
    by_site: FloatArray
    by_ours: FloatArray

    def __len__(self) -> int:
        return len(self.begin)

    @classmethod
    def none(cls) -> WeeklyCosts:
        """Of no week."""
        return cls(begin=np.empty(0), by_site=np.empty(0), by_ours=np.empty(0))

    def joined(self, later: WeeklyCosts) -> WeeklyCosts:
        """These and later ones."""
        return WeeklyCosts(
            begin=np.concatenate([self.begin, later.begin]),
            by_site=np.concatenate([self.by_site, later.by_site]),
            by_ours=np.concatenate([self.by_ours, later.by_ours]),
        )

    def of(self, chosen: BoolArray | IntArray) -> WeeklyCosts:
        """Some of them."""
        return WeeklyCosts(
            begin=self.begin[chosen], by_site=self.by_site[chosen], by_ours=self.by_ours[chosen]
        )


def weekly_costs(
    cluster: ReplayedCluster,
    begin: float,
    weeks: int,
    *,
    at_once: int = 1,
    progress: Callable[[int], None] | None = None,
) -> WeeklyCosts:
    """Play weeks that are over again, from the queue that was met LEAD weeks before.

    Args:
        cluster: whose orders SITE and OURS are compared.
        begin: of the first week, seconds.
        weeks: so many.
        at_once: weeks that count of one replay; more cost less, and have longer leads.
        progress: called with the number of weeks that are done.
    """
    found = WeeklyCosts.none()
    for first in range(0, weeks, at_once):
        count = min(at_once, weeks - first)
        found = found.joined(_replayed(cluster, begin + first * WEEK, count))
        if progress is not None:
            progress(count)
    return found


def _replayed(cluster: ReplayedCluster, begin: float, weeks: int) -> WeeklyCosts:
    begins = begin + WEEK * np.arange(weeks, dtype=np.float64)
    whole = TurnBlock(begin=begin - LEAD * WEEK, end=begin + weeks * WEEK, arm=SITE, pair=-1)
    by = {arm: _costs(cluster.played(whole, arm), begins) for arm in (SITE, OURS)}
    return WeeklyCosts(begin=begins, by_site=by[SITE], by_ours=by[OURS])


def _costs(times: JobTimes, begins: FloatArray) -> FloatArray:
    return np.array([_GOAL.cost(times, float(each), float(each) + WEEK) for each in begins])
