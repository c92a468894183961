"""What a site and its users said of the order, kept in ours: points of QOS and the like, nice."""

from __future__ import annotations

from dataclasses import dataclass
from operator import ge

import numpy as np

from slurm_rl_plugin.domain import PendingJobs
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidOrder:
    """What moves jobs after they were ordered by score.

    Attributes:
        span: points that our order stands for where it wins, next to those of QOS, partition and
            association; None where these move no job.
        nice: of each pending job as its user meant it, lower first, shape [n]; None for that of
            the batch system.
        steps, kept: see `Decision`.
    """

    span: float | None = None
    nice: IntArray | None = None
    steps: IntArray | None = None
    kept: BoolArray | None = None

    def kept_in(self, order: IntArray, pending: PendingJobs) -> IntArray:
        """The order with what was said: first the site's points, then each user's own order.

        Args:
            order: places of the orderable jobs by score, first to start first, shape [m].
            pending: the queue of n jobs.
        """
        if self.span is not None:
            order = in_site_order(pending, order, self.span, self.steps, self.kept)
        nice = pending.nice if self.nice is None else self.nice
        return in_own_order(pending, order, nice, self.steps, self.kept)


def in_site_order(
    pending: PendingJobs,
    order: IntArray,
    span: float,
    steps: IntArray | None = None,
    kept: BoolArray | None = None,
) -> IntArray:
    """Order jobs by the points of their place in our order, plus the site's own for them.

    Of m jobs the first place is worth `span` points, each further one 1/m of them less.

    Args:
        pending: the queue of n jobs.
        order: places of the orderable jobs, first to start first, shape [m].
        span: points that our order stands for: those of age, fair share and size.
        steps: jobs pass others of their step only; see `Decision`.
        kept: such a job counts for as much as the best of its account, so that it stays before
            them; see `Decision`.

    Returns:
        As `order`.
    """
    if pending.standing is None:
        return order
    standing = pending.standing[order].astype(np.float64)
    if not (standing != standing[:1]).any():
        return order
    places = np.arange(len(order))
    if kept is not None:
        best = _best_of_account(pending.jobs.account[order], standing)
        standing = np.where(kept[order], best, standing)
    value = span * (len(order) - places) / len(order) + standing
    step = np.zeros(len(order), dtype=np.int64) if steps is None else steps[order]
    ordered = order.copy()
    ordered[np.argsort(step, kind="stable")] = order[np.lexsort((places, -value, step))]
    return ordered


def _best_of_account(account: IntArray, standing: FloatArray) -> FloatArray:
    """The highest standing of each job's account, shape [m]."""
    best = np.full(account.max() + 1, -np.inf)
    np.maximum.at(best, account, standing)
    return np.asarray(best[account])


def in_own_order(
    pending: PendingJobs,
    order: IntArray,
    nice: IntArray,
    steps: IntArray | None = None,
    kept: BoolArray | None = None,
) -> IntArray:
    """Put each user's jobs in the order of their nice, lower first, equal nice as they are.

    The jobs of one user, account, partition and QOS exchange places, as `scontrol top` has it. A
    job moves forward only to the place of a job that is as large and asks for as much time, or
    more. Else those of higher nice move back to behind it. So no other user's job gets more work
    before it.

    Args:
        pending: the queue of n jobs.
        order: places of the orderable jobs, first to start first, shape [m].
        nice: of each pending job, lower first, shape [n].
        steps: jobs move among others of their step only; see `Decision`.
        kept: jobs that keep their places; see `Decision`. One of an unknown user does too.

    Returns:
        As `order`.
    """
    if not nice[order].any():
        return order
    may = pending.jobs.user >= 0 if kept is None else (pending.jobs.user >= 0) & ~kept
    places = np.flatnonzero(may[order])
    jobs = order[places]
    own, groups = nice[jobs], own_jobs(pending)[jobs]
    step = np.zeros(len(jobs), dtype=np.int64) if steps is None else steps[jobs]
    given = np.lexsort((places, step, groups))
    wanted = np.lexsort((places, own, step, groups))
    borders = np.flatnonzero(np.diff(groups[given]) | np.diff(step[given])) + 1
    edges = [0, *borders.tolist(), len(jobs)]
    place, turn, number = np.arange(len(order)), np.zeros_like(order), np.zeros_like(jobs)
    turn[places[wanted]] = number[given] = np.arange(len(jobs))
    asks = pending.jobs.size[jobs], np.nan_to_num(pending.jobs.time_limit[jobs], nan=np.inf)
    differs = np.searchsorted(borders, np.flatnonzero(given != wanted), side="right")
    for group in np.unique(differs).tolist():
        start, end = edges[group : group + 2]
        mine, sequence = given[start:end], wanted[start:end]
        slots = _slots(number[sequence] - start, *(each[mine] for each in asks))
        place[places[sequence]] = places[mine[slots]]
    return order[np.lexsort((turn, place))]


def _slots(sequence: IntArray, size: FloatArray, limit: FloatArray) -> list[int]:
    """Which of the places of k jobs each gets, in their sequence; some share one.

    Args:
        sequence: numbers of the jobs as they are to go, shape [k]; by place they are 0 to k - 1.
        size: processors that the job of each place weighs, shape [k].
        limit: seconds that it asks for, shape [k].
    """
    asks = list(zip(size.tolist(), limit.tolist(), strict=True))
    slot_of = list(range(len(asks)))
    holder, last, found = slot_of.copy(), -1, []
    for job in sequence.tolist():
        if slot_of[job] > last:
            last += 1
            while last < slot_of[job] and not all(map(ge, asks[last], asks[job])):
                last += 1
            other, left = holder[last], slot_of[job]
            slot_of[other], holder[left] = left, other
            slot_of[job], holder[last] = last, job
        found.append(last)
    return found


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
