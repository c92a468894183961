"""Limits, shares and accounts by what sacctmgr wrote or reads, and which of them Slurm enforces."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from slurm_rl_plugin.domain.machine import MachinePartition, ResourceLimit
from slurm_rl_plugin.domain.share_tree import Association
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.machine_files.database_entries import (
    ACCOUNT,
    BAR,
    CLUSTER,
    FIRST_WORDS,
    QOS,
    USER,
    DatabaseEntry,
    association_priority,
    limit_of,
    merged,
    not_modelled,
    read_dump,
    read_script,
    read_tables,
)
from slurm_rl_plugin.machine_files.statements import NOTHING, Value
from slurm_rl_plugin.whole_file import read_whole

_KEY = "accountingstorageenforce"
_NO_LIMIT = ResourceLimit()


def enforced(
    database: Database, settings: Mapping[str, Value], partitions: Sequence[MachinePartition]
) -> Database:
    """The database with the limits that hold; those that Slurm is not told to enforce do not."""
    words, of_associations = _words(settings), enforces_limits(settings)
    of_qos = "all" in words or (of_associations and "qos" in words)
    bare = {
        name: ResourceLimit(priority=each.priority, usage_factor=each.usage_factor)
        for name, each in database.qos.items()
    }
    limits = [*database.accounts.values(), *database.users.values()]
    unknown = sorted({each.qos for each in partitions if each.qos} - set(database.qos))
    sentences = {
        "AccountingStorageEnforce has no limits: those of accounts and users do not hold.": (
            not of_associations and any(limit != _NO_LIMIT for limit in limits)
        ),
        "AccountingStorageEnforce has not both limits and qos: limits of a QOS do not hold.": (
            not of_qos and bare != database.qos
        ),
        "limits and shares of accounts are not known: put the output of `sacctmgr dump` as "
        "sacctmgr.cfg beside slurm.conf.": of_associations and not database.parent_of,
        f"limits of the QOS {', '.join(unknown)} are not known: put the output of "
        "`sacctmgr -P show qos` as qos.txt beside slurm.conf.": of_qos and bool(unknown),
    }
    return replace(
        database,
        qos=database.qos if of_qos else bare,
        accounts=database.accounts if of_associations else {},
        users=database.users if of_associations else {},
        left_out=(*database.left_out, *(each for each, holds in sentences.items() if holds)),
    )


def enforces_limits(settings: Mapping[str, Value]) -> bool:
    """Whether limits of associations hold."""
    return bool(_words(settings) & {"limits", "safe", "all"})


def _words(settings: Mapping[str, Value]) -> set[str]:
    value = settings.get(_KEY)
    return set() if value is None else {word.lower() for word in value.words}


#: What is looked for beside slurm.conf; beside these CLUSTER.cfg, as `sacctmgr dump` calls it.
FILES = ("sacctmgr.script", "sacctmgr.cfg", "qos.txt", "assoc.txt", "user.txt")
ROOT = "root"
#: Of Fairshare: `show assoc` prints the word, and `sacctmgr dump` the number.
_PARENT = frozenset({"parent", str(2**31 - 1)})
_SHARES = ("fairshare", "share", "shares", "rawshares")
#: Bytes of a cluster's name with which a file's name is not too long for a file system.
_LONGEST_NAME = 200


def _with_inherited(
    own: Mapping[str, ResourceLimit], parent_of: Mapping[str, str]
) -> dict[str, ResourceLimit]:
    """Limits of accounts by name, each with what it says nothing of itself as its parents say it.

    Limits of a group of jobs are not taken over: they hold for all accounts below together.
    """
    found: dict[str, ResourceLimit] = {}
    for name in own:
        limit, above, seen = own[name], parent_of.get(name), {name}
        while above is not None and above not in seen:
            higher = own.get(above, _NO_LIMIT)
            limit = replace(
                limit,
                user={**higher.user, **limit.user},
                job={**higher.job, **limit.job},
                longest=limit.longest if limit.longest < math.inf else higher.longest,
            )
            seen.add(above)
            above = parent_of.get(above)
        found[name] = limit
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """What the accounting database says of a machine, by the fields of `Machine`."""

    qos: Mapping[str, ResourceLimit] = field(default_factory=dict)
    accounts: Mapping[str, ResourceLimit] = field(default_factory=dict)
    users: Mapping[str, ResourceLimit] = field(default_factory=dict)
    parent_of: Mapping[str, str] = field(default_factory=dict)
    account_of: Mapping[str, str] = field(default_factory=dict)
    associations: tuple[Association, ...] = ()
    left_out: Sequence[str] = ()


def files_beside(folder: Path, cluster: str) -> list[Path]:
    """Files of sacctmgr in the folder of a slurm.conf."""
    named = 0 < len(cluster.encode()) <= _LONGEST_NAME
    names = (*FILES, f"{cluster}.cfg") if named else FILES
    return [path for name in names if (path := folder / name).is_file()]


def read_files(paths: Iterable[Path], cluster: str) -> list[DatabaseEntry]:
    """Entries of files in any form: a script, a dump, tables."""
    return [entry for path in paths for entry in _entries_of(path, cluster)]


def _entries_of(path: Path, cluster: str) -> Iterator[DatabaseEntry]:
    try:
        text = read_whole(path).decode("utf-8", "replace")
    except OSError as error:
        problem = f"the file cannot be read ({error.strerror}); check its permissions"
        raise ConfigurationError(f"{path}: {problem}") from None
    told = (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    first = next(told, "")
    if first.lower().startswith(FIRST_WORDS):
        return read_dump(path, text)
    if BAR in first:
        return read_tables(str(path), text.splitlines(), cluster=cluster)
    return read_script(path, text)


def database_of(entries: Iterable[DatabaseEntry]) -> Database:
    """Sort entries by what they are about."""
    known = merged(entries)
    users, of_users = _users(known)
    accounts = [entry for entry in known if entry.kind == ACCOUNT]
    parent_of = {entry.name: entry.parent or ROOT for entry in accounts if entry.name != ROOT}
    own = {entry.name: limit_of(entry) for entry in accounts}
    sentences = [sentence for entry in known for sentence in not_modelled(entry)]
    of_cluster = [limit_of(entry) for entry in known if entry.kind == CLUSTER]
    above_all = {ROOT: of_cluster[-1]} if of_cluster else {}
    limits = _with_inherited(above_all | own, parent_of)
    return Database(
        qos={entry.name: limit_of(entry) for entry in known if entry.kind == QOS},
        accounts={name: limit for name, limit in limits.items() if limit != ResourceLimit()},
        users=users,
        parent_of=parent_of,
        account_of=_default_accounts(known),
        associations=tuple(sorted(_associations(known, parent_of), key=lambda each: each[:2])),
        left_out=(*sentences, *of_users),
    )


def _associations(
    entries: Iterable[DatabaseEntry], parent_of: Mapping[str, str]
) -> Iterator[Association]:
    for entry in entries:
        said = [value for key, value in entry.keys.items() if key in _SHARES]
        word, share = (said[-1].text.lower() if said else "-1"), None
        if word in {"-1", *NOTHING}:
            share = 1.0
        elif word not in _PARENT:
            share = float(said[-1].number())
        priority = association_priority(entry)
        if entry.kind == ACCOUNT and entry.name != ROOT:
            above = parent_of[entry.name]
            yield Association(entry.name, parent=above, share=share, priority=priority)
        elif entry.kind in (ACCOUNT, CLUSTER) and priority is not None:
            yield Association(ROOT, priority=priority)
        elif entry.kind == USER and entry.account:
            yield Association(entry.account, entry.name, share=share, priority=priority)


def _default_accounts(entries: Iterable[DatabaseEntry]) -> dict[str, str]:
    """Default account of each user: the one that is said to be it, else the first."""
    of: dict[str, str] = {}
    said: dict[str, str] = {}
    for entry in entries:
        if entry.kind == USER:
            default = entry.keys.get("defaultaccount")
            if default is not None and default.text:
                said[entry.name] = default.text.lower()
            if entry.account:
                of.setdefault(entry.name, entry.account)
    return of | said


def _users(entries: Iterable[DatabaseEntry]) -> tuple[dict[str, ResourceLimit], list[str]]:
    """Limits of users by name, those without any left out, and what cannot be said by name."""
    limits: dict[str, list[ResourceLimit]] = {}
    left_out: list[str] = []
    for entry in entries:
        if entry.kind != USER:
            continue
        limit = limit_of(entry)
        if entry.partition and limit != ResourceLimit():
            left_out.append(
                f"user {entry.name}: limits for partition {entry.partition} alone have no effect."
            )
        elif not entry.partition:
            limits.setdefault(entry.name, []).append(limit)
    left_out += [
        f"user {name}: its limits differ by account, and the widest hold for all."
        for name, found in limits.items()
        if any(limit != found[0] for limit in found)
    ]
    widest = {name: _widest(found) for name, found in limits.items()}
    return {name: each for name, each in widest.items() if each != ResourceLimit()}, left_out


def _widest(limits: Sequence[ResourceLimit]) -> ResourceLimit:
    """The least that holds whichever of these a job goes by."""

    def part(name: str) -> dict[str, float]:
        tables: list[Mapping[str, float]] = [getattr(limit, name) for limit in limits]
        most = {
            key: max(table.get(key, math.inf) for table in tables)
            for table in tables
            for key in table
        }
        return {key: value for key, value in most.items() if value < math.inf}

    longest = max(limit.longest for limit in limits)
    return ResourceLimit(group=part("group"), user=part("user"), job=part("job"), longest=longest)
