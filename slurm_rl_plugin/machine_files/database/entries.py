"""Entries of the accounting database, whichever form of sacctmgr they came in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from slurm_rl_plugin.machine_files.values import Value

QOS, ACCOUNT, USER, CLUSTER = "qos", "account", "user", "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseEntry:
    """A QOS, or an association of an account or a user with the cluster.

    Attributes:
        kind: QOS, ACCOUNT, USER or CLUSTER.
        name: of it; names of accounts and QOS in lower case, as the database keeps them.
        account: of a user's association; "" where only the default account is told.
        parent: of an account; "" where it is not told.
        partition: the only one for which a user's association holds; "" for all.
        keys: what is set by its name in lower case.
    """

    kind: str
    name: str
    account: str = ""
    parent: str = ""
    partition: str = ""
    keys: Mapping[str, Value] = field(default_factory=dict)


def merged(entries: Iterable[DatabaseEntry]) -> list[DatabaseEntry]:
    """Entries of which later ones of the same thing change what earlier ones set.

    A user without an account stands for all of its associations.
    """
    found: dict[tuple[str, str, str, str], DatabaseEntry] = {}
    for entry in entries:
        own = (entry.kind, entry.name, entry.account, entry.partition)
        meant = [own]
        if entry.kind == USER and not entry.account:
            meant = [key for key in found if key[:2] == own[:2]] or meant
        for key in meant:
            found[key] = _changed(found[key], entry) if key in found else entry
    return list(found.values())


def _changed(before: DatabaseEntry, by: DatabaseEntry) -> DatabaseEntry:
    # what was said last stands last: of two names of one limit the later one holds
    keys = {key: value for key, value in before.keys.items() if key not in by.keys} | dict(by.keys)
    return replace(before, parent=by.parent or before.parent, keys=keys)
