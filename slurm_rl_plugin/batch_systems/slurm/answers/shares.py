"""What `sshare` says: shares and decayed usage of the accounts, from the tree that it prints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from slurm_rl_plugin.batch_systems.slurm.process import not_understood
from slurm_rl_plugin.domain.jobs import RunningJobs
from slurm_rl_plugin.domain.share_tree import ShareTree
from slurm_rl_plugin.units import MINUTE, FloatArray

SHARE_FORMAT = "Account,User,RawShares,RawUsage,TRESRunMins"
ROOT = "root"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountTree:
    """Accounts that have users of their own, in the order of `sshare`.

    Attributes:
        shares: account -> fraction of the cluster, sum 1; 0 where `RawShares` is no number.
        usage: account -> decayed billing-seconds of its own users, not of its sub-accounts'.
        left: account -> what the running jobs of its own users have left until their time limits,
            as slurmctld had it when it last calculated usage; accounts without any are left out.
    """

    shares: dict[str, float]
    usage: dict[str, float]
    left: dict[str, RunTimeLeft] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimeLeft:
    """Time limits less the time that slurmctld has counted, summed up over running jobs.

    Attributes:
        processors: processor-seconds.
        billing: billing-seconds.
    """

    processors: float
    billing: float


def parse_shares(text: str) -> AccountTree:
    """Shares and usage from `sshare -a -P -h -o SHARE_FORMAT`.

    Sub-accounts and users of an account divide what it has, as in Slurm's fair tree; the users'
    parts together are its own. Users directly under the root take no part.

    Raises:
        BatchSystemError: a line has another form.
    """
    tree, usage = parse_tree(text)
    fractions, own, parent = _fractions(tree), usage.tolist(), tree.parent.tolist()
    has_users = [False] * len(tree)
    for at, (user, above, used) in enumerate(zip(tree.users, parent, usage.tolist(), strict=True)):
        if user:
            has_users[above] = True
        elif at:
            own[above] -= used
    leaves = [at for at in range(1, len(tree)) if has_users[at]]
    whole = sum(fractions[at] for at in leaves)
    return AccountTree(
        shares={tree.accounts[at]: fractions[at] / whole if whole else 0.0 for at in leaves},
        usage={tree.accounts[at]: max(own[at], 0.0) for at in leaves},
        left=_left(text),
    )


def usage_now(
    tree: AccountTree, accounts: Sequence[str], running: RunningJobs, now: float
) -> FloatArray:
    """Usage of accounts with what their running jobs used since slurmctld last counted it.

    slurmctld counts running jobs each PriorityCalcPeriod, five minutes by default, and a job again
    when it ends. The uncounted time is what slurmctld believes to be left until the time limits,
    less what is left now. An account with a running job without a time limit gets nothing added.

    Args:
        tree: of `sshare`.
        accounts: names, by the running jobs' indices.
        running: jobs with the processors that they have.
        now: seconds since the epoch.

    Returns:
        Decayed billing-seconds, shape [accounts].
    """
    usage = np.array([tree.usage.get(name, 0.0) for name in accounts], dtype=np.float64)
    jobs, ran = running.jobs, np.maximum(now - running.start, 0.0)
    of_job = (jobs.processors * np.maximum(jobs.time_limit - ran, 0.0), jobs.processors * ran)
    left, used = (np.bincount(jobs.account, each, len(accounts)) for each in of_job)
    for at, name in enumerate(accounts):
        counted = tree.left.get(name)
        if counted is not None and not math.isnan(left[at]):
            uncounted = min(max(counted.processors - left[at], 0.0), used[at])
            usage[at] += uncounted * counted.billing / counted.processors
    return usage


def _left(text: str) -> dict[str, RunTimeLeft]:
    """`AccountTree.left` from the lines of users."""
    processors: dict[str, float] = {}
    billing: dict[str, float] = {}
    for line in text.splitlines():
        account, user, _, _, *run_minutes = line.split("|")
        if not user or not run_minutes:
            continue
        minutes = dict(each.rpartition("=")[::2] for each in run_minutes[0].split(","))
        name, whole = account.strip(), _minutes(minutes, "cpu")
        processors[name] = processors.get(name, 0.0) + whole * MINUTE
        billing[name] = billing.get(name, 0.0) + _minutes(minutes, "billing", whole) * MINUTE
    return {
        name: RunTimeLeft(processors=each, billing=billing[name])
        for name, each in processors.items()
        if each > 0.0
    }


def _minutes(amounts: Mapping[str, str], name: str, otherwise: float = 0.0) -> float:
    """An amount of `cpu=12,mem=640`; `otherwise` if it is missing or not a number."""
    text = amounts.get(name, "")
    return float(text) if text.isdigit() else otherwise


def parse_tree(text: str) -> tuple[ShareTree, FloatArray]:
    """The tree of `sshare -a -P -h -o SHARE_FORMAT`, and usage, billing-seconds, shape [n].

    sshare prints no priorities of associations. Where PrivateData hides the root, accounts are
    below an implied one.

    Raises:
        BatchSystemError: a line has another form.
    """
    accounts, users, parent = [ROOT], [""], [-1]
    raw, used = [math.nan], [0.0]
    line_of_ancestors, place = [0], dict[str, int]()
    for line in text.splitlines():
        try:
            account, user, shares, usage, *_ = line.split("|")
            name, share, service = account.strip(), _shares(shares), float(usage or 0)
            if user:
                above = place[name]
            else:
                depth = len(account) - len(account.lstrip())
                del line_of_ancestors[depth:]
                above = line_of_ancestors[-1] if line_of_ancestors else 0
        except (ValueError, KeyError) as error:
            raise not_understood("sshare", line) from error
        at = len(accounts)
        if name == ROOT and not user:
            at, raw[0], used[0] = 0, share, service
        else:
            accounts.append(name)
            users.append(user)
            parent.append(above)
            raw.append(share)
            used.append(service)
        if not user:
            place[name] = at
            line_of_ancestors.append(at)
    tree = ShareTree(
        accounts=tuple(accounts),
        users=tuple(users),
        parent=np.array(parent, dtype=np.int64),
        shares=np.array(raw),
        priority=np.zeros(len(raw)),
    )
    return tree, np.array(used)


def _shares(text: str) -> float:
    """RawShares as a number; NaN for the word `parent`, and for nothing at all."""
    return float(text) if text.isdigit() else math.nan


def _fractions(tree: ShareTree) -> list[float]:
    """Each account's part of the cluster that is its own users', by place; 0 for users."""
    count, parent, users = len(tree), tree.parent.tolist(), tree.users
    numbers = np.nan_to_num(tree.shares).tolist()
    of_users, sub_accounts = [0.0] * count, [0.0] * count
    for at in range(1, count):
        (of_users if users[at] else sub_accounts)[parent[at]] += numbers[at]
    whole, own = [1.0] * count, [0.0] * count
    for at in range(count):
        if users[at]:
            continue
        if at:
            above = parent[at]
            divided = sub_accounts[above] + (of_users[above] if above else 0.0)
            whole[at] = whole[above] * (numbers[at] / divided if divided else 1.0)
        below = sub_accounts[at]
        own[at] = whole[at] * (of_users[at] / (of_users[at] + below) if below else 1.0)
    return own
