"""The files of a configuration, the line of each key, and the readable lines of a broken file."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slurm_rl_plugin.configuration.sections import KEYS
from slurm_rl_plugin.whole_file import read_whole

#: Folder next to the file; its *.toml are read after the file, in the order of their names.
FURTHER_FILES = "conf.d"
#: Keys and, in lists of tables, places from 0.
TomlPath = tuple[str | int, ...]
_WORD = r"""(?:[\w-]+|"(?:\\[btnfr\\]|[^"\\])*"|'[^']*')"""
_WORDS = rf"({_WORD}(?:\s*\.\s*{_WORD})*)\s*"
_HEADER = re.compile(rf"\s*\[(\[?)\s*{_WORDS}\]")
_STATEMENT = re.compile(rf"\s*{_WORDS}=")
#: A comment or a text; the group is a text of several lines, in which no line is a key.
_NO_KEYS = re.compile(
    r"""#[^\n]*|(\"{3}(?:\\.|[^\\])*?\"{3}|'{3}.*?'{3})|"(?:\\.|[^"\\\n])*"|'[^'\n]*'""", re.DOTALL
)
_LINE = re.compile(r"\s*([A-Za-z_]+)\s*=\s*(.*)")
#: A text, with or without its quotes.
_TEXT = re.compile(r"[\"']?([^\"'#]+)")


def _statements(text: str) -> Iterator[tuple[TomlPath, int]]:
    """Path and line of each header or key at the start of a line."""
    table: TomlPath = ()
    places: dict[TomlPath, int] = {}
    known = _NO_KEYS.sub(lambda each: "\n" * each[0].count("\n") if each[1] else each[0], text)
    for line, words in enumerate(known.split("\n"), start=1):
        if header := _HEADER.match(words):
            table, keys = (), _keys(header[2])
            if header[1]:
                places[keys] = places.get(keys, -1) + 1
            for key in keys:  # a header names the last element of each list in its path
                table = (*table, key)
                name = tuple(each for each in table if isinstance(each, str))
                table = (*table, places[name]) if name in places else table
            yield table, line
        elif statement := _STATEMENT.match(words):
            yield table + _keys(statement[1]), line


def _keys(words: str) -> TomlPath:
    found = re.findall(_WORD, words)
    return tuple(
        json.loads(each, strict=False) if each[0] == '"' else each.strip("'") for each in found
    )


def lines_of(text: str, content: Mapping[str, Any]) -> dict[TomlPath, int]:
    """The first line, from 1, of each key and table of a valid document.

    A path that `content`, the parsed text, does not have was misread, so it gets no line.
    """
    lines: dict[TomlPath, int] = {}
    for path, line in _statements(text):
        for length in range(1, len(path) + 1):
            if _exists(path[:length], content):
                lines.setdefault(path[:length], line)
    return lines


def _exists(path: TomlPath, content: Any) -> bool:
    try:
        for part in path:
            content = content[part]
    except (KeyError, IndexError, TypeError):
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationFile:
    """The content of one TOML file, with the line of each key."""

    name: str  #: at the start of messages
    content: Mapping[str, Any]
    #: the lines of its keys, as far as they are known
    lines: Mapping[TomlPath, int] = field(default_factory=dict)

    def where(self, *path: str | int) -> str:
        """`file:line` of a key, or only the file if the line is unknown."""
        line = self.lines.get(path)
        return self.name if line is None else f"{self.name}:{line}"


def configuration_paths(path: Path, faults: list[str]) -> list[Path]:
    """The named file and those of conf.d, in the order in which they are read."""
    folder = path.parent / FURTHER_FILES
    found: list[Path] = []
    try:
        found = sorted(folder.iterdir(), key=lambda each: each.name)
    except OSError as error:
        if os.path.lexists(folder):  # else no further files are wanted
            faults.append(f"configuration {folder} cannot be read: {error.strerror}.")
    further = [each for each in found if each.suffix == ".toml" and each.name[0] != "."]
    return [path, *further]


def read_files(path: Path, faults: list[str]) -> list[ConfigurationFile]:
    """The named file and those of conf.d; unreadable files are added to the faults."""
    read = [read_file(each, faults) for each in configuration_paths(path, faults)]
    return [each for each in read if each is not None]


def read_file(path: Path, faults: list[str]) -> ConfigurationFile | None:
    """One file; None, and one more fault, if it cannot be read."""
    try:
        text = read_whole(path).decode()
    except FileNotFoundError:
        faults.append(f"configuration {path} does not exist: write it or give --config.")
        return None
    except OSError as error:
        faults.append(f"configuration {path} cannot be read: {error.strerror}.")
        return None
    except UnicodeDecodeError as error:
        faults.append(f"configuration {path} cannot be read: byte {error.start} is not UTF-8.")
        return None
    try:
        content = tomllib.loads(text)
    except ValueError as error:  # a TOMLDecodeError, or a number of thousands of digits
        faults.append(_not_toml(path, str(error)))
        return None
    except RecursionError:
        faults.append(f"{path} is not readable TOML: it is nested too deeply.")
        return None
    return ConfigurationFile(name=str(path), content=content, lines=lines_of(text, content))


def _not_toml(path: Path, problem: str) -> str:
    found = re.search(r" \(at line (\d+), column (\d+)\)$", problem)
    if found is None:
        return f"{path} is not TOML: {problem}."
    words = problem[: found.start()]
    return f"{path}:{found[1]}: is not TOML: {words}, in column {found[2]}."


def shown(key: str) -> str:
    """A key as TOML writes it, always on one line."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key)


def readable_lines(path: Path, wanted: Collection[str]) -> dict[str, dict[str, Any]]:
    """Section -> key -> value, from the lines that are valid by themselves.

    Headings are ignored, because one of them may be the typo: a key counts if only one section has
    it.
    """
    sections: dict[str, list[str]] = {}
    for section, names in KEYS.items():
        for name in names:
            sections.setdefault(name, []).append(section)
    found: dict[str, dict[str, Any]] = {}
    for name, value in _values(path):
        if len(sections.get(name, ())) == 1:
            section = sections[name][0]
            if section in wanted and KEYS[section][name].fault(value) is None:
                found.setdefault(section, {})[name] = value
    return found


def _values(path: Path) -> Iterator[tuple[str, Any]]:
    for each in configuration_paths(path, []):
        try:
            text = read_whole(each).decode(errors="replace")
        except OSError:
            continue
        for line in text.splitlines():
            match = _LINE.match(line)
            if match is not None:
                yield match[1], _value(match)


def _value(match: re.Match[str]) -> Any:
    try:
        content: Mapping[str, Any] = tomllib.loads(match[0])
        return content[match[1]]
    except (ValueError, RecursionError):
        text = _TEXT.match(match[2])
        return None if text is None else text[1].strip()
