"""The tree of accounts and users, and the fair-share factors that Slurm makes of its usage.

The functions that make factors are compiled for replays too (simulator/scoring/site_priority.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

ROOT = "root"
#: OpenPBS's group of all entities that its tree does not name; each has one share in it.
UNKNOWN = "unknown"


class Association(NamedTuple):
    """An account, or a user in an account, as the accounting database has it."""

    account: str  #: its name
    user: str = ""  #: "" for the account itself
    parent: str = ""  #: the account above an account; "" for the root and for users
    share: float | None = 1.0  #: Fairshare; None for Fairshare=parent
    priority: float | None = None  #: None where nothing is set: then that of the account above


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareTree:
    """Associations of a cluster; the root comes first, and each one follows its parent."""

    accounts: tuple[str, ...]  #: account of each association, n names
    users: tuple[str, ...]  #: its user; "" for the association of an account itself
    parent: IntArray  #: place of the association above, shape [n]; -1 for the root
    shares: FloatArray  #: RawShares, shape [n]; NaN for Fairshare=parent
    priority: FloatArray  #: of each association, shape [n]; 0 for none

    @classmethod
    def of(cls, associations: Iterable[Association]) -> Self:
        """The tree of all associations, in any order; siblings keep theirs.

        Those that no line of parents connects with the root are left out.
        """
        below: dict[str, list[Association]] = {}
        root = Association(ROOT)
        for each in associations:
            if each.account == ROOT and not each.user:
                root = each
            else:
                below.setdefault(each.account if each.user else each.parent, []).append(each)
        rows, parent, priority = [root], [-1], [root.priority or 0.0]
        for at, row in enumerate(rows):  # which grows
            for each in () if row.user else below.get(row.account, ()):
                rows.append(each)
                parent.append(at)
                priority.append(priority[at] if each.priority is None else each.priority)
        return cls(
            accounts=tuple(row.account for row in rows),
            users=tuple(row.user for row in rows),
            parent=np.array(parent, dtype=np.int64),
            shares=np.array([math.nan if row.share is None else row.share for row in rows]),
            priority=np.array(priority, dtype=np.float64),
        )

    def __len__(self) -> int:
        return len(self.parent)

    @property
    def places(self) -> Mapping[tuple[str, str], int]:
        """Place of each association by account and user."""
        return {pair: at for at, pair in enumerate(zip(self.accounts, self.users, strict=True))}

    @property
    def entities(self) -> Mapping[str, int]:
        """Place of each association but the root by its own name, where names are unique."""
        names = [user or account for account, user in zip(self.accounts, self.users, strict=True)]
        return {name: at for at, name in enumerate(names) if at > 0}

    @property
    def is_user(self) -> BoolArray:
        """Whether an association is a user's, shape [n]."""
        return np.array([bool(user) for user in self.users], dtype=np.bool_)

    def ranked(self) -> RankedTree:
        """Its columns as the functions below take them."""
        above, is_user, inherits = self.parent.copy(), self.is_user, np.isnan(self.shares)
        for at in range(1, len(self)):  # the nearest one above that has shares of its own
            over = above[at]
            above[at] = above[over] if over and inherits[over] else over
        count, shares, over = len(self), np.nan_to_num(self.shares), above[1:]
        whole = np.bincount(over, weights=shares[1:], minlength=count)[over]
        part, fraction = np.ones(count), np.ones(count)
        part[1:] = np.divide(shares[1:], whole, out=np.zeros(count - 1), where=whole > 0.0)
        part[inherits] = math.nan
        for at in range(1, count):
            own = 1.0 if inherits[at] else part[at]
            fraction[at] = fraction[above[at]] * own
        compete = np.flatnonzero(is_user | ~inherits)
        compete = compete[compete > 0]
        below = compete[np.lexsort((compete, ~is_user[compete], above[compete]))]
        return RankedTree(
            parent=self.parent,
            above=above,
            first=np.searchsorted(above[below], np.arange(count + 1)),
            below=below,
            is_user=is_user,
            part=part,
            fraction=fraction,
        )


