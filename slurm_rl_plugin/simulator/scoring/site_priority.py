"""A site's own multifactor priority, compiled."""

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
from slurm_rl_plugin.simulator.kernel.workload import Workload, copied
from slurm_rl_plugin.units import HOUR, FloatArray, IntArray

_fair_tree_factors = compiled_copy(share_tree.fair_tree_factors, best_first=best_first)
_classic_factors = compiled_copy(share_tree.classic_factors)
#: Indices into `FairShare.moments`: until when usage is counted, and the last calculation.
_COUNTED, _CALCULATED = 0, 1
#: Indices into `FairShare.seen`: starts, runs that have not ended, resets; and their number.
_STARTS, _RUNNING, _RESETS, _SEEN = 0, 1, 2, 3


class FairShare(NamedTuple):
    """Accounts and users of a replay, m associations; `refresh` changes the last five in place."""

    tree: RankedTree  #: see RankedTree
    #: Place in the tree of each job, shape [n]; shape [0] where only accounts are known: then the
    #: root has one association for each, in their order.
    association: IntArray
    classic: bool  #: fair share is the classic one; otherwise Fair Tree
    dampening: float  #: FairShareDampeningFactor
    half_life: float  #: of usage, seconds; inf for no decay
    #: Whether a run counts until its end; otherwise until the last calculation before its end, as
    #: in slurmctld without enforced limits.
    counts_ends: bool
    #: The first calculation after each of these times multiplies usage by `kept`; ascending.
    resets: FloatArray
    kept: float  #: 0 for a reset; the rest after one step of decay for OpenPBS
    seen: IntArray  #: see the index names above
    running: IntArray  #: counted jobs that have not ended, the first seen[_RUNNING] entries, [n]
    moments: FloatArray  #: seconds; see the index names above
    usage: FloatArray  #: of each association, without those below it, shape [m]
    factors: FloatArray  #: of the last calculation, shape [m]

    def of_jobs(self, jobs: IntArray) -> FairShare:
        """The same for some of the jobs; a job may come twice."""
        if len(self.association) == 0:
            return self
        return self._replace(association=self.association[jobs], running=np.zeros_like(jobs))

    def resume(self, before: FairShare) -> None:
        """Take over usage and factors from before a replay, if both know the same tree."""
        if len(before.association) > 0 and len(before.usage) == len(self.usage):
            for mine, known in zip(self[-3:], before[-3:], strict=True):
                mine[:] = known

    def holding(self, usage: FloatArray, now: float) -> FairShare:
        """The same before a calculation, with the usage of each association until now, [m]."""
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
    """Of accounts that have only shares, shape [accounts]."""
    root = share_tree.ROOT
    rows = [Association(root, str(at), share=share) for at, share in enumerate(shares.tolist())]
    return fair_share(ShareTree.of(rows), classic=classic)


@compiled_borrowing
def last_calculation(priority: SitePriority, time: float) -> float:
    """When priorities were last calculated, seconds."""
    return np.floor((time - priority.first) / priority.period) * priority.period + priority.first


@compiled_borrowing
def _charged(fair: FairShare, begin: float, end: float, now: float) -> float:
    """The decayed usage at `now` of a rate of 1 between two times."""
    if np.isinf(fair.half_life):
        return end - begin
    rate = np.log(2.0) / fair.half_life
    return (np.exp(-rate * (now - end)) - np.exp(-rate * (now - begin))) / rate


@compiled_borrowing
def _count_until(cluster: Cluster, priority: SitePriority, time: float) -> None:
    fair = priority.fair
    moments, seen, running = fair.moments, fair.seen, fair.running
    if np.isinf(moments[_COUNTED]):
        moments[_COUNTED] = time  # no job has run
    last = moments[_COUNTED]
    if time < last:
        return  # a replay began after the last calculation
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
    _charge_runs(cluster, priority, last)


@compiled_borrowing
def _charge_runs(cluster: Cluster, priority: SitePriority, last: float) -> None:
    fair = priority.fair
    time, seen, running = fair.moments[_COUNTED], fair.seen, fair.running
    all_along, still = _charged(fair, last, time, time), 0
    for place in range(seen[_RUNNING]):
        job = running[place]
        begin = cluster.start[job]
        end = begin + cluster.jobs[job].run_time
        charged = all_along
        if end < time:
            if not fair.counts_ends and priority.period > 0.0:
                end = last_calculation(priority, end)
            begin = max(begin, last)
            charged = _charged(fair, begin, end, time) if end > begin else 0.0
        else:
            running[still] = job
            still += 1
            if begin > last:
                charged = _charged(fair, begin, time, time)
        fair.usage[fair.association[job]] += cluster.jobs[job].billed * charged
    seen[_RUNNING] = still


