"""Shares of the accounts of a log: those given, or each account's fraction of the work."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.units import FloatArray, IntArray

#: Accounts kept by name where shares come from the log; the rest are summed up.
KEPT_ACCOUNTS = 4
OTHER_ACCOUNT = "_other"


def shares_of(
    log: JobLog, shares: Mapping[str, float] | None, charged: FloatArray | IntArray
) -> tuple[IntArray, tuple[str, ...], FloatArray]:
    """Account of each job as an index into the names, the names, and the share of each.

    Args:
        log: the jobs.
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
    """Shares are non-negative and sum to 1 within 1e-6.

    Raises:
        ConfigurationError: they are not.
    """
    total = sum(shares.values())
    if any(not 0.0 <= value <= 1.0 + 1e-6 for value in shares.values()) or abs(total - 1) > 1e-6:
        text = ", ".join(f"{name}={value:g}" for name, value in shares.items())
        raise ConfigurationError(
            f"shares {text} sum to {total:g}: give one share for each account, together 1."
        )
