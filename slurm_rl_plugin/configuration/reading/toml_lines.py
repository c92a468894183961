"""In which line of a TOML text a key stands: tomllib gives values only."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

#: Keys and, for elements of arrays, places from 0.
TomlPath = tuple[str | int, ...]

_SPACE = re.compile(r"[ \t]*")
_FILL = re.compile(r"(?:[ \t\n]|#[^\n]*)*")  # between statements, and inside an array
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*'""")
_STRING = re.compile(
    r'"""(?:\\.|(?!""").)*"{3,5}'  # its last two quotes may stand before the three that end it
    r"|'''(?:(?!''').)*'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\n]+")


def lines_of(text: str, content: Mapping[str, Any]) -> dict[TomlPath, int]:
    """The line, from 1, in which each key, table and element of a list of tables is given first.

    Args:
        text: a valid TOML document.
        content: the same, parsed. A path that it does not have means that we misread the text;
            then no line is known, as a wrong one would be worse.
    """
    scan = _Scan(text.replace("\r\n", "\n"))
    try:
        scan.document()
    except (ValueError, RecursionError):
        return {}
    return scan.lines if all(_exists(path, content) for path in scan.lines) else {}


def key_given_twice(text: str, line: int) -> tuple[TomlPath, int, int] | None:
    """The last key given twice up to a line, with the lines of both; None where there is none.

    Args:
        text: a TOML document that is valid before `line`.
        line: where a parser gave it up.
    """
    scan = _Scan(text.replace("\r\n", "\n"))
    with suppress(ValueError, RecursionError):  # what follows `line` may be anything
        scan.document()
    return next((each for each in reversed(scan.twice) if each[2] <= line), None)


def _exists(path: TomlPath, content: Any) -> bool:
    for part in path:
        try:
            content = content[part]
        except (KeyError, IndexError, TypeError):
            return False
    return True


@dataclass(slots=True)
class _Scan:
    """Walks over the statements of a document; ValueError where it does not understand one."""

    text: str
    place: int = 0
    lines: dict[TomlPath, int] = field(default_factory=dict)
    twice: list[tuple[TomlPath, int, int]] = field(default_factory=list)
    _elements: dict[TomlPath, int] = field(default_factory=dict)
    _tables: dict[TomlPath, int] = field(default_factory=dict)

    def document(self) -> None:
        """Every statement up to the end."""
        table: TomlPath = ()
        while self._skip(_FILL) < len(self.text):
            if self.text[self.place] == "[":
                table = self._header()
            else:
                self._statement(table)

    def _header(self) -> TomlPath:
        line, many = self._line(), self.text.startswith("[[", self.place)
        self.place += 1 + many
        keys = self._keys()
        self._expect("]]" if many else "]")
        path = self._resolved(keys[:-1]) + keys[-1:]
        if many:
            number = self._elements[path] = self._elements.get(path, -1) + 1
            path = (*path, number)
        else:
            path = self._resolved(keys)
            if path in self._tables:
                self.twice.append((path, self._tables[path], line))
            self._tables[path] = line
        self._record(path, line)
        return path

    def _resolved(self, keys: TomlPath) -> TomlPath:
        """A header names the last element of each list of tables in its path."""
        path: TomlPath = ()
        for key in keys:
            path = (*path, key)
            if path in self._elements:
                path = (*path, self._elements[path])
        return path

    def _statement(self, table: TomlPath) -> None:
        line = self._line()
        path = table + self._keys()
        self._expect("=")
        if path in self.lines:
            self.twice.append((path, self.lines[path], line))
        self._record(path, line)
        self._value(path)

    def _value(self, path: TomlPath) -> None:
        begin = self._skip(_SPACE)
        first = self.text[begin : begin + 1]
        if first == "[":
            self._list(path)
        elif first == "{":
            self._inline_table(path)
        else:
            self._skip(_STRING if first in ('"', "'") else _SCALAR, needed=True)

    def _list(self, path: TomlPath) -> None:
        self.place += 1
        number = 0
        while not self._at("]", _FILL):
            if self.text.startswith("{", self.place):
                self._record((*path, number), self._line())
            self._value((*path, number))
            number += 1
            if not self._at(",", _FILL):
                self._expect("]")
                return

    def _inline_table(self, path: TomlPath) -> None:
        self.place += 1
        while not self._at("}", _FILL):
            self._statement(path)
            if not self._at(",", _FILL):
                self._expect("}")
                return

    def _keys(self) -> TomlPath:
        keys = [self._key()]
        while self._at(".", _SPACE):
            keys.append(self._key())
        return tuple(keys)

    def _key(self) -> str:
        self._skip(_SPACE)
        begin = self.place
        word = self.text[begin : self._skip(_KEY, needed=True)]
        quoted = word[0] in "\"'"
        return str(tomllib.loads(f"key = {word}")["key"]) if quoted else word

    def _at(self, sign: str, before: re.Pattern[str]) -> bool:
        """Whether a sign follows; it is passed by."""
        self._skip(before)
        if not self.text.startswith(sign, self.place):
            return False
        self.place += len(sign)
        return True

    def _expect(self, sign: str) -> None:
        if not self._at(sign, _SPACE):
            raise ValueError(f"no {sign} at {self.place}")

    def _skip(self, what: re.Pattern[str], *, needed: bool = False) -> int:
        found = what.match(self.text, self.place)
        if found is None:
            if needed:
                raise ValueError(f"not understood at {self.place}")
            return self.place
        self.place = found.end()
        return self.place

    def _record(self, path: TomlPath, line: int) -> None:
        for length in range(1, len(path) + 1):
            self.lines.setdefault(path[:length], line)

    def _line(self) -> int:
        return self.text.count("\n", 0, self.place) + 1
