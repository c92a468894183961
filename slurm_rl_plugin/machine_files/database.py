"""The accounting database from any output of sacctmgr: limits, shares, accounts, enforcement."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from slurm_rl_plugin.domain.machine import MachinePartition, ResourceLimit
from slurm_rl_plugin.domain.share_tree import Association
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.machine_files.statements import (
    NOTHING,
    UNLIMITED,
    Keys,
    Value,
    limits_of,
    slurm_keys,
)
from slurm_rl_plugin.whole_file import read_whole

QOS, ACCOUNT, USER, CLUSTER = "qos", "account", "user", "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseEntry:
    """A QOS, or an association of an account or a user with the cluster."""

    kind: str  #: QOS, ACCOUNT, USER or CLUSTER
    name: str  #: of accounts and QOS in lower case, as in the database
    account: str = ""  #: of a user's association; "" for the default account alone
    parent: str = ""  #: of an account; "" if not known
    partition: str = ""  #: to which it applies; "" for all
    keys: Mapping[str, Value] = field(default_factory=dict)  #: by name in lower case


def merged(entries: Iterable[DatabaseEntry]) -> list[DatabaseEntry]:
    """One entry for each object; later entries override keys of earlier ones.

    An entry of a user without an account changes all associations of the user.
    """
    found: dict[tuple[str, str, str, str], DatabaseEntry] = {}
    for entry in entries:
        own = (entry.kind, entry.name, entry.account, entry.partition)
        meant = [own]
        if entry.kind == USER and not entry.account:
            meant = [key for key in found if key[:2] == own[:2]] or meant
        for key in meant:
            before = found.get(key)
            if before is None:
                found[key] = entry
                continue
            # the later of two names of one limit applies, so new keys come last
            keys = {name: each for name, each in before.keys.items() if name not in entry.keys}
            parent = entry.parent or before.parent
            found[key] = replace(before, parent=parent, keys=keys | dict(entry.keys))
    return list(found.values())


_MAX_JOBS = "maxjobs"
_LONGEST = ("maxwall", "maxwalldurationperjob", "maxwalldur")
#: Values equal to the default; `cluster` is the cluster's mode of preemption.
_NEUTRAL = NOTHING | {"-1", "0", "1.000000", "1", "cluster", "denyonlimit"}


@cache
def _limits() -> dict[str, tuple[str, str]]:
    """Key -> scope of the limit, and the resource of a plain number; "" for RESOURCE=NUMBER,..."""
    scopes = slurm_keys()["limits"].items()
    return {key: (scope, resource) for scope, keys in scopes for key, resource in keys.items()}


@cache
def known_keys() -> frozenset[str]:
    """All names of keys, by which a dump's keys differ from values with a colon."""
    tables = slurm_keys()
    others = (*tables["database"], *tables["without_effect"]["database_keys"])
    return frozenset({*_limits(), _MAX_JOBS, *_LONGEST, "priority", "usagefactor", *others})


def limit_of(entry: DatabaseEntry) -> ResourceLimit:
    """The limits of an entry."""
    parts: dict[str, dict[str, float]] = {"group": {}, "user": {}, "job": {}}
    for key, value in entry.keys.items():
        place, resource = _limits().get(key, ("", ""))
        if key == _MAX_JOBS:
            # for each user of an account or a QOS, but for all jobs of a user
            place, resource = ("group" if entry.kind == USER else "user"), "jobs"
        if place and not _unset(value):
            own = {resource: value.bound()} if resource else limits_of(value)
            parts[place] |= {name: most for name, most in own.items() if most < math.inf}
    walls = [value for key, value in entry.keys.items() if key in _LONGEST]
    longest = walls[-1].seconds() if walls and not _unset(walls[-1]) else math.inf
    priority = association_priority(entry) if entry.kind == QOS else 0.0
    return ResourceLimit(
        **parts,
        longest=longest,
        priority=priority or 0.0,
        usage_factor=_usage_factor(entry),
    )


def _usage_factor(entry: DatabaseEntry) -> float:
    value = entry.keys.get("usagefactor")
    if value is None or entry.kind != QOS or value.text.lower() in NOTHING | UNLIMITED:
        return 1.0
    try:
        factor = float(value.text)
    except ValueError:
        factor = math.nan
    if not 0.0 <= factor < math.inf:
        raise value.fault("this is no factor; write a number, 0 or more")
    return factor


