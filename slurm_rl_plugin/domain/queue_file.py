"""A look at the queue as a file, for those who do not ask the batch system themselves."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np

from slurm_rl_plugin.domain.jobs import QueueSnapshot
from slurm_rl_plugin.errors import QueueFileError
from slurm_rl_plugin.whole_file import PRIVATE, owner_of_folder, read_own, write_whole

#: First entry of each file; another number is another form.
_FORM = "slurm-rl queue 1"
#: Errors of a foreign or damaged file: zipfile knows flags that we never set, and a broken head
#: asks for more bytes than there are.
_NO_LOOK = (
    *(ValueError, KeyError, TypeError, AttributeError, OverflowError, RuntimeError, MemoryError),
    *(EOFError, zipfile.BadZipFile, zlib.error),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOnFile:
    """One look at the queue, and who orders it."""

    snapshot: QueueSnapshot  #: the queue
    mode: str  #: of the cycle that looked: active, shadow, fallback
    policy: str  #: whose order that cycle decided
    form: str = _FORM  #: of the file


def write_queue(path: Path, queue: QueueOnFile) -> None:
    """Replace the file by renaming a new one; its owner and group may read it."""
    content = io.BytesIO()
    np.savez(content, **dict(_entries(queue, "")))
    write_whole(path, content.getvalue(), sync=False, mode=PRIVATE)


def read_queue(path: Path) -> QueueOnFile:
    """The look in a file; QueueFileError where there is none."""
    try:
        content = read_own(path, owners=owner_of_folder(path))
        with np.load(io.BytesIO(content), allow_pickle=False) as found:
            entries = {name: found[name] for name in found.files}
        if str(entries.get("form")) != _FORM:
            raise ValueError("another form")
        queue: QueueOnFile = _built(QueueOnFile, entries, "")
        _check_lengths(queue.snapshot)
    except OSError as error:
        raise QueueFileError(
            f"the queue file {path} cannot be read ({error.strerror}): let the daemon write it, "
            "by [forecast] queue_file, and this user read it."
        ) from None
    except _NO_LOOK as error:
        raise QueueFileError(
            f"the queue file {path} holds no look of this release's daemon ({error}): let both be "
            "of one release."
        ) from None
    return queue


def _entries(table: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """Name and array of each column, tables in tables by names with dots."""
    for each in fields(table):
        value, name = getattr(table, each.name), prefix + each.name
        if is_dataclass(value):
            yield from _entries(value, name + ".")
        elif isinstance(value, tuple):
            yield name, np.array(value, dtype=np.str_)
        elif value is not None:
            yield name, np.asarray(value)


def _built(table: type, entries: Mapping[str, Any], prefix: str) -> Any:
    """A table of the columns under a prefix; missing ones have their defaults."""
    values: dict[str, Any] = {}
    for name, kind in get_type_hints(table).items():
        full = prefix + name
        inner = next((each for each in (kind, *get_args(kind)) if is_dataclass(each)), None)
        if inner is not None:
            if any(each.startswith(full + ".") for each in entries):
                values[name] = _built(inner, entries, full + ".")  # type: ignore[arg-type]
        elif full in entries:
            found = entries[full]
            if kind in (str, int, float, bool):
                found = kind(found.item())
            elif getattr(kind, "__origin__", None) is tuple:
                found = tuple(found.tolist())
            values[name] = found
    return table(**values)


def _check_lengths(snapshot: QueueSnapshot) -> None:
    """Refuse columns of one table that have different lengths."""
    for table in (snapshot.pending, snapshot.running, snapshot.started, snapshot.ended):
        for holder in (table, table.jobs):
            lengths = {
                len(value)
                for each in fields(holder)
                if isinstance(value := getattr(holder, each.name), np.ndarray)
            }
            if lengths - {len(table.jobs)}:
                raise ValueError("columns of different lengths")
