"""A user's order among his own jobs: the places that his jobs hold, given to them by nice."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.domain import PendingJobs
from slurm_rl_plugin.units import IntArray


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
        among: see `Decision.among`. A job of an unknown user keeps its place.

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
    """Number of the user, account, partition and QOS that each pending job is of, shape [n]."""
    jobs = pending.jobs
    parts = [jobs.user, jobs.account, jobs.partition]
    if pending.qos is not None:
        parts.append(pending.qos)
    found = np.zeros(len(pending), dtype=np.int64)
    for part in parts:
        _, number = np.unique(part, return_inverse=True)
        found = found * (number.max(initial=0) + 1) + number
    return found