def association_priority(entry: DatabaseEntry) -> float | None:
    """Priority of an account or a user; None if it is not set."""
    value = entry.keys.get("priority")
    return None if value is None or _unset(value) else float(value.number())


def _unset(value: Value) -> bool:
    return value.text.lower() in NOTHING | {"-1"}


def not_modelled(entry: DatabaseEntry) -> Iterator[str]:
    """A sentence on each limit that has no effect here."""
    why = slurm_keys()["database"]
    for key, value in entry.keys.items():
        if value.text.lower() in _NEUTRAL:
            continue
        what = f"{value.place}: {entry.kind} {entry.name}: {value.key}={value.text}"
        if key in why:
            yield f"{what}: {why[key]}."
        elif key not in known_keys():
            yield f"{what}: not known here, so it has no effect."


BAR = "|"
_QOS_COLUMN, _ACCOUNT_COLUMN = "name", "account"
#: Columns of a header: of QOS, of associations, of users and their default accounts.
_HEADERS = ({_QOS_COLUMN, "priority"}, {_ACCOUNT_COLUMN, "user"}, {"user", "defaultaccount"})
_SAME = {"acct": "account", "defacct": "defaultaccount", "parname": "parentname"}


def read_tables(place: str, lines: Iterable[str], *, cluster: str = "") -> Iterator[DatabaseEntry]:
    """Entries of one or more tables, each after its header."""
    header: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        cells = line.rstrip("\r\n").split(BAR)
        plain = all(cell.replace(" ", "").isalnum() for cell in cells if cell)
        if plain and any(each <= {*map(_column, cells)} for each in _HEADERS):
            header = cells
        elif len(cells) != len(header):
            raise ConfigurationError(
                f"{place}:{number}: this row has {len(cells)} values and its header "
                f"{len(header)}; write the table again with `sacctmgr -P show qos` or "
                "`sacctmgr -P show assoc`"
            )
        else:
            yield from _entry(f"{place}:{number}", header, cells, cluster)


def _column(cell: str) -> str:
    name = cell.replace(" ", "").lower()
    return _SAME.get(name, name)


def _entry(
    place: str, header: Sequence[str], cells: Sequence[str], cluster: str
) -> Iterator[DatabaseEntry]:
    titled = [(title, cell.strip()) for title, cell in zip(header, cells, strict=True) if title]
    row = {_column(title): cell for title, cell in titled}
    if cluster and row.get("cluster", cluster) != cluster:
        return
    keys = {_column(title): Value(place, title, cell) for title, cell in titled if cell}
    if _QOS_COLUMN in row:
        yield DatabaseEntry(kind=QOS, name=row[_QOS_COLUMN].lower(), keys=keys)
        return
    user, account = row.get("user", ""), row.get(_ACCOUNT_COLUMN, "").lower()
    yield DatabaseEntry(
        kind=USER if user else ACCOUNT,
        name=user or account,
        account=account if user else "",
        parent="" if user else row.get("parentname", "").lower(),
        partition=row.get("partition", ""),
        keys=keys,
    )


_ADD, _MODIFY, _REMOVE = ("add", "create"), ("modify", "update"), ("remove", "delete")
#: Verbs that change nothing.
_READ_ONLY = ("list", "show", "quit", "exit", "help", "version", "dump", "load", "archive")
_KINDS = {
    **dict.fromkeys(("account", "accounts", "acct"), ACCOUNT),
    **dict.fromkeys(("user", "users"), USER),
    **dict.fromkeys(("cluster", "clusters"), CLUSTER),
    "qos": QOS,
}
_NAMES = ("name", "names")
_OWN_NAME = {ACCOUNT: ("accounts", "account"), USER: ("users", "user"), QOS: ("qos",), CLUSTER: ()}


def read_script(path: Path, text: str) -> Iterator[DatabaseEntry]:
    """Entries of a script in its order, each line as what it adds or sets."""
    entries: list[DatabaseEntry] = []
    for number, line in enumerate(text.splitlines(), start=1):
        place = f"{path}:{number}"
        verb, kind, words = _parts(line, place)
        if verb in _REMOVE:
            removed = {(kind, name) for name in _named(words, kind, _pairs(words, place))}
            entries = [each for each in entries if (each.kind, each.name) not in removed]
        elif verb:
            entries += _entries(words, kind, place, adds=verb in _ADD)
    yield from entries


