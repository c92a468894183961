"""Documents of dataclasses as JSON: how they are written, read back with their types, and kept."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, partial
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.whole_file import PRIVATE, owner_of_folder, read_own, write_whole

logger = logging.getLogger(__name__)
#: Errors of a file that cannot be read, or of a document that is another one.
UNREADABLE = (
    *(OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError),
)
_Parsed = TypeVar("_Parsed")


def as_json(value: Any) -> Any:
    """A value as JSON: dataclasses as tables, tuples as lists, NaN and infinity as null."""
    if is_dataclass(value):
        return {each.name: as_json(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): as_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def typed(kind: Any, found: Any) -> Any:
    """What `as_json` made, as the type that it was; a null that is a float is NaN.

    A field that is missing has its default. One of UNREADABLE for another document: an unknown
    field, another type, or a number of more than 64 bits.
    """
    return _reader(kind)(found)


def _exactly(kind: type[_Parsed], found: Any) -> _Parsed:
    if type(found) is not kind:
        raise TypeError(f"{found!r} is no {kind.__name__}")
    return found


def _int(found: Any) -> int:
    if not -(2**63) <= _exactly(int, found) < 2**63:
        raise ValueError("a number of more than 64 bits")
    return int(found)


def _float(found: Any) -> float:
    if found is None:
        return math.nan
    number = float(found) if type(found) is int else _exactly(float, found)
    if not abs(number) < 2**63:
        raise ValueError(f"{number} is no number")
    return number


_PLAIN: dict[Any, Callable[[Any], Any]] = {
    bool: partial(_exactly, bool),
    float: _float,
    int: _int,
    str: partial(_exactly, str),
}


@cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    origin, parts = get_origin(kind), get_args(kind)
    if kind in _PLAIN:
        return _PLAIN[kind]
    if origin in (Union, UnionType):
        present = _reader(parts[0])
        return lambda found: None if found is None else present(found)
    if origin in (dict, Mapping):
        name_of, value_of = parts[0], _reader(parts[1])
        return lambda found: {name_of(name): value_of(each) for name, each in found.items()}
    if origin in (list, Sequence) or parts[1:] == (...,):
        entry, made = _reader(parts[0]), list if origin is list else tuple
        return lambda found: made(map(entry, _exactly(list, found)))
    if origin is tuple:
        return partial(_row, [_reader(each) for each in parts])
    fields_of = {name: _reader(each) for name, each in get_type_hints(kind).items()}
    return partial(_made, kind, fields_of)


def _row(readers: Iterable[Callable[[Any], Any]], found: Any) -> tuple[Any, ...]:
    pairs = zip(readers, _exactly(list, found), strict=True)
    return tuple(read(each) for read, each in pairs)


def _made(kind: Any, readers: Mapping[str, Callable[[Any], Any]], found: Any) -> Any:
    """A named tuple of a list, or a dataclass of a table."""
    if issubclass(kind, tuple):
        return kind(*_row(readers.values(), found))
    return kind(**{name: readers[name](each) for name, each in found.items()})


@dataclass(frozen=True, slots=True)
class JsonRecord:
    """A JSON document in a file."""

    path: Path
    what: str  #: a key of the log
    versions: tuple[int, ...] = (1,)  #: that can be read; the last one is written

    def document(self) -> dict[str, Any]:
        """The document without its version; one of UNREADABLE where there is none."""
        document: dict[str, Any] = kept_json(self.path)
        if (version := document.pop("version")) not in self.versions:
            raise ValueError(f"version {version}")
        return document

    def read(self, parsed: Callable[[dict[str, Any]], _Parsed]) -> _Parsed | None:
        """What `parsed` makes of the document; None, logged, where it raises one of UNREADABLE.

        FileNotFoundError where there is no file.
        """
        try:
            return parsed(self.document())
        except FileNotFoundError:
            raise
        except UNREADABLE as error:
            logger.warning("%s=unreadable path=%s error=%s", self.what, self.path, error)
            return None

    def write(self, document: Mapping[str, Any]) -> None:
        """Replace the file by the document with a version; ConfigurationError if not writable."""
        try:
            self._write(document, sync=True)
        except OSError as error:
            raise unwritable(f"{self.what} file", self.path, error) from None

    def keep(self, document: Mapping[str, Any]) -> bool:
        """Replace a file whose loss harms no job, without a wait for the disk; False on failure."""
        try:
            self._write(document, sync=False)
        except OSError as error:
            logger.warning("%s=unwritable path=%s error=%s", self.what, self.path, error)
            return False
        return True

    def _write(self, document: Mapping[str, Any], *, sync: bool) -> None:
        content = json.dumps({"version": self.versions[-1], **document})
        write_whole(self.path, content, sync=sync, mode=PRIVATE)


def kept_json(path: Path) -> Any:
    """The JSON of a file that only this user, root or the folder's owner can have made.

    OSError or ValueError where there is none.
    """
    try:
        return json.loads(read_own(path, owners=owner_of_folder(path)))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def unwritable(name: str, path: Path, error: OSError) -> ConfigurationError:
    """The error of a file that cannot be written."""
    return ConfigurationError(
        f"{name} {path} cannot be written ({error.strerror}): make its folder writable for this "
        "user."
    )


def beside(path: Path, ending: str) -> Path:
    """A file next to another one, named after it."""
    return path.with_name(f"{path.name}.{ending}")
