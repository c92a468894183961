"""Cuts the lines of PBS accounting files into records, and their text into named values."""

from __future__ import annotations

import re
from datetime import datetime, tzinfo
from typing import NamedTuple

#: `grep` over several files writes the file's name before each line.
_HEAD = re.compile(
    r"(?:[^\s;]*:)?(\d\d/\d\d/\d{4} \d\d:\d\d:\d\d(?:\.\d+)?);([A-Za-z]);([^;]*);", re.ASCII
)
_NAME = re.compile(r"[A-Za-z_][\w.\-]*", re.ASCII)
_VALUE = re.compile(
    r"""\s*(?P<name>[A-Za-z_][\w.\-]*)=
        (?: "(?P<quoted>.*?)" (?=\s+[A-Za-z_][\w.\-]*= | \s*$)
          | (?P<plain> (?: (?!\s[A-Za-z_][\w.\-]*=) . )* ) )""",
    re.ASCII | re.VERBOSE | re.DOTALL,
)


class Record(NamedTuple):
    """One line: local time as written, type (`E` for the end of a run), job id, and the rest."""

    stamp: str
    kind: str
    job: str
    text: str


def cut_record(line: str) -> Record | None:
    """The parts of one line; None where it is no accounting record."""
    found = _HEAD.match(line)
    if found is None:
        return None
    stamp, kind, job = found.groups()
    return Record(stamp, kind, job, line[found.end() :])


def parse_stamp(stamp: str, zone: tzinfo | None) -> float:
    """Seconds since the epoch of a local time; `zone` None takes this machine's.

    Raises:
        ValueError: there is no such time.
    """
    local = datetime.strptime(stamp.partition(".")[0], "%m/%d/%Y %H:%M:%S").replace(tzinfo=zone)
    return local.timestamp()


class ValueCutter:
    """Cuts `name=value name=value`, where values may hold spaces and stand in quotes."""

    def __init__(self) -> None:
        #: Names seen so far: a few dozen in a whole log, so each is checked once.
        self._names: set[str] = set()

    def cut(self, text: str) -> dict[str, str]:
        """Name -> value, without quotes.

        Raises:
            ValueError: says which value cannot be told: users choose some of these texts, and
                must not be able to pass one value off as another.
        """
        if '"' not in text:
            try:
                pairs = [word.split("=", 1) for word in text.split()]
                values = dict(pairs)  # a word without = raises
            except ValueError:
                return self._cut_slowly(text)
            if len(values) == len(pairs) and (values.keys() <= self._names or self._learn(values)):
                return values
        return self._cut_slowly(text)

    def _learn(self, values: dict[str, str]) -> bool:
        if not all(_NAME.fullmatch(name) for name in values):
            return False
        self._names.update(values)
        return True

    def _cut_slowly(self, text: str) -> dict[str, str]:
        values: dict[str, str] = {}
        position, end = 0, len(text.rstrip())
        while position < end:
            found = _VALUE.match(text, position, end)
            if found is None:
                raise ValueError(f"{text[position : position + 40]!r} is no name=value")
            name, quoted, plain = found["name"], found["quoted"], found["plain"]
            value = plain.strip() if quoted is None else quoted
            if values.setdefault(name, value) != value:
                raise ValueError(f"{name} stands there twice")
            position = found.end()
        return values
