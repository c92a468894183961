"""The section [shares]: an account and its fraction a line, or where they are taken from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slurm_rl_plugin.batch_systems.registry import BATCH_SYSTEMS
from slurm_rl_plugin.configuration.keys.definitions import SHARES
from slurm_rl_plugin.configuration.reading.files import ConfigurationFile, shown
from slurm_rl_plugin.configuration.reading.given_keys import DEFAULT

#: Key that names a batch system, whose own shares are then taken.
FROM = "from"
DEFAULT_SOURCE, *_OTHERS = BATCH_SYSTEMS
_EITHER = (
    f'give either from = "{DEFAULT_SOURCE}" (or '
    + ", ".join(f'"{name}"' for name in _OTHERS)
    + ") or one share an account"
)


@dataclass(frozen=True, slots=True)
class GivenShares:
    """Shares and where they are given.

    Attributes:
        shares: account -> share with sum 1; None takes the batch system's own.
        source: the word that says so.
        origins: key of [shares] -> `file:line`.
    """

    shares: Mapping[str, float] | None = None
    source: str = DEFAULT_SOURCE
    origins: Mapping[str, str] = field(default_factory=lambda: {FROM: DEFAULT})


def take_shares(before: GivenShares, file: ConfigurationFile, faults: list[str]) -> GivenShares:
    """The shares of a file; those of an earlier one where it gives none."""
    if SHARES not in file.content:
        return before
    given, where = file.content[SHARES], file.where(SHARES)
    if not isinstance(given, Mapping):
        faults.append(f"{where}: [shares] is no section: write one line for each account.")
        return before
    origins = {key: file.where(SHARES, key) for key in given}
    if FROM in given:
        problem = _problem_of_source(given)
        if problem is not None:
            faults.append(f"{origins[FROM]}: [shares] {problem}.")
            return before
        return GivenShares(None, given[FROM], origins)
    wrong = [account for account, share in given.items() if not _is_share(share)]
    faults.extend(
        f"{origins[account]}: [shares] {shown(account)} is {given[account]!r}, give a "
        "number from 0 to 1."
        for account in wrong
    )
    if wrong:
        return before
    if abs(sum(given.values()) - 1.0) > 1e-6:
        faults.append(f"{where}: [shares] {_wrong_sum(given)}: make them sum to 1.")
    shares = {account: float(share) for account, share in given.items()}
    return GivenShares(shares, origins=origins)


def _problem_of_source(given: Mapping[str, Any]) -> str | None:
    source = given[FROM]
    if source in tuple(BATCH_SYSTEMS):  # it may be of any type
        return None if len(given) == 1 else _EITHER
    return f"from is {source!r}: {_EITHER}"


def _is_share(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float) and 0 <= value <= 1


def _wrong_sum(given: Mapping[str, float]) -> str:
    if not given:
        return "names no account"
    each = ", ".join(f"{shown(account)} {share:g}" for account, share in given.items())
    return f"sum to {sum(given.values()):g} ({each})"
