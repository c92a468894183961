"""What `sshare` says: shares and decayed usage of the accounts, from the tree that it prints."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_rl_plugin.batch_systems.slurm.process import not_understood

SHARE_FORMAT = "Account,User,RawShares,RawUsage"
ROOT = "root"


@dataclass(slots=True, kw_only=True)
class _Node:
    parent: str
    shares: float
    own_usage: float
    user_shares: float = 0.0
    has_users: bool = False


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
    nodes = _parse_tree(text)
    fractions = _fractions(nodes)
    leaves = [name for name, node in nodes.items() if node.has_users and name != ROOT]
    whole = sum(fractions[name] for name in leaves)
    return AccountTree(
        shares={name: fractions[name] / whole if whole else 0.0 for name in leaves},
        usage={name: max(nodes[name].own_usage, 0.0) for name in leaves},
    )


def _parse_tree(text: str) -> dict[str, _Node]:
    nodes: dict[str, _Node] = {}
    line_of_ancestors: list[str] = []
    for line in text.splitlines():
        try:
            account, user, shares, usage = line.split("|")
            name = account.strip()
            if user:
                nodes[name].has_users = True
                nodes[name].user_shares += _shares(shares)
                continue
            depth = len(account) - len(account.lstrip())
            del line_of_ancestors[depth:]
            parent = line_of_ancestors[-1] if line_of_ancestors else ""
            nodes[name] = _Node(parent=parent, shares=_shares(shares), own_usage=float(usage or 0))
        except (ValueError, KeyError) as error:
            raise not_understood("sshare", line) from error
        line_of_ancestors.append(name)
        if parent:
            nodes[parent].own_usage -= nodes[name].own_usage
    return nodes


def _shares(text: str) -> float:
    """RawShares as a number; the word `parent`, and nothing at all, are no share of its own."""
    return float(text) if text.isdigit() else 0.0


def _fractions(nodes: dict[str, _Node]) -> dict[str, float]:
    """Give each account's part of the cluster that is its own users', by number of shares."""
    sub_accounts: dict[str, float] = {}
    for node in nodes.values():
        sub_accounts[node.parent] = sub_accounts.get(node.parent, 0.0) + node.shares
    whole: dict[str, float] = {}
    own: dict[str, float] = {}
    for name, node in nodes.items():  # parents come before their children
        above = nodes.get(node.parent)
        users = above.user_shares if above is not None and node.parent != ROOT else 0.0
        divided = sub_accounts[node.parent] + users
        whole[name] = whole.get(node.parent, 1.0) * (node.shares / divided if divided else 1.0)
        below = sub_accounts.get(name, 0.0)
        own[name] = whole[name] * (node.user_shares / (node.user_shares + below) if below else 1.0)
    return own
