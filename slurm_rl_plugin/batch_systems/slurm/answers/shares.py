"""What `sshare` says: shares and decayed usage of the accounts, from the tree that it prints."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.batch_systems.slurm.process import not_understood
from slurm_rl_plugin.domain.share_tree import ShareTree
from slurm_rl_plugin.units import FloatArray

SHARE_FORMAT = "Account,User,RawShares,RawUsage"
ROOT = "root"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountTree:
    """Accounts that have users of their own, in the order of `sshare`.

    Attributes:
        shares: account -> fraction of the cluster, sum 1; 0 where `RawShares` is no number.
        usage: account -> decayed billing-seconds of its own users, not of its sub-accounts'.
    """

    shares: dict[str, float]
    usage: dict[str, float]


def parse_shares(text: str) -> AccountTree:
    """Shares and usage from `sshare -a -P -h -o SHARE_FORMAT`.

    Sub-accounts and users of an account divide what it has, as in Slurm's fair tree; the users'
    parts together are its own. Users directly under the root take no part.

    Raises:
        BatchSystemError: a line has another form.
    """
    tree, usage = parse_tree(text)
    fractions, own = _fractions(tree), usage.copy()
    for at in range(1, len(tree)):
        if not tree.users[at]:
            own[tree.parent[at]] -= usage[at]
    has_users = np.bincount(tree.parent[1:][tree.is_user[1:]], minlength=len(tree))
    leaves = [at for at in range(1, len(tree)) if has_users[at]]
    whole = sum(fractions[at] for at in leaves)
    return AccountTree(
        shares={tree.accounts[at]: fractions[at] / whole if whole else 0.0 for at in leaves},
        usage={tree.accounts[at]: max(float(own[at]), 0.0) for at in leaves},
    )


def parse_tree(text: str) -> tuple[ShareTree, FloatArray]:
    """The tree of `sshare -a -P -h -o SHARE_FORMAT`, and usage, billing-seconds, shape [n].

    sshare prints no priorities of associations.

    Raises:
        BatchSystemError: a line has another form.
    """
    accounts: list[str] = []
    users: list[str] = []
    parent: list[int] = []
    numbers: list[tuple[float, float]] = []
    line_of_ancestors: list[int] = []
    place: dict[str, int] = {}
    for line in text.splitlines():
        try:
            account, user, shares, usage = line.split("|")
            name = account.strip()
            if user:
                above = place[name]
            else:
                depth = len(account) - len(account.lstrip())
                del line_of_ancestors[depth:]
                if accounts and not line_of_ancestors:
                    raise ValueError("a second root")
                above = line_of_ancestors[-1] if line_of_ancestors else -1
                place[name] = len(accounts)
                line_of_ancestors.append(len(accounts))
            numbers.append((_shares(shares), float(usage or 0)))
        except (ValueError, KeyError) as error:
            raise not_understood("sshare", line) from error
        accounts.append(name)
        users.append(user)
        parent.append(above)
    table = np.array(numbers, dtype=np.float64).reshape(-1, 2)
    tree = ShareTree(
        accounts=tuple(accounts),
        users=tuple(users),
        parent=np.array(parent, dtype=np.int64),
        shares=table[:, 0],
        priority=np.zeros(len(table)),
    )
    return tree, table[:, 1]


def _shares(text: str) -> float:
    """RawShares as a number; NaN for the word `parent`, and for nothing at all."""
    return float(text) if text.isdigit() else math.nan


def _fractions(tree: ShareTree) -> list[float]:
    """Each account's part of the cluster that is its own users', by place; 0 for users."""
    count = len(tree)
    numbers, of_users, sub_accounts = np.nan_to_num(tree.shares), [0.0] * count, [0.0] * count
    for at in range(1, count):
        (of_users if tree.users[at] else sub_accounts)[tree.parent[at]] += float(numbers[at])
    whole, own = [1.0] * count, [0.0] * count
    for at in range(count):
        if tree.users[at]:
            continue
        if at:
            above = int(tree.parent[at])
            divided = sub_accounts[above] + (of_users[above] if above else 0.0)
            whole[at] = whole[above] * (float(numbers[at]) / divided if divided else 1.0)
        below = sub_accounts[at]
        own[at] = whole[at] * (of_users[at] / (of_users[at] + below) if below else 1.0)
    return own