def _parts(line: str, place: str) -> tuple[str, str, list[str]]:
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        raise ConfigurationError(f"{place}: a quote is not closed; close it") from None
    words = [word for word in words if word != "sacctmgr" and not word.startswith("-")]
    if not words or words[0].lower() in _READ_ONLY:
        return "", "", []
    verb, kind = words[0].lower(), _KINDS.get(words[1].lower() if words[1:] else "")
    if verb not in (*_ADD, *_MODIFY, *_REMOVE):
        raise ConfigurationError(
            f"{place}: {words[0][:40]!r} is no verb of sacctmgr that is known here; write lines "
            "such as `add qos Name=long Priority=5`, or give the output of `sacctmgr dump`"
        )
    return (verb, kind, words[2:]) if kind else ("", "", [])


def _pairs(words: Sequence[str], place: str) -> dict[str, Value]:
    pairs = ((word.partition("=")) for word in words if "=" in word)
    return {
        key.rstrip("+-").lower(): Value(place, key.rstrip("+-"), text) for key, _, text in pairs
    }


def _named(words: Sequence[str], kind: str, keys: dict[str, Value]) -> list[str]:
    names = [word for word in words if "=" not in word and word.lower() not in ("where", "set")]
    for key in (*_NAMES, *_OWN_NAME[kind]):
        if key in keys and not names:
            names = list(keys[key].words)
    split = [name for each in names for name in each.split(",") if name]
    return split if kind == USER else [name.lower() for name in split]


def _entries(words: Sequence[str], kind: str, place: str, *, adds: bool) -> Iterator[DatabaseEntry]:
    """An entry for each object of a line; conditions before `set` select them."""
    at = next((i for i, word in enumerate(words) if word.lower() == "set"), None)
    where = words if at is None else words[:at]
    conditions = _pairs(where, place)
    keys = _pairs(words if at is None else words[at + 1 :], place)
    parent = next((keys[key].text for key in ("parent", "parentname") if key in keys), "")
    names = _named(where, kind, conditions)
    if not names:
        raise ConfigurationError(
            f"{place}: the line names no {kind}; add Name=..., or give what `sacctmgr dump` writes"
        )
    for name in names:
        for account in _accounts(conditions, adds=adds) if kind == USER else [""]:
            yield DatabaseEntry(
                kind=kind,
                name=name,
                account=account,
                parent=parent.lower(),
                partition=conditions["partition"].text if "partition" in conditions else "",
                keys={key: value for key, value in keys.items() if key not in _NAMES},
            )


def _accounts(conditions: dict[str, Value], *, adds: bool) -> list[str]:
    """Accounts of a user in a line; "" for all."""
    for key in ("account", "accounts", "acct", *(("defaultaccount",) if adds else ())):
        if key in conditions:
            return [name.lower() for name in conditions[key].words]
    return [""]


_LINE = re.compile(r"(?P<kind>[A-Za-z]+)\s+-\s+(?P<name>'[^']*'|\"[^\"]*\"|[^:]*)(?P<rest>:.*)?")
#: A colon begins a key, unless it is within quotes or a value.
_KEY = re.compile(r":([A-Za-z]+)[-+]?=('[^']*'|\"[^\"]*\"|)")
FIRST_WORDS = ("cluster - ", "parent - ", "account - ", "user - ", "qos - ")


def read_dump(path: Path, text: str) -> Iterator[DatabaseEntry]:
    """Entries of a dump in its order; accounts and users follow their parent."""
    parent = ""
    for number, line in enumerate(text.splitlines(), start=1):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        found = _LINE.fullmatch(bare)
        if found is None or not bare.lower().startswith(FIRST_WORDS):
            raise ConfigurationError(
                f"{path}:{number}: this is no line of `sacctmgr dump`; write it again with "
                "`sacctmgr dump CLUSTER file=FILE`"
            )
        kind, name = found["kind"].lower(), found["name"].strip("'\" ")
        if kind == "parent":
            parent = name.lower()
            continue
        rest = found["rest"] or ""
        partition = re.search(r":Partition='?([^':]+)", rest, re.IGNORECASE)
        yield DatabaseEntry(
            kind=kind,
            name=name if kind == USER else name.lower(),
            account=parent if kind == USER else "",
            parent=parent if kind == ACCOUNT else "",
            partition=partition[1] if partition else "",
            keys=_keys(rest, f"{path}:{number}"),
        )


