"""The tree of accounts and users, and the fair-share factors that Slurm makes of its usage."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

ROOT = "root"


class Association(NamedTuple):
    """An account, or a user in an account, as the accounting database has it.

    Attributes:
        account: its name.
        user: "" for the account itself.
        parent: the account above an account; "" for the root and for users.
        share: Fairshare; None for Fairshare=parent.
        priority: None where nothing is set: then that of the account above.
    """

    account: str
    user: str = ""
    parent: str = ""
    share: float | None = 1.0
    priority: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareTree:
    """Associations of a cluster; the root comes first, and each one follows its parent.

    Attributes:
        accounts: account of each association, n names.
        users: its user; "" for the association of an account itself.
        parent: place of the association above, shape [n]; -1 for the root.
        shares: RawShares, shape [n]; NaN for Fairshare=parent.
        priority: of each association, shape [n]; 0 for none.
    """

    accounts: tuple[str, ...]
    users: tuple[str, ...]
    parent: IntArray
    shares: FloatArray
    priority: FloatArray

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
    def is_user(self) -> BoolArray:
        """Whether an association is a user's, shape [n]."""
        return np.array([bool(user) for user in self.users], dtype=np.bool_)

    def with_those_below(self, own: FloatArray) -> FloatArray:
        """Amounts of each association and all below it, shape [n]."""
        whole = own.astype(np.float64)
        for at in range(len(self) - 1, 0, -1):
            whole[self.parent[at]] += whole[at]
        return whole

    def fair_tree_factors(self, usage: FloatArray) -> FloatArray:
        """Fair Tree: rank of each user over the number of users, shape [n]; 0 for accounts.

        slurmctld does not merge the users of accounts that tie, although its documentation says
        so: the first user of the second account takes the rank of the last one before it. Accounts
        that tie keep the order of the tree.

        Args:
            usage: decayed usage of each association and all below it, shape [n].
        """
        above, is_user = self._fair_parents(), self.is_user
        levels = self._levels(above, usage)
        below: list[list[int]] = [[] for _ in range(len(self))]
        for at in range(1, len(self)):
            if is_user[at] or not math.isnan(self.shares[at]):
                below[above[at]].append(at)
        factors, count = np.zeros(len(self)), int(is_user.sum())
        rank = ranked = count  # the rank in force, and the one that a user without a tie gets

        def visit(siblings: list[int], is_tied: bool) -> None:
            nonlocal rank, ranked
            previous = math.nan
            for at in sorted(siblings, key=lambda at: (-levels[at], not is_user[at])):
                tied, is_tied = is_tied or bool(levels[at] == previous), False
                previous = levels[at]
                if not is_user[at]:
                    visit(below[at], tied)
                    continue
                rank = rank if tied else ranked
                ranked -= 1
                factors[at] = rank / count

        visit(below[0], is_tied=False)
        return factors

    def classic_factors(
        self, usage: FloatArray, account_usage: FloatArray, dampening: float = 1.0
    ) -> FloatArray:
        """Classic fair-share: 2^(-effective usage / share / dampening), shape [n].

        Args:
            usage: decayed usage of each association and all below it, shape [n]; users count by it.
            account_usage: the same, by which accounts count; see `fair_share_factors`.
            dampening: FairShareDampeningFactor.
        """
        above, inherits, is_user = self._fair_parents(), np.isnan(self.shares), self.is_user
        shares, whole = np.nan_to_num(self.shares), self._siblings_sum(above)
        parts, effective = np.ones(len(self)), np.ones(len(self))
        for at in range(1, len(self)):
            over = above[at]
            now = usage if is_user[at] else account_usage
            own = min(now[at] / now[0], 1.0) if now[0] > 0.0 else 0.0
            if inherits[at]:  # it has what its parent has
                parts[at], effective[at] = parts[over], effective[over]
                continue
            part = shares[at] / whole[over] if whole[over] else 0.0
            parts[at] = parts[over] * part
            effective[at] = own
            if over:
                inherited = part if whole[over] else 1.0
                effective[at] += (effective[over] - own) * inherited
        served = np.divide(effective, parts, out=np.full(len(self), np.inf), where=parts > 0.0)
        factors: FloatArray = 2.0 ** -(served / dampening)
        return factors

    def _fair_parents(self) -> IntArray:
        """Place of the nearest association above that has shares of its own, shape [n]."""
        above = self.parent.copy()
        for at in range(1, len(self)):
            over = above[at]
            above[at] = above[over] if over and np.isnan(self.shares[over]) else over
        return above

    def _siblings_sum(self, above: IntArray) -> FloatArray:
        """Shares of all that compete below each association, shape [n]."""
        shares = np.nan_to_num(self.shares[1:])
        return np.bincount(above[1:], weights=shares, minlength=len(self)).astype(np.float64)

    def _levels(self, above: IntArray, usage: FloatArray) -> FloatArray:
        """Share over usage of each association, both as parts of its siblings', shape [n].

        Inf without usage and for Fairshare=parent; 0 without a share.
        """
        shares, over, levels = np.nan_to_num(self.shares[1:]), above[1:], np.full(len(self), np.inf)
        whole = self._siblings_sum(above)[over]
        part = np.divide(shares, whole, out=np.zeros(len(over)), where=whole > 0.0)
        used = np.divide(usage[1:], usage[over], out=np.zeros(len(over)), where=usage[over] > 0.0)
        np.divide(part, used, out=levels[1:], where=used > 0.0)
        levels[1:][part <= 0.0] = 0.0
        levels[np.isnan(self.shares)] = np.inf
        return levels
