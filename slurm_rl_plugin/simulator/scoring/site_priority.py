"""A site's own multifactor priority in the compiled loop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.domain import share_tree
from slurm_rl_plugin.domain.share_tree import Association, RankedTree, ShareTree
from slurm_rl_plugin.policies.waiting_rules import (
    AGE_WEIGHT,
    FAIR_SHARE_WEIGHT,
    MAX_AGE,
    SIZE_WEIGHT,
)
from slurm_rl_plugin.simulator.kernel.cluster import Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_borrowing, compiled_copy
from slurm_rl_plugin.simulator.kernel.dispatch import best_first
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.units import HOUR, FloatArray, IntArray

_fair_tree_factors = compiled_copy(share_tree.fair_tree_factors, best_first=best_first)
_classic_factors = compiled_copy(share_tree.classic_factors)
#: Indices into `FairShare.moments`: until when usage is counted, and when factors were made.
_COUNTED, _CALCULATED = 0, 1
#: Indices into `FairShare.seen`: starts, runs that have not ended, and resets; how many there are.
_STARTS, _RUNNING, _RESETS, _SEEN = 0, 1, 2, 3


class FairShare(NamedTuple):
    """Accounts and users of a replay, m associations; `refresh` changes the last five in place."""

    tree: RankedTree  #: see RankedTree
    #: Place in the tree of each job, shape [n]. Shape [0] where only accounts are known: the root
    #: has one association for each, in their order.
    association: IntArray
    classic: bool  #: fair share is the classic one; otherwise Fair Tree
    dampening: float  #: FairShareDampeningFactor
    half_life: float  #: of usage, seconds; inf for no decay
    #: A run counts until its end; otherwise until the last calculation before it, as slurmctld does
    #: where it enforces no limits.
    counts_ends: bool
    #: The first calculation behind each of these times multiplies all usage by `kept`; seconds,
    #: ascending.
    resets: FloatArray
    kept: float  #: 0 for a reset; of OpenPBS, which decays usage by steps, what a step leaves
    seen: IntArray  #: how many starts, runs and resets are counted; see the index names above
    #: Jobs that are counted and have not ended, the first seen[_RUNNING] entries, [n].
    running: IntArray
    moments: FloatArray  #: seconds; see the index names above
    usage: FloatArray  #: of each association, without those below it, shape [m]
    factors: FloatArray  #: of the last calculation, shape [m]

    def copy(self) -> FairShare:
        """The same with a memory of its own."""
        changing = ("seen", "running", "moments", "usage", "factors")
        return self._replace(**{name: getattr(self, name).copy() for name in changing})

    def of_jobs(self, jobs: IntArray) -> FairShare:
        """The same for some of the jobs, of which some may come twice."""
        if len(self.association) == 0:
            return self
        return self._replace(association=self.association[jobs], running=np.zeros_like(jobs))

    def resume(self, before: FairShare) -> None:
        """Take over usage and factors from `before` a replay, where both know the same tree."""
        if len(before.association) > 0 and len(before.usage) == len(self.usage):
            for mine, known in zip(self[-3:], before[-3:], strict=True):
                mine[:] = known

    def holding(self, usage: FloatArray, now: float) -> FairShare:
        """The same, not calculated yet, with the usage of each association until now, [m]."""
        return self._replace(moments=np.array([now, -np.inf]), usage=usage)


def fair_share(
    tree: ShareTree,
    association: IntArray | None = None,
    *,
    classic: bool = False,
    dampening: float = 1.0,
    half_life: float = np.inf,
    counts_ends: bool = True,
    resets: FloatArray | None = None,
    kept: float = 0.0,
) -> FairShare:
    """Before the first submission, without usage; see FairShare."""
    count = len(tree)
    places = np.empty(0, dtype=np.int64) if association is None else association
    return FairShare(
        tree=tree.ranked(),
        association=places,
        classic=classic,
        dampening=dampening,
        half_life=half_life,
        counts_ends=counts_ends,
        resets=np.empty(0) if resets is None else resets,
        kept=kept,
        seen=np.zeros(_SEEN, dtype=np.int64),
        running=np.zeros_like(places),
        moments=np.full(_CALCULATED + 1, -np.inf),
        usage=np.zeros(count),
        factors=np.zeros(count),
    )


def fair_share_of_accounts(shares: FloatArray, *, classic: bool = False) -> FairShare:
    """Of accounts of which nothing but shares is known, shape [accounts]."""
    root = share_tree.ROOT
    rows = [Association(root, str(at), share=share) for at, share in enumerate(shares.tolist())]
    return fair_share(ShareTree.of(rows), classic=classic)


@compiled_borrowing
def last_calculation(time: float, period: float, first: float) -> float:
    """When priorities were calculated last, seconds; arguments as of SitePriority."""
    return np.floor((time - first) / period) * period + first


@compiled_borrowing
def _charged(fair: FairShare, begin: float, end: float, now: float) -> float:
    """What a rate of 1 between two times has come to by `now`, decayed."""
    if np.isinf(fair.half_life):
        return end - begin
    rate = np.log(2.0) / fair.half_life
    return (np.exp(-rate * (now - end)) - np.exp(-rate * (now - begin))) / rate


@compiled_borrowing
def _count_until(
    workload: Workload, cluster: Cluster, fair: FairShare, time: float, period: float, first: float
) -> None:
    """Charge jobs to associations up to `time`."""
    moments, seen, running = fair.moments, fair.seen, fair.running
    if np.isinf(moments[_COUNTED]):
        moments[_COUNTED] = time  # nothing has run
    last = moments[_COUNTED]
    if time < last:
        return  # a replay began behind the last calculation
    moments[_COUNTED] = time
    if not np.isinf(fair.half_life):
        kept = 0.5 ** ((time - last) / fair.half_life)
        for at in range(len(fair.usage)):
            fair.usage[at] *= kept
    while seen[_STARTS] < cluster.state[0].started:
        job = cluster.started[seen[_STARTS]]
        if cluster.start[job] >= time:
            break
        running[seen[_RUNNING]] = job
        seen[_RUNNING] += 1
        seen[_STARTS] += 1
    _charge_runs(workload, cluster, fair, last, period, first)


@compiled_borrowing
def _charge_runs(
    workload: Workload, cluster: Cluster, fair: FairShare, last: float, period: float, first: float
) -> None:
    """Charge what has run since `last`, and forget what has ended."""
    time, seen, running = fair.moments[_COUNTED], fair.seen, fair.running
    all_along, still = _charged(fair, last, time, time), 0
    for place in range(seen[_RUNNING]):
        job = running[place]
        begin = cluster.start[job]
        end = begin + workload.jobs[job].run_time
        charged = all_along
        if end < time:
            if not fair.counts_ends and period > 0.0:
                end = last_calculation(end, period, first)
            begin = max(begin, last)
            charged = _charged(fair, begin, end, time) if end > begin else 0.0
        else:
            running[still] = job
            still += 1
            if begin > last:
                charged = _charged(fair, begin, time, time)
        fair.usage[fair.association[job]] += workload.jobs[job].billed * charged
    seen[_RUNNING] = still


@compiled_borrowing
def _usage_until(
    workload: Workload, cluster: Cluster, fair: FairShare, time: float, period: float, first: float
) -> None:
    """Charge jobs up to `time`, with every reset on the way."""
    while fair.seen[_RESETS] < len(fair.resets):
        reset = fair.resets[fair.seen[_RESETS]]
        if period > 0.0:
            reset = last_calculation(reset, period, first) + period
        if reset > time:
            break
        fair.seen[_RESETS] += 1
        if reset >= fair.moments[_COUNTED]:  # not before a replay that begins later
            _count_until(workload, cluster, fair, reset, period, first)
            for at in range(len(fair.usage)):
                fair.usage[at] *= fair.kept
    _count_until(workload, cluster, fair, time, period, first)


@compiled
def refresh(
    workload: Workload, cluster: Cluster, fair: FairShare, time: float, period: float, first: float
) -> None:
    """Make the factors of a calculation, if they are not made yet.

    Args:
        time: of the calculation, seconds.
    """
    if fair.moments[_CALCULATED] == time:
        return
    fair.moments[_CALCULATED] = time
    usage = np.zeros(len(fair.usage))
    if len(fair.association) == 0:
        for account in range(len(cluster.accounts)):
            usage[account + 1] = cluster.accounts[account].usage
    else:
        _usage_until(workload, cluster, fair, time, period, first)
        for at in range(len(usage)):
            usage[at] = fair.usage[at]
    for at in range(len(usage) - 1, 0, -1):
        usage[fair.tree.parent[at]] += usage[at]
    if fair.classic:
        _classic_factors(fair.tree, usage, usage, fair.dampening, fair.factors)
    else:
        _fair_tree_factors(fair.tree, usage, fair.factors)


def counted(
    workload: Workload, cluster: Cluster, fair: FairShare, time: float, period: float, first: float
) -> FairShare:
    """As it stands at a time, for a replay that begins then; arguments as of `refresh`."""
    if len(fair.association) == 0:
        return fair
    seen = fair.copy()
    if period > 0.0:
        refresh(workload, cluster, seen, last_calculation(time, period, first), period, first)
    if fair.counts_ends or period <= 0.0:
        _usage_until(workload, cluster, seen, time, period, first)
    return seen


@compiled_borrowing
def association_of(workload: Workload, fair: FairShare, job: int) -> int:
    """Place of a job's association in the tree."""
    if len(fair.association) > 0:
        return fair.association[job]
    return workload.jobs[job].account + 1