class RankedTree(NamedTuple):
    """What factors are made of in a tree of n associations."""

    parent: IntArray  #: place of the association above, shape [n]; -1 for the root
    above: IntArray  #: the nearest one that has shares of its own, shape [n]; -1 for the root
    first: IntArray  #: where those right below each association begin in `below`, shape [n + 1]
    below: IntArray  #: places of all that compete, by `above`, users before accounts
    is_user: BoolArray  #: shape [n]
    part: FloatArray  #: of its siblings' shares, shape [n]; NaN for Fairshare=parent
    fraction: FloatArray  #: of the whole cluster, shape [n]


def best_first(scores: FloatArray, count: int) -> IntArray:
    """Places of scores, the best first and equal ones as they stand, shape [count]."""
    return np.argsort(-scores[:count], kind="stable")


def fair_tree_factors(tree: RankedTree, usage: FloatArray, factors: FloatArray) -> None:
    """Fair Tree: rank of each user over the number of users; 0 for accounts.

    OpenPBS with `fair_share` sorts jobs in the same way: at the first level at which their paths
    differ, the job with less usage for its percentage goes first. Only the order of ties differs.

    slurmctld does not merge the users of accounts that tie, although its documentation says so: the
    first user of the second account takes the rank of the last one before it. Accounts that tie
    keep the order of the tree.

    `usage` is the decayed usage of each association and all below it; `factors` are filled; [n].
    """
    count = len(tree.above)
    # share over usage, both as parts of the siblings'
    levels = np.full(count, np.inf)
    for at in range(1, count):
        whole = usage[tree.above[at]]
        if tree.part[at] <= 0.0:
            levels[at] = 0.0
        elif usage[at] > 0.0 and whole > 0.0 and tree.part[at] > 0.0:
            levels[at] = tree.part[at] / (usage[at] / whole)
    ordered, turn = np.empty_like(tree.below), tree.first.copy()
    for place in best_first(levels[tree.below], len(tree.below)):
        at = tree.below[place]
        ordered[turn[tree.above[at]]] = at
        turn[tree.above[at]] += 1
    users = tree.is_user.sum()
    rank, ranked = users, users  # the rank in force, and the one that a user without a tie gets
    turn, is_tied, node = tree.first.copy(), np.zeros(count, np.bool_), 0
    factors[:] = 0.0
    while True:
        place = turn[node]
        if place == tree.first[node + 1]:
            if node == 0:
                return
            node = tree.above[node]
            continue
        turn[node] += 1
        at, tied = ordered[place], is_tied[node]
        if place > tree.first[node]:
            tied = levels[at] == levels[ordered[place - 1]]
        if tree.is_user[at]:
            rank = rank if tied else ranked
            ranked -= 1
            factors[at] = rank / users
        else:
            node, is_tied[at] = at, tied


def classic_factors(
    tree: RankedTree,
    usage: FloatArray,
    account_usage: FloatArray,
    dampening: float,
    factors: FloatArray,
) -> None:
    """Classic fair-share: 2^(-effective usage / share / dampening).

    With a dampening of 1 it is also the `fairshare_factor` of OpenPBS, except that in OpenPBS each
    node begins with a usage of 1. Factors are filled, shape [n]: 0 without a share, and for the
    root. Users count by `usage`, as of `fair_tree_factors`; accounts by that of one calculation
    earlier: slurmctld adds the usage of running jobs only afterwards, job by job.
    """
    effective = np.ones(len(tree.above))
    factors[:] = 0.0
    for at in range(1, len(tree.above)):
        over, now = tree.above[at], account_usage
        if tree.is_user[at]:
            now = usage
        own = min(now[at] / now[0], 1.0) if now[0] > 0.0 else 0.0
        if np.isnan(tree.part[at]):  # it has what its parent has
            own = effective[over]
        elif over > 0:
            own += (effective[over] - own) * tree.part[at]
        effective[at] = own
        if tree.fraction[at] > 0.0:
            factors[at] = 2.0 ** -(own / tree.fraction[at] / dampening)
