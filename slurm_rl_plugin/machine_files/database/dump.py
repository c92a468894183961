"""Files of `sacctmgr dump`: lines such as `Account - 'physics':Fairshare=3:GrpTRES=cpu=40`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.machine_files.database.entries import ACCOUNT, USER, DatabaseEntry
from slurm_rl_plugin.machine_files.database.limits import KNOWN_KEYS
from slurm_rl_plugin.machine_files.values import Value

_LINE = re.compile(r"(?P<kind>[A-Za-z]+)\s+-\s+(?P<name>'[^']*'|\"[^\"]*\"|[^:]*)(?P<rest>:.*)?")
#: A colon begins a key, unless it stands within quotes or a value.
_KEY = re.compile(r":([A-Za-z]+)[-+]?=('[^']*'|\"[^\"]*\"|)")
FIRST_WORDS = ("cluster - ", "parent - ", "account - ", "user - ", "qos - ")


def read_dump(path: Path, text: str) -> Iterator[DatabaseEntry]:
    """Entries of a dump in its order; accounts and users stand below their parent.

    Raises:
        ConfigurationError: a line is not understood.
    """
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
        yield DatabaseEntry(
            kind=kind,
            name=name if kind == USER else name.lower(),
            account=parent if kind == USER else "",
            parent=parent if kind == ACCOUNT else "",
            partition=_partition(found["rest"] or ""),
            keys=_keys(found["rest"] or "", f"{path}:{number}"),
        )


def _partition(rest: str) -> str:
    found = re.search(r":Partition='?([^':]+)", rest, re.IGNORECASE)
    return found[1] if found else ""


def _keys(rest: str, place: str) -> dict[str, Value]:
    begins = [found for found in _KEY.finditer(rest) if found[1].lower() in KNOWN_KEYS]
    ends = [*(found.start() for found in begins), len(rest)][1:]
    keys: dict[str, Value] = {}
    for found, end in zip(begins, ends, strict=True):
        text = rest[found.start(2) : end].strip("'\"")
        keys[found[1].lower()] = Value(place, found[1], text)
    return keys
