"""Age, fair share and usage by slurmctld's rules, readable: the simulator compiles the same.

`tests/real/test_priorities_of_sprio.py` compares each factor with `sprio`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.domain.machine import PriorityWeights
from slurm_rl_plugin.domain.share_tree import ShareTree, classic_factors, fair_tree_factors
from slurm_rl_plugin.domain.site_priority import CLASSIC
from slurm_rl_plugin.units import FloatArray, IntArray

#: slurmctld rounds ln 2 to this number, and uses the first two terms of the exponential.
_LN2 = 0.693
_HIGHEST = 2**32 - 1


def with_those_below(tree: ShareTree, own: FloatArray) -> FloatArray:
    """Amounts of each association and all below it, shape [n]."""
    whole = own.astype(np.float64)
    for at in range(len(tree) - 1, 0, -1):
        whole[tree.parent[at]] += whole[at]
    return whole


def age_factors(weights: PriorityWeights, accrued_since: FloatArray, now: float) -> FloatArray:
    """Part of PriorityMaxAge that jobs had waited at the calculation at `now`, shape [n]."""
    waited: FloatArray = np.clip((now - accrued_since) / weights.highest_age, 0.0, 1.0)
    return waited


def whole_points(points: FloatArray) -> IntArray:
    """Sums of points as slurmctld keeps them: their whole part, from 1 to 2^32 - 1, shape [n]."""
    return np.clip(np.floor(points), 1, _HIGHEST).astype(np.int64)


def fair_share_factors(
    weights: PriorityWeights, tree: ShareTree, usage: FloatArray, before: FloatArray | None = None
) -> FloatArray:
    """Fair-share factor of each association, shape [n]: Fair Tree, or classic with NO_FAIR_TREE.

    Args:
        weights: with the flags and the dampening factor.
        tree: accounts and users.
        usage: decayed usage of each association and all below it, shape [n].
        before: the usage one calculation earlier. Classic fair-share takes the usage of accounts
            from it, because slurmctld adds the usage of running jobs only afterwards, job by job:
            for a pending job, users have the usage of jobs submitted before it. None where the
            fractions have not changed since.
    """
    ranked, factors = tree.ranked(), np.zeros(len(tree))
    if CLASSIC in weights.flags:
        of_accounts = usage if before is None else before
        classic_factors(ranked, usage, of_accounts, weights.dampening, factors)
    else:
        fair_tree_factors(ranked, usage, factors)
    return factors


class BilledJobs(NamedTuple):
    """Jobs that ran for some time since the last calculation.

    Attributes:
        association: places in the tree, shape [m].
        billed: billing units for each second, with the UsageFactor of the QOS, shape [m].
        start: seconds since the epoch, shape [m].
        end: the same; inf for a job that still runs, shape [m]. Without limits in
            AccountingStorageEnforce slurmctld does not count jobs at their end: leave these out.
    """

    association: IntArray
    billed: FloatArray
    start: FloatArray
    end: FloatArray


def usage_at(
    weights: PriorityWeights,
    tree: ShareTree,
    usage: FloatArray,
    jobs: BilledJobs,
    last: float,
    now: float,
) -> FloatArray:
    """Usage of each association and all below it at the calculation that follows another one.

    slurmctld decays the whole run since the last calculation as if it were at its beginning, and a
    run that ended in between once more at `now`.

    Args:
        weights: with the half-life.
        tree: accounts and users.
        usage: at the last calculation, shape [n].
        jobs: that ran since.
        last: when that was, seconds since the epoch.
        now: when usage is calculated next.
    """
    second = 1.0 - _LN2 / weights.half_life
    decay = max(second ** (now - last), float(np.finfo(np.float64).tiny))
    ran = np.maximum(np.minimum(jobs.end, now) - np.maximum(jobs.start, last), 0.0)
    added = jobs.billed * ran * second**ran * np.where(jobs.end < now, decay, 1.0)
    own = np.bincount(jobs.association, weights=added, minlength=len(tree)).astype(np.float64)
    grown: FloatArray = usage * decay + with_those_below(tree, own)
    return grown
