"""Shares of a log's accounts as the site's own tree of accounts has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slurm_rl_plugin.domain.machine import Machine

_ROOT = "root"


def shares_at(machine: Machine, accounts: Iterable[str]) -> dict[str, float] | None:
    """Share of each account, sum 1: its part of its siblings', times that of the account above.

    As sshare's NormShares, of the accounts that are asked for alone.

    Args:
        machine: with its tree of accounts.
        accounts: names of those that the log's jobs are of.

    Returns:
        None where the machine does not know each of them, or gives none a share.
    """
    wanted = {name: name.lower() for name in accounts}
    if not wanted or any(own not in machine.shares for own in wanted.values()):
        return None
    found = {name: _normal(own, machine) for name, own in wanted.items()}
    whole = sum(found.values())
    return {name: share / whole for name, share in found.items()} if whole > 0 else None


def _normal(account: str, machine: Machine) -> float:
    share, seen = 1.0, set[str]()
    while account != _ROOT and account in machine.shares and account not in seen:
        seen.add(account)
        above = machine.parent_of.get(account, _ROOT)
        share *= machine.shares[account] / max(
            _of_siblings(above, machine.parent_of, machine), 1e-9
        )
        account = above
    return share


def _of_siblings(above: str, parent_of: Mapping[str, str], machine: Machine) -> float:
    """Shares of all accounts right below one."""
    return sum(
        share for name, share in machine.shares.items() if parent_of.get(name, _ROOT) == above
    )