@compiled_borrowing
def _usage_until(cluster: Cluster, priority: SitePriority, time: float) -> None:
    fair = priority.fair
    while fair.seen[_RESETS] < len(fair.resets):
        reset = fair.resets[fair.seen[_RESETS]]
        if priority.period > 0.0:
            reset = last_calculation(priority, reset) + priority.period
        if reset > time:
            break
        fair.seen[_RESETS] += 1
        if reset >= fair.moments[_COUNTED]:  # not before a replay that begins later
            _count_until(cluster, priority, reset)
            for at in range(len(fair.usage)):
                fair.usage[at] *= fair.kept
    _count_until(cluster, priority, time)


@compiled
def refresh(cluster: Cluster, priority: SitePriority, time: float) -> None:
    """Make the fair-share factors of the calculation at `time`, seconds, unless they are made."""
    fair = priority.fair
    if fair.moments[_CALCULATED] == time:
        return
    fair.moments[_CALCULATED] = time
    usage = np.zeros(len(fair.usage))
    if len(fair.association) == 0:
        usage[1:] = cluster.accounts.usage
    else:
        _usage_until(cluster, priority, time)
        usage[:] = fair.usage
    for at in range(len(usage) - 1, 0, -1):
        usage[fair.tree.parent[at]] += usage[at]
    if fair.classic:
        _classic_factors(fair.tree, usage, usage, fair.dampening, fair.factors)
    else:
        _fair_tree_factors(fair.tree, usage, fair.factors)


class SitePriority(NamedTuple):
    """Points of every job of a workload. Age and fair share change while a job waits."""

    #: That never change (size, partition, QOS, resources, nice), shape [n]; shape [0] for those of
    #: `size` alone.
    points: FloatArray
    age: float  #: points of the highest age
    highest_age: float  #: seconds
    fairshare: float  #: points of the highest fair share
    #: Seconds between two calculations (PriorityCalcPeriod); before its first one a job has no age.
    #: 0 calculates at every decision.
    period: float
    first: float = 0.0  #: when slurmctld first calculated, seconds, modulo the period
    size: float = 0.0  #: points of a job that asks for all processors; 0 if `points` has them
    #: The part of `points` from partition, QOS and association, shape [n]; shape [0] where a full
    #: order does not keep them.
    standing: FloatArray = np.empty(0)
    span: float = 0.0  #: points that a full order replaces: the most of age, fair share and size
    #: Accounts and users with their usage; without accounts, those of the workload by its shares.
    fair: FairShare = fair_share_of_accounts(np.empty(0))

    @property
    def points_an_hour(self) -> float:
        """Points that a job gains by an hour of waiting."""
        return self.age * HOUR / self.highest_age

    def of_jobs(self, jobs: IntArray) -> SitePriority:
        """The same for some of the jobs; a job may come twice."""
        points = self.points[jobs] if len(self.points) else self.points
        standing = self.standing[jobs] if len(self.standing) else self.standing
        return self._replace(points=points, standing=standing, fair=self.fair.of_jobs(jobs))

    def before(self, workload: Workload) -> SitePriority:
        """The same for a run of a workload that has not begun."""
        if len(self.fair.association) > 0:
            return self._replace(fair=copied(self.fair))
        fair = fair_share_of_accounts(workload.shares, classic=self.fair.classic)
        return self._replace(fair=fair)

    def counted(self, cluster: Cluster, time: float) -> FairShare:
        """What was charged until a time, seconds, for a replay that begins then."""
        if len(self.fair.association) == 0:
            return self.fair
        seen = copied(self)
        if self.period > 0.0:
            refresh(cluster, seen, last_calculation(self, time))
        if self.fair.counts_ends or self.period <= 0.0:
            _usage_until(cluster, seen, time)
        return seen.fair


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
def calculate(cluster: Cluster, priority: SitePriority) -> float:
    """Make the fair-share factors of the last calculation; when it was, seconds."""
    time = cluster.state[0].now
    if priority.period > 0.0:
        time = last_calculation(priority, time)
    if priority.fairshare != 0.0:
        refresh(cluster, priority, time)
    return time


@compiled_borrowing
def site_points(cluster: Cluster, priority: SitePriority, job: int, calculated: float) -> float:
    """The priority that the site gives a pending job now, whole points; see `calculate`."""
    waited = min(max(calculated - cluster.jobs[job].submit, 0.0) / priority.highest_age, 1.0)
    points = priority.age * waited
    if len(priority.points) > 0:
        points += priority.points[job]
    if priority.size > 0.0:
        points += priority.size * (cluster.jobs[job].processors / cluster.state[0].capacity)
    if priority.fairshare != 0.0:
        fair, place = priority.fair, cluster.jobs[job].account + 1
        if len(fair.association) > 0:
            place = fair.association[job]
        points += priority.fairshare * fair.factors[place]
    return np.floor(points)


@compiled
def score_by_site(
    cluster: Cluster, priority: SitePriority, scores: FloatArray, jobs: IntArray
) -> int:
    """Fill `scores` with whole points of the pending jobs, `jobs` with their numbers; reserve 0."""
    calculated = calculate(cluster, priority)
    for place in range(cluster.state[0].pending):
        job = cluster.pending[place]
        scores[place], jobs[place] = site_points(cluster, priority, job, calculated), job
    return 0
