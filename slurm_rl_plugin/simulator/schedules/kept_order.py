"""An order that is kept for a while: scores are made anew at times, and not at each decision.

A replay of thousands of jobs spends nearly all of its time on scores that hardly change. A hook
writes them once in a cycle too; a forecast of next week needs none of each minute.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from slurm_rl_plugin.simulator.kernel.best_first import best_first
from slurm_rl_plugin.simulator.kernel.cluster import NOW, PENDING, Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import OrderedQueue, score_queue
from slurm_rl_plugin.units import MINUTE, IntArray

#: An order is kept for so many seconds at least.
_AT_LEAST = MINUTE
#: Seconds that a run of exact scores goes on before it is looked at who has started, and how much
#: longer each time.
_FIRST_STRETCH, _LONGER = 600.0, 1.2


class RunUnderWay(Protocol):
    """A simulation that can be stopped."""

    @property
    def workload(self) -> Workload:
        """The jobs."""

    @property
    def cluster(self) -> Cluster:
        """As it stands."""

    def run_until(self, until: float, cycle: float = 0.0) -> None:
        """Let everything up to `until` happen; decisions are `cycle` seconds apart at least."""

    def order_anew(self) -> None:
        """Score the queue where its order is kept; else nothing."""


def rank_of_tiers(tier: IntArray) -> IntArray:
    """Ranks of jobs that nobody has scored yet: by tier, then by submission; shape [n].

    Below the unscored jobs of each tier there is place for as many scored ones.

    Args:
        tier: of each job, of which a higher one goes first, shape [n].
    """
    jobs = len(tier)
    return (tier.max(initial=0) - tier) * 2 * jobs + jobs + np.arange(jobs)


@compiled
def rank_anew(workload: Workload, cluster: Cluster, queue: OrderedQueue, rank: IntArray) -> int:
    """Rank the pending jobs by scores of now; who comes later goes behind them in his tier.

    Args:
        workload: the jobs.
        cluster: its pending jobs are put in that order.
        queue: scores them.
        rank: as `rank_of_tiers` gave it, and what this made of it; shape [n].

    Returns:
        The processors to keep free.
    """
    count, jobs = cluster.counts[PENDING], len(rank)
    if count == 0:
        return queue.reserve
    cluster.pending[:count] = np.sort(cluster.pending[:count])  # as scores are made
    reserve = score_queue(workload, cluster, queue)
    order = best_first(queue.scores, count)
    for place in range(count):
        order[place] = queue.jobs[order[place]]
    for place in range(count):
        job = order[place]
        rank[job] = rank[job] // (2 * jobs) * (2 * jobs) + place
    for place in range(1, count):
        if rank[order[place]] < rank[order[place - 1]]:
            order = order[best_first(-rank[order], count)]
            break
    cluster.pending[:count] = order
    return reserve


def run_until_started(run: RunUnderWay, awaited: IntArray, until: float, kept: float) -> None:
    """Let everything happen until all awaited jobs have started, and little more.

    Args:
        run: changed in place.
        awaited: jobs, shape [m].
        until: seconds; what has not started by then has NaN as its start.
        kept: the part of the time since the run was resumed for which an order is kept, and in
            which one decision is made, though no later than that part of a run; 0 where decisions
            are made at each event, by scores of then unless the order never changes.
    """
    began = time = float(run.cluster.clock[NOW])
    stretch = _FIRST_STRETCH
    longest = kept * _mean_run(run.workload)
    while time < until and np.isnan(run.cluster.start[awaited]).any():
        cycle = min(kept * (time - began), longest)
        if kept > 0.0:
            run.order_anew()
            stretch = max(kept * (time - began), _AT_LEAST)
        time = min(time + stretch, until)
        run.run_until(time, cycle)
        stretch *= _LONGER


def _mean_run(workload: Workload) -> float:
    """Seconds, of each processor: a wide job counts as many."""
    size = workload.size
    return float(size @ workload.run_time / max(size.sum(), 1.0))
