"""A site's own multifactor priority in the compiled loop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.policies.waiting_rules import (
    AGE_WEIGHT,
    FAIR_SHARE_WEIGHT,
    MAX_AGE,
    SIZE_WEIGHT,
    classic_fair_share,
)
from slurm_rl_plugin.simulator.kernel.cluster import NOW, PENDING, Cluster, whole_usage
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing, compiled_copy
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.units import HOUR, FloatArray, IntArray

_classic_fair_share = compiled_copy(classic_fair_share)


class SitePriority(NamedTuple):
    """Points of every job of a workload. Age and fair share change while a job waits.

    Attributes:
        points: that never change (size, partition, QOS, resources, nice), shape [n]; shape [0] if
            there are none but those of `size`.
        age: points of the highest age.
        highest_age: seconds.
        fairshare: points of the highest fair share.
        period: seconds between two calculations (PriorityCalcPeriod). A job has no age before the
            first calculation that sees it. 0 calculates at every decision.
        first: when slurmctld calculated for the first time, seconds; only its rest over the period
            matters.
        size: points of a job that asks for all processors; 0 if `points` counts the size.
        fair_tree: fair share is Slurm's Fair Tree over accounts; otherwise the classic one.
    """

    points: FloatArray
    age: float
    highest_age: float
    fairshare: float
    period: float
    first: float = 0.0
    size: float = 0.0
    fair_tree: bool = True

    @property
    def points_an_hour(self) -> float:
        """Points that a job gains by an hour of waiting."""
        return self.age * HOUR / self.highest_age

    def copy(self) -> SitePriority:
        """Itself: nothing here changes."""
        return self


def example_priority() -> SitePriority:
    """Slurm's documented example, for processors without a slurm.conf (docs/definitions.md)."""
    return SitePriority(
        points=np.zeros(0),
        age=AGE_WEIGHT,
        highest_age=MAX_AGE,
        fairshare=FAIR_SHARE_WEIGHT,
        period=0.0,
        size=SIZE_WEIGHT,
        fair_tree=False,
    )


@compiled_borrowing
def _fair_tree(workload: Workload, cluster: Cluster, account: int) -> float:
    """Fair Tree over accounts: the part of them that are not served better for their share.

    Slurm's priority/multifactor since 19.05: accounts rank by share over usage; equals rank alike.
    """
    usage, share = cluster.account_usage[account], workload.shares[account]
    behind = 0
    for other in range(len(workload.shares)):
        # share over usage of the other is no more than ours, without a division by nothing
        if workload.shares[other] * usage <= share * cluster.account_usage[other]:
            behind += 1
    return behind / len(workload.shares)


@compiled_borrowing
def _fair_share(
    workload: Workload, cluster: Cluster, priority: SitePriority, account: int, whole: float
) -> float:
    if priority.fair_tree:
        return _fair_tree(workload, cluster, account)
    used = cluster.account_usage[account] / whole if whole > 0.0 else 0.0
    return _classic_fair_share(used, workload.shares[account])


@compiled_borrowing
def site_points(
    workload: Workload, cluster: Cluster, priority: SitePriority, job: int, whole: float
) -> float:
    """The priority that the site gives a pending job now: whole points.

    Args:
        workload: the jobs.
        cluster: read only.
        priority: of the site.
        job: its number.
        whole: `whole_usage` of now.
    """
    calculated = cluster.clock[NOW]
    if priority.period > 0.0:
        since = calculated - priority.first
        calculated = np.floor(since / priority.period) * priority.period + priority.first
    waited = min(max(calculated - workload.submit[job], 0.0) / priority.highest_age, 1.0)
    points = priority.age * waited
    if len(priority.points) > 0:
        points += priority.points[job]
    if priority.size > 0.0:
        points += priority.size * (workload.processors[job] / cluster.capacity[0])
    if priority.fairshare > 0.0:
        account = workload.account[job]
        points += priority.fairshare * _fair_share(workload, cluster, priority, account, whole)
    return np.floor(points)


@compiled_borrowing
def score_by_site(
    workload: Workload,
    cluster: Cluster,
    priority: SitePriority,
    scores: FloatArray,
    jobs: IntArray,
) -> int:
    """Fill `scores` with whole points of the pending jobs, `jobs` with their numbers; reserve 0."""
    whole = whole_usage(cluster)
    for place in range(cluster.counts[PENDING]):
        job = cluster.pending[place]
        scores[place], jobs[place] = site_points(workload, cluster, priority, job, whole), job
    return 0