def _keys(rest: str, place: str) -> dict[str, Value]:
    begins = [found for found in _KEY.finditer(rest) if found[1].lower() in known_keys()]
    ends = [*(found.start() for found in begins), len(rest)][1:]
    keys: dict[str, Value] = {}
    for found, end in zip(begins, ends, strict=True):
        text = rest[found.start(2) : end].strip("'\"")
        keys[found[1].lower()] = Value(place, found[1], text)
    return keys


_ENFORCE = "accountingstorageenforce"
_NO_LIMIT = ResourceLimit()


def enforced(
    database: Database, settings: Keys, partitions: Sequence[MachinePartition]
) -> Database:
    """The database with the limits that Slurm enforces."""
    words, of_associations = _words(settings), enforces_limits(settings)
    of_qos = "all" in words or (of_associations and "qos" in words)
    bare = {
        name: ResourceLimit(priority=each.priority, usage_factor=each.usage_factor)
        for name, each in database.qos.items()
    }
    limits = [*database.accounts.values(), *database.users.values()]
    unknown = sorted({each.qos for each in partitions if each.qos} - set(database.qos))
    sentences = slurm_keys()["enforcement"]
    holds = {
        "limits": not of_associations and any(limit != _NO_LIMIT for limit in limits),
        "qos": not of_qos and bare != database.qos,
        "associations": of_associations and not database.parent_of,
        "unknown_qos": of_qos and bool(unknown),
    }
    given = [sentences[each].format(", ".join(unknown)) for each, is_so in holds.items() if is_so]
    return replace(
        database,
        qos=database.qos if of_qos else bare,
        accounts=database.accounts if of_associations else {},
        users=database.users if of_associations else {},
        left_out=(*database.left_out, *given),
    )


def enforces_limits(settings: Keys) -> bool:
    """Whether Slurm enforces limits of associations."""
    return bool(_words(settings) & {"limits", "safe", "all"})


def _words(settings: Keys) -> set[str]:
    return {word.lower() for word in settings.words(_ENFORCE)}


#: Files in the folder of slurm.conf, in addition to CLUSTER.cfg, the name by `sacctmgr dump`.
FILES = ("sacctmgr.script", "sacctmgr.cfg", "qos.txt", "assoc.txt", "user.txt")
ROOT = "root"
#: Fairshare of the parent: `show assoc` prints the word, and `sacctmgr dump` the number.
_PARENT = frozenset({"parent", str(2**31 - 1)})
_SHARES = ("fairshare", "share", "shares", "rawshares")
#: Bytes of a cluster's name that fit into a file's name.
_LONGEST_NAME = 200


def _with_inherited(
    own: Mapping[str, ResourceLimit], parent_of: Mapping[str, str]
) -> dict[str, ResourceLimit]:
    """Limits of accounts by name; an account inherits the limits that it does not set.

    It inherits no limits of a group of jobs, which apply to all accounts below together.
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
    """The accounting database by the fields of `Machine`."""

    qos: Mapping[str, ResourceLimit] = field(default_factory=dict)
    accounts: Mapping[str, ResourceLimit] = field(default_factory=dict)
    users: Mapping[str, ResourceLimit] = field(default_factory=dict)
    parent_of: Mapping[str, str] = field(default_factory=dict)
    account_of: Mapping[str, str] = field(default_factory=dict)
    bound_users: frozenset[str] = frozenset()
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
    lines = (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    first = next(lines, "")
    if first.lower().startswith(FIRST_WORDS):
        return read_dump(path, text)
    if BAR in first:
        return read_tables(str(path), text.splitlines(), cluster=cluster)
    return read_script(path, text)


def database_of(entries: Iterable[DatabaseEntry]) -> Database:
    """Sort the entries."""
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
        bound_users=frozenset(each.name for each in known if each.kind == USER and each.partition),
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
    """Default account of each user: the configured one, else the first."""
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
    """Limits of users with any by name, and what cannot be modelled by name."""
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
