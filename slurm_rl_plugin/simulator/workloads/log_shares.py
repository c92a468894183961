"""Shares of the accounts of a log: those given, the site's own, or fractions of the work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain.machine import OF_ACCOUNTS, Machine
from slurm_rl_plugin.domain.share_tree import UNKNOWN, Association, ShareTree
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.units import FloatArray, IntArray

#: Accounts kept by name where shares come from the log; the rest are summed up.
KEPT_ACCOUNTS = 4
OTHER_ACCOUNT = "_other"
#: Where shares come from.
GIVEN, OF_CLUSTER, PAST_WORK, SSHARE = "options", "cluster", "work", "sshare"
#: What to say of each.
SHARES_WORDS = {
    GIVEN: "Shares: as given.",
    OF_CLUSTER: "Shares: of the cluster's accounts.",
    SSHARE: "Shares: Slurm's own, by sshare.",
    PAST_WORK: "Shares: none configured; derived from past work, which promises nothing.",
}


def shares_of(
    log: JobLog, shares: Mapping[str, float] | None, charged: FloatArray | IntArray
) -> tuple[IntArray, tuple[str, ...], FloatArray]:
    """Account of each job as an index into the names, the names, and the share of each.

    Args:
        shares: account -> share, sum 1; None for each account's fraction of the log's work, the
            largest kept and the rest summed up.
        charged: what each job is charged for a second, shape [n].

    Raises:
        ConfigurationError: the shares do not sum to 1.
    """
    work = log.run_time * charged
    totals = np.bincount(log.account, weights=work, minlength=len(log.accounts))
    of_account = dict(zip(log.accounts, totals.tolist(), strict=True))
    if shares is None:
        largest = sorted(of_account, key=lambda name: -of_account[name])[:KEPT_ACCOUNTS]
        whole = sum(of_account.values()) or 1.0
        shares = {name: of_account[name] / whole for name in largest}
        if len(of_account) > KEPT_ACCOUNTS:
            shares[OTHER_ACCOUNT] = max(1.0 - sum(shares.values()), 0.0)
    check_shares(shares)
    names = tuple(shares)
    if any(name not in shares for name in log.accounts) and OTHER_ACCOUNT not in shares:
        names = (*names, OTHER_ACCOUNT)
    index_of = {name: index for index, name in enumerate(names)}
    other = index_of.get(OTHER_ACCOUNT, 0)
    remap = np.array([index_of.get(name, other) for name in log.accounts], dtype=np.int64)
    vector = np.array([max(shares.get(name, 0.0), 0.0) for name in names])
    return remap[log.account], names, vector / vector.sum()


def check_shares(shares: Mapping[str, float]) -> None:
    """Refuse shares that are negative or do not sum to 1 within 1e-6."""
    total = sum(shares.values())
    if any(not 0.0 <= value <= 1.0 + 1e-6 for value in shares.values()) or abs(total - 1) > 1e-6:
        text = ", ".join(f"{name}={value:g}" for name, value in shares.items())
        raise ConfigurationError(
            f"shares {text} sum to {total:g}: give one share for each account, together 1."
        )


def with_accounts(log: JobLog, account_of: Mapping[str, str]) -> JobLog:
    """The log with other accounts for some users; jobs of users who are not there keep theirs."""
    names = list(dict.fromkeys([*log.accounts, *account_of.values()]))
    place = {name: index for index, name in enumerate(names)}
    given = [place[account_of[user]] if user in account_of else -1 for user in log.users]
    of_job = np.array(given, dtype=np.int64)[log.user]
    used, account = np.unique(np.where(of_job < 0, log.account, of_job), return_inverse=True)
    return replace(log, account=account, accounts=tuple(names[index] for index in used))


def accounts_with_jobs(log: JobLog) -> list[str]:
    """Names of the accounts of which the log has jobs."""
    return [log.accounts[place] for place in np.unique(log.account)]


def accounts_with_shares(machine: Machine) -> set[str]:
    """Names of the accounts of a machine that have shares of their own."""
    return {each.account for each in machine.associations if each.parent and each.share is not None}


def tree_of_entities(machine: Machine, names: Sequence[str]) -> tuple[ShareTree, IntArray]:
    """OpenPBS's tree with unnamed entities in the group `unknown`, and the place of each entity."""
    known = ShareTree.of(machine.associations).entities
    lacking = [Association(UNKNOWN, name) for name in names if name not in known]
    tree = ShareTree.of([*machine.associations, *lacking])
    places = tree.entities
    return tree, np.array([places[name] for name in names], dtype=np.int64)


def shares_at(machine: Machine, accounts: Iterable[str]) -> dict[str, float] | None:
    """Share of each account, sum 1: its part of its siblings', times that of the account above.

    As sshare's NormShares, of the accounts that are asked for alone. None where the machine does
    not know every account, or gives none a share; under OpenPBS, where shares do not belong to
    accounts.
    """
    names = list(accounts)
    if machine.entity == OF_ACCOUNTS:
        tree, places = tree_of_entities(machine, names)
        wanted = dict(zip(names, places.tolist(), strict=True))
    elif machine.entity:
        return None
    else:
        tree = ShareTree.of(machine.associations)
        known = tree.places
        wanted = {name: known.get((name.lower(), ""), 0) for name in names}
    fraction = tree.ranked().fraction
    if not wanted or any(at == 0 or np.isnan(tree.shares[at]) for at in wanted.values()):
        return None
    whole = sum(float(fraction[at]) for at in wanted.values())
    return {name: float(fraction[at]) / whole for name, at in wanted.items()} if whole > 0 else None