class SitePriority(NamedTuple):
    """Points of every job of a workload. Age and fair share change while a job waits."""

    #: That never change (size, partition, QOS, resources, nice), shape [n]; shape [0] if there are
    #: none but those of `size`.
    points: FloatArray
    age: float  #: points of the highest age
    highest_age: float  #: seconds
    fairshare: float  #: points of the highest fair share
    #: Seconds between two calculations (PriorityCalcPeriod). A job has no age before the first
    #: calculation that sees it. 0 calculates at every decision.
    period: float
    #: When slurmctld calculated for the first time, seconds; only its rest over the period matters.
    first: float = 0.0
    #: Points of a job that asks for all processors; 0 if `points` counts the size.
    size: float = 0.0
    #: The part of `points` that partition, QOS and association add, shape [n]; shape [0] where a
    #: full order does not keep them.
    standing: FloatArray = np.empty(0)
    #: Points that a full order replaces: the most that age, fair share and size may add.
    span: float = 0.0
    #: Accounts and users with what they were charged; of no account for those of the workload, by
    #: its shares.
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
    """Slurm's documented example, without a slurm.conf (docs/research/definitions.md)."""
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
    time = cluster.state[0].now
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
        calculated: as `calculate` returns it.
    """
    waited = min(max(calculated - workload.jobs[job].submit, 0.0) / priority.highest_age, 1.0)
    points = priority.age * waited
    if len(priority.points) > 0:
        points += priority.points[job]
    if priority.size > 0.0:
        points += priority.size * (workload.jobs[job].processors / cluster.state[0].capacity)
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
    for place in range(cluster.state[0].pending):
        job = cluster.pending[place]
        scores[place], jobs[place] = site_points(workload, cluster, priority, job, calculated), job
    return 0
