"""Entries of the accounting database, whichever form of sacctmgr they came in."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from slurm_rl_plugin.domain.machine import ResourceLimit
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.machine_files.statements import (
    NOTHING,
    UNLIMITED,
    Value,
    limits_of,
    not_modelled_keys,
)

QOS, ACCOUNT, USER, CLUSTER = "qos", "account", "user", "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseEntry:
    """A QOS, or an association of an account or a user with the cluster."""

    kind: str  #: QOS, ACCOUNT, USER or CLUSTER
    name: str  #: of accounts and QOS in lower case, as the database keeps them
    account: str = ""  #: of a user's association; "" for the default account alone
    parent: str = ""  #: of an account; "" where it is not told
    partition: str = ""  #: the only one for which it holds; "" for all
    keys: Mapping[str, Value] = field(default_factory=dict)  #: by name in lower case


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


GROUP, EACH_USER, JOB = "group", "user", "job"
#: What a key limits, and the resource that its plain number counts; "" for RESOURCE=NUMBER,...
_LIMITS: Mapping[str, tuple[str, str]] = {
    "grptres": (GROUP, ""),
    **{f"grp{what}": (GROUP, what) for what in ("jobs", "cpus", "memory", "nodes")},
    **{
        f"max{what or 'tres'}{end}": (EACH_USER, what)
        for what in ("", "jobs", "cpus", "nodes")
        for end in ("peruser", "pu")
    },
    **dict.fromkeys(("maxtres", "maxtresperjob", "maxtrespj"), (JOB, "")),
    **{f"max{what}{end}": (JOB, what) for what in ("cpus", "nodes") for end in ("", "perjob")},
}
_MAX_JOBS = "maxjobs"
_LONGEST = ("maxwall", "maxwalldurationperjob", "maxwalldur")
#: Values that say what holds without them; `cluster` is the mode of preemption of all.
_NEUTRAL = NOTHING | {"-1", "0", "1.000000", "1", "cluster", "denyonlimit"}


@cache
def known_keys() -> frozenset[str]:
    """All names of keys; of a dump they tell keys from values that hold a colon."""
    told = not_modelled_keys()
    others = (*told["database"], *told["without_effect"]["database_keys"])
    return frozenset({*_LIMITS, _MAX_JOBS, *_LONGEST, "priority", "usagefactor", *others})


def limit_of(entry: DatabaseEntry) -> ResourceLimit:
    """What an entry limits."""
    parts: dict[str, dict[str, float]] = {GROUP: {}, EACH_USER: {}, JOB: {}}
    for key, value in entry.keys.items():
        place, resource = _LIMITS.get(key, ("", ""))
        if key == _MAX_JOBS:
            # of an account or a QOS it holds for each of its users; of a user for all of its jobs
            place, resource = (GROUP if entry.kind == USER else EACH_USER), "jobs"
        if place and not _unset(value):
            own = {resource: value.bound()} if resource else limits_of(value)
            parts[place] |= {name: most for name, most in own.items() if most < math.inf}
    walls = [value for key, value in entry.keys.items() if key in _LONGEST]
    longest = walls[-1].seconds() if walls and not _unset(walls[-1]) else math.inf
    priority = association_priority(entry) if entry.kind == QOS else 0.0
    return ResourceLimit(
        group=parts[GROUP],
        user=parts[EACH_USER],
        job=parts[JOB],
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
    """Priority of an account or a user; None where nothing is set."""
    value = entry.keys.get("priority")
    return None if value is None or _unset(value) else float(value.number())


def _unset(value: Value) -> bool:
    return value.text.lower() in NOTHING | {"-1"}


def not_modelled(entry: DatabaseEntry) -> Iterator[str]:
    """A sentence on each limit that has no effect here."""
    why = not_modelled_keys()["database"]
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
#: Columns by which a header is told: of QOS, of associations, of users and their default accounts.
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
_LOOK = ("list", "show", "quit", "exit", "help", "version", "dump", "load", "archive")
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
            removed = {(kind, name) for name in _named(words, kind, _told(words, place))}
            entries = [each for each in entries if (each.kind, each.name) not in removed]
        elif verb:
            entries += _entries(words, kind, place, adds=verb in _ADD)
    yield from entries


def _parts(line: str, place: str) -> tuple[str, str, list[str]]:
    """Verb, kind and the rest of a line; "" for a line that changes nothing."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        raise ConfigurationError(f"{place}: a quote is not closed; close it") from None
    words = [word for word in words if word != "sacctmgr" and not word.startswith("-")]
    if not words or words[0].lower() in _LOOK:
        return "", "", []
    verb, kind = words[0].lower(), _KINDS.get(words[1].lower() if words[1:] else "")
    if verb not in (*_ADD, *_MODIFY, *_REMOVE):
        raise ConfigurationError(
            f"{place}: {words[0][:40]!r} is no verb of sacctmgr that is known here; write lines "
            "such as `add qos Name=long Priority=5`, or give the output of `sacctmgr dump`"
        )
    return (verb, kind, words[2:]) if kind else ("", "", [])


def _told(words: Sequence[str], place: str) -> dict[str, Value]:
    """Keys with their values."""
    pairs = ((word.partition("=")) for word in words if "=" in word)
    return {
        key.rstrip("+-").lower(): Value(place, key.rstrip("+-"), text) for key, _, text in pairs
    }


def _named(words: Sequence[str], kind: str, keys: dict[str, Value]) -> list[str]:
    """Names of what a line is about; accounts and QOS in lower case."""
    names = [word for word in words if "=" not in word and word.lower() not in ("where", "set")]
    for key in (*_NAMES, *_OWN_NAME[kind]):
        if key in keys and not names:
            names = list(keys[key].words)
    split = [name for each in names for name in each.split(",") if name]
    return split if kind == USER else [name.lower() for name in split]


def _entries(words: Sequence[str], kind: str, place: str, *, adds: bool) -> Iterator[DatabaseEntry]:
    """What a line says of each that it names; conditions before `set` say which."""
    at = next((i for i, word in enumerate(words) if word.lower() == "set"), None)
    where = words if at is None else words[:at]
    conditions = _told(where, place)
    keys = _told(words if at is None else words[at + 1 :], place)
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
    """Accounts of a user that a line is about; "" for all that it has."""
    for key in ("account", "accounts", "acct", *(("defaultaccount",) if adds else ())):
        if key in conditions:
            return [name.lower() for name in conditions[key].words]
    return [""]


_LINE = re.compile(r"(?P<kind>[A-Za-z]+)\s+-\s+(?P<name>'[^']*'|\"[^\"]*\"|[^:]*)(?P<rest>:.*)?")
#: A colon begins a key, unless it stands within quotes or a value.
_KEY = re.compile(r":([A-Za-z]+)[-+]?=('[^']*'|\"[^\"]*\"|)")
FIRST_WORDS = ("cluster - ", "parent - ", "account - ", "user - ", "qos - ")


def read_dump(path: Path, text: str) -> Iterator[DatabaseEntry]:
    """Entries of a dump in its order; accounts and users stand below their parent."""
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
