"""Scripts for sacctmgr: lines such as `add QOS Name=long Priority=5`, `modify user ... set ...`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.machine_files.database.entries import (
    ACCOUNT,
    CLUSTER,
    QOS,
    USER,
    DatabaseEntry,
)
from slurm_rl_plugin.machine_files.values import Value

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
    """Entries of a script in its order, each line as what it adds or sets.

    Raises:
        ConfigurationError: a line is not understood.
    """
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
