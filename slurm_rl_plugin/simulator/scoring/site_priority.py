"""A site's own multifactor priority in the compiled loop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.policies.waiting_rules import (
    AGE_WEIGHT,
    FAIR_SHARE_WEIGHT,
    MAX_AGE,
    SIZE_WEIGHT,
)
from slurm_rl_plugin.simulator.kernel.cluster import NOW, PENDING, Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_borrowing
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.scoring.fair_share import (
    FairShare,
    association_of,
    counted,
    fair_share_of_accounts,
    last_calculation,
    refresh,
)
from slurm_rl_plugin.units import HOUR, FloatArray, IntArray


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
        standing: the part of `points` that partition, QOS and association add, shape [n]; shape [0]
            where a full order does not keep them.
        span: points that a full order replaces: the most that age, fair share and size may add.
        fair: accounts and users with what they were charged; of no account for those of the
            workload, by its shares.
    """

    points: FloatArray
    age: float
    highest_age: float
    fairshare: float
    period: float
    first: float = 0.0
    size: float = 0.0
    standing: FloatArray = np.empty(0)
    span: float = 0.0
    fair: FairShare = fair_share_of_accounts(np.empty(0))

    @property
    def points_an_hour(self) -> float:
        """Points that a job gains by an hour of waiting."""
        return self.age * HOUR / self.highest_age

    def copy(self) -> SitePriority:
        """The same with a memory of its own of what was charged."""
        return self._replace(fair=self.fair.copy())

    def of_jobs(self, jobs: IntArray) -> SitePriority:
        """The same for some of the jobs, of which some may come twice."""
        points = self.points[jobs] if len(self.points) else self.points
        standing = self.standing[jobs] if len(self.standing) else self.standing
        return self._replace(points=points, standing=standing, fair=self.fair.of_jobs(jobs))

    def before(self, workload: Workload) -> SitePriority:
        """The same for a run of a workload that has not begun."""
        if len(self.fair.association) > 0:
            return self.copy()
        fair = fair_share_of_accounts(workload.shares, classic=self.fair.classic)
        return self._replace(fair=fair)

    def counted(self, workload: Workload, cluster: Cluster, time: float) -> FairShare:
        """What was charged until a time, seconds, for a replay that begins then."""
        return counted(workload, cluster, self.fair, time, self.period, self.first)


def example_priority() -> SitePriority:
    """Slurm's documented example, for processors without a slurm.conf (docs/definitions.md)."""
    return SitePriority(
        points=np.zeros(0),
        age=AGE_WEIGHT,
        highest_age=MAX_AGE,
        fairshare=FAIR_SHARE_WEIGHT,
        period=0.0,
        size=SIZE_WEIGHT,
        fair=fair_share_of_accounts(np.empty(0), classic=True),
    )


@compiled
def calculate(workload: Workload, cluster: Cluster, priority: SitePriority) -> float:
    """Make the fair-share factors of the last calculation; when it was, seconds."""
    time = cluster.clock[NOW]
    if priority.period > 0.0:
        time = last_calculation(time, priority.period, priority.first)
    if priority.fairshare != 0.0:
        refresh(workload, cluster, priority.fair, time, priority.period, priority.first)
    return time


@compiled_borrowing
def site_points(
    workload: Workload, cluster: Cluster, priority: SitePriority, job: int, calculated: float
) -> float:
    """The priority that the site gives a pending job now: whole points.

    Args:
        workload: the jobs.
        cluster: read only.
        priority: of the site.
        job: its number.
        calculated: as `calculate` returns it.
    """
    waited = min(max(calculated - workload.submit[job], 0.0) / priority.highest_age, 1.0)
    points = priority.age * waited
    if len(priority.points) > 0:
        points += priority.points[job]
    if priority.size > 0.0:
        points += priority.size * (workload.processors[job] / cluster.capacity[0])
    if priority.fairshare != 0.0:
        factors = priority.fair.factors
        points += priority.fairshare * factors[association_of(workload, priority.fair, job)]
    return np.floor(points)


@compiled
def score_by_site(
    workload: Workload,
    cluster: Cluster,
    priority: SitePriority,
    scores: FloatArray,
    jobs: IntArray,
) -> int:
    """Fill `scores` with whole points of the pending jobs, `jobs` with their numbers; reserve 0."""
    calculated = calculate(workload, cluster, priority)
    for place in range(cluster.counts[PENDING]):
        job = cluster.pending[place]
        scores[place], jobs[place] = site_points(workload, cluster, priority, job, calculated), job
    return 0
