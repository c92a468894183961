"""What a site and its users said of the order, kept in ours: points of QOS and the like, nice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.domain import PendingJobs
from slurm_rl_plugin.units import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidOrder:
    """What moves jobs after they were ordered by score.

    Attributes:
        span: points that our order stands for where it wins, next to those of QOS, partition and
            association; None where these move no job.
        nice: of each pending job as its user meant it, lower first, shape [n]; None for that of
            the batch system.
        among: see `Decision.among`.
    """

    span: float | None = None
    nice: IntArray | None = None
    among: IntArray | None = None

    def kept_in(self, order: IntArray, pending: PendingJobs) -> IntArray:
        """The order with what was said: first the site's points, then each user's own order.

        Args:
            order: places of the orderable jobs by score, first to start first, shape [m].
            pending: the queue of n jobs.
        """
        if self.span is not None:
            order = in_site_order(pending, order, self.span, self.among)
        nice = pending.nice if self.nice is None else self.nice
        return in_own_order(pending, order, nice, self.among)


def in_site_order(
    pending: PendingJobs, order: IntArray, span: float, among: IntArray | None = None
) -> IntArray:
    """Order jobs by the points of their place in our order, plus the site's own for them.

    Of m jobs the first place is worth `span` points, each further one 1/m of them less.

    Args:
        pending: the queue of n jobs.
        order: places of the orderable jobs, first to start first, shape [m].
        span: points that our order stands for: those of age, fair share and size.
        among: jobs pass others of their set only; see `Decision.among`. A job that keeps its place
            counts for as much as the best of its account, so that it stays before them.

    Returns:
        As `order`.
    """
    if pending.standing is None:
        return order
    standing = pending.standing[order].astype(np.float64)
    if not (standing != standing[:1]).any():
        return order
    places, sets = np.arange(len(order)), np.zeros(len(order), dtype=np.int64)
    if among is not None:
        kept = among[order] < 0
        sets = np.where(kept, -1 - among[order], among[order])
        best = _best_of_account(pending.jobs.account[order], standing)
        standing = np.where(kept, best, standing)
    value = span * (len(order) - places) / len(order) + standing
    ordered = order.copy()
    ordered[np.argsort(sets, kind="stable")] = order[np.lexsort((places, -value, sets))]
    return ordered


def _best_of_account(account: IntArray, standing: FloatArray) -> FloatArray:
    """The highest standing of each job's account, shape [m]."""
    best = np.full(account.max() + 1, -np.inf)
    np.maximum.at(best, account, standing)
    return np.asarray(best[account])


def in_own_order(
    pending: PendingJobs, order: IntArray, nice: IntArray, among: IntArray | None = None
) -> IntArray:
    """Permute the places of each user's jobs: lower nice first, equal nice as they are.

    The jobs of one user, account, partition and QOS exchange places, as `scontrol top` has it. The
    place of any other job stays.

    Args:
        pending: the queue of n jobs.
        order: places of the orderable jobs, first to start first, shape [m].
        nice: of each pending job, lower first, shape [n].
        among: jobs exchange places with others of their set only; see `Decision.among`. A job of
            an unknown user keeps its place too.

    Returns:
        As `order`.
    """
    if not nice[order].any():
        return order
    anywhere = np.zeros(len(pending), dtype=np.int64)
    sets = (anywhere if among is None else among)[order]
    places = np.flatnonzero((pending.jobs.user[order] >= 0) & (sets >= 0))
    own, groups, sets = nice[order[places]], own_jobs(pending)[order[places]], sets[places]
    taken = places[np.lexsort((places, sets, groups))]
    given = places[np.lexsort((places, own, sets, groups))]
    permuted = order.copy()
    permuted[taken] = order[given]
    return permuted


def own_jobs(pending: PendingJobs) -> IntArray:
    """Number of the user, account, partition and QOS that each pending job is of, shape [n].

    A job that may also start in a partition of a higher tier is of that tier.
    """
    jobs = pending.jobs
    parts = [jobs.user, jobs.account, jobs.partition, pending.each_tier]
    if pending.qos is not None:
        parts.append(pending.qos)
    found = np.zeros(len(pending), dtype=np.int64)
    for part in parts:
        _, number = np.unique(part, return_inverse=True)
        found = found * (number.max(initial=0) + 1) + number
    return found
