"""Which limits of the accounting database Slurm enforces: AccountingStorageEnforce."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from slurm_rl_plugin.domain.machine import MachinePartition, ResourceLimit
from slurm_rl_plugin.machine_files.database.reader import Database
from slurm_rl_plugin.machine_files.values import Value

_KEY = "accountingstorageenforce"
_NO_LIMIT = ResourceLimit()


def enforced(
    database: Database, settings: Mapping[str, Value], partitions: Sequence[MachinePartition]
) -> Database:
    """The database with the limits that hold; those that Slurm is not told to enforce do not.

    Args:
        database: all that it says.
        settings: of the cluster by key in lower case.
        partitions: whose QOS should be known.
    """
    words, of_associations = _words(settings), enforces_limits(settings)
    of_qos = "all" in words or (of_associations and "qos" in words)
    return replace(
        database,
        qos=database.qos if of_qos else _without_limits(database.qos),
        accounts=database.accounts if of_associations else {},
        users=database.users if of_associations else {},
        left_out=(
            *database.left_out,
            *_not_enforced(database, of_associations, of_qos),
            *_unknown(database, partitions, of_associations, of_qos),
        ),
    )


def enforces_limits(settings: Mapping[str, Value]) -> bool:
    """Whether limits of associations hold."""
    return bool(_words(settings) & {"limits", "safe", "all"})


def _words(settings: Mapping[str, Value]) -> set[str]:
    value = settings.get(_KEY)
    return set() if value is None else {word.lower() for word in value.words}


def _without_limits(qos: Mapping[str, ResourceLimit]) -> dict[str, ResourceLimit]:
    return {
        name: ResourceLimit(priority=each.priority, usage_factor=each.usage_factor)
        for name, each in qos.items()
    }


def _not_enforced(database: Database, of_associations: bool, of_qos: bool) -> Iterator[str]:
    limits = [*database.accounts.values(), *database.users.values()]
    if not of_associations and any(limit != _NO_LIMIT for limit in limits):
        yield "AccountingStorageEnforce has no limits: those of accounts and users do not hold."
    bare = _without_limits(database.qos)
    if not of_qos and any(limit != bare[name] for name, limit in database.qos.items()):
        yield "AccountingStorageEnforce has not both limits and qos: limits of a QOS do not hold."


def _unknown(
    database: Database,
    partitions: Sequence[MachinePartition],
    of_associations: bool,
    of_qos: bool,
) -> Iterator[str]:
    """Limits that Slurm enforces and nobody has told us."""
    if of_associations and not database.parent_of:
        yield (
            "limits and shares of accounts are not known: put the output of `sacctmgr dump` as "
            "sacctmgr.cfg beside slurm.conf."
        )
    named = {each.qos for each in partitions if each.qos} - set(database.qos)
    if of_qos and named:
        yield (
            f"limits of the QOS {', '.join(sorted(named))} are not known: put the output of "
            "`sacctmgr -P show qos` as qos.txt beside slurm.conf."
        )
