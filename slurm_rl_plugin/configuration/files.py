"""The files of a configuration: lines of keys, readable lines of a broken file, and its tables.

Tables are [shares], [[job_class]] and [utility.NAME], and [[site]] for `route`. Shares and rules of
a later file replace all earlier ones; a class replaces that of its name.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from slurm_rl_plugin.batch_systems.registry import BATCH_SYSTEMS
from slurm_rl_plugin.brokers.live.remote_site import RemoteSite
from slurm_rl_plugin.configuration.key import DEFAULT, JOB_CLASS, SHARES, UTILITY, nearest
from slurm_rl_plugin.configuration.sections import KEYS
from slurm_rl_plugin.domain.job_class import DEFAULT_JOB_CLASS_RULES, JobClassifier, JobClassRule
from slurm_rl_plugin.domain.utility_class import BATCH, BUILT_IN, UtilityClass
from slurm_rl_plugin.errors import ConfigurationError
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


def _statements(text: str) -> Iterator[tuple[TomlPath, int, bool]]:
    """Path and line of each header or key at the start of a line, and whether it is a header."""
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
            yield table, line, True
        elif statement := _STATEMENT.match(words):
            yield table + _keys(statement[1]), line, False


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
    for path, line, _ in _statements(text):
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
        faults.append(_not_toml(path, text, str(error)))
        return None
    except RecursionError:
        faults.append(f"{path} is not readable TOML: it is nested too deeply.")
        return None
    return ConfigurationFile(name=str(path), content=content, lines=lines_of(text, content))


def _not_toml(path: Path, text: str, problem: str) -> str:
    found = re.search(r" \(at line (\d+), column (\d+)\)$", problem)
    if found is None:
        return f"{path} is not TOML: {problem}."
    line, column = int(found[1]), found[2]
    twice = _given_twice(text, line) if re.search("overwrite|twice", problem) else None
    if twice is None:
        bare = re.match(r"[A-Za-z/]", text.splitlines()[line - 1][int(column) - 1 :])
        hint = ": text needs quotation marks" if bare and "Invalid value" in problem else ""
        return f"{path}:{line}: is not TOML: {problem[: found.start()]}, in column {column}{hint}."
    keys, first, again = twice
    return f"{path}:{again}: {shown_path(keys)} is given twice, first in line {first}."


def _given_twice(text: str, last: int) -> tuple[TomlPath, int, int] | None:
    """The last key given twice up to line `last`, with both lines; None for none."""
    first: dict[tuple[TomlPath, bool], int] = {}
    found = None
    for path, line, is_header in _statements(text):
        begun = first.setdefault((path, is_header), line)
        if begun < line <= last:
            found = path, begun, line
    return found


def shown_path(path: TomlPath) -> str:
    """A path of keys on one line: `[hook] cycle`."""
    words = [shown(each) if isinstance(each, str) else str(each + 1) for each in path]
    return f"[{words[0]}] {'.'.join(words[1:])}".strip() if len(words) > 1 else words[0]


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


#: Key that names the batch system whose own shares apply.
FROM = "from"
DEFAULT_SOURCE, *_OTHERS = BATCH_SYSTEMS
_EITHER = (
    f'give either from = "{DEFAULT_SOURCE}" (or '
    + ", ".join(f'"{name}"' for name in _OTHERS)
    + ") or one share an account"
)

#: Key of a rule -> field of `JobClassRule`.
FIELDS = {"class": "job_class"} | {
    name: name for name in JobClassRule.__dataclass_fields__ if name != "job_class"
}
#: Keys of a class.
CLASS_KEYS = tuple(each.name for each in fields(UtilityClass))


_DEFAULT_RULES = dict(enumerate(DEFAULT_JOB_CLASS_RULES, start=1))
_DEFAULT_ORIGINS = {str(number): DEFAULT for number in _DEFAULT_RULES}


@dataclass(slots=True)
class GivenTables:
    """Collects shares, rules and classes of one file after another, with their faults."""

    faults: list[str]  #: one sentence each
    #: account -> share with sum 1; None takes the batch system's own
    shares: dict[str, float] | None = None
    source: str = DEFAULT_SOURCE
    #: valid rules by their number from 1
    rules: dict[int, JobClassRule] = field(default_factory=lambda: {**_DEFAULT_RULES})
    has_rules: bool = False  #: whether a file gives any; else the defaults apply
    #: by name, with the built-in ones
    classes: dict[str, UtilityClass] = field(default_factory=lambda: {**BUILT_IN})
    #: `file:line` of each key of [shares], of each rule by its number from 1, and of each class by
    #: its name
    origins: dict[str, dict[str, str]] = field(
        default_factory=lambda: {SHARES: {FROM: DEFAULT}, JOB_CLASS: _DEFAULT_ORIGINS}
    )

    def take(self, file: ConfigurationFile) -> None:
        """Take the tables of a file, which replace earlier ones."""
        if SHARES in file.content:
            self._take_shares(file, file.content[SHARES])
        if JOB_CLASS in file.content:
            self._take_rules(file, file.content[JOB_CLASS])
        self._take_classes(file, file.content.get(UTILITY, {}))

    def _take_shares(self, file: ConfigurationFile, given: Any) -> None:
        where, found = file.where(SHARES), len(self.faults)
        if not isinstance(given, Mapping):
            self.faults.append(
                f"{where}: shares must be a section: write one line for each account."
            )
            return
        origins = {key: file.where(SHARES, key) for key in given}
        if FROM in given:
            source = given[FROM]
            if source not in tuple(BATCH_SYSTEMS):  # of any type
                self.faults.append(f"{origins[FROM]}: [shares] from = {source!r}: {_EITHER}.")
            elif len(given) > 1:
                self.faults.append(f"{origins[FROM]}: [shares] {_EITHER}.")
            else:
                self.shares, self.source, self.origins[SHARES] = None, source, origins
            return
        self.faults.extend(
            f"{origins[account]}: [shares] {shown(account)} must be a number from 0 to 1, not "
            f"{share!r}."
            for account, share in given.items()
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1
        )
        if len(self.faults) > found:
            return
        if abs(sum(given.values()) - 1.0) > 1e-6:
            each = ", ".join(f"{shown(account)} {share:g}" for account, share in given.items())
            total = f"sum to {sum(given.values()):g} ({each})" if given else "names no account"
            self.faults.append(f"{where}: [shares] {total}: make them sum to 1.")
        self.shares = {account: float(share) for account, share in given.items()}
        self.source, self.origins[SHARES] = DEFAULT_SOURCE, origins

    def _take_rules(self, file: ConfigurationFile, given: Any) -> None:
        where = file.where(JOB_CLASS)
        if not isinstance(given, list) or not all(isinstance(each, Mapping) for each in given):
            self.faults.append(
                f"{where}: job_class must be a list: write each rule under [[job_class]]."
            )
            return
        self.has_rules, self.rules = bool(given), {} if given else {**_DEFAULT_RULES}
        self.origins[JOB_CLASS] = {} if given else _DEFAULT_ORIGINS
        for place, each in enumerate(given):
            name, found = f"[[job_class]] rule {place + 1}", len(self.faults)
            self.origins[JOB_CLASS][str(place + 1)] = file.where(JOB_CLASS, place)
            self.faults.extend(
                f"{file.where(JOB_CLASS, place, key)}: {name}: {shown(key)} is unknown"
                f"{nearest(key, sorted(FIELDS))}"
                for key in each
                if key not in FIELDS
            )
            if len(self.faults) > found:
                continue
            try:
                named = {FIELDS[key]: value for key, value in each.items()}
                self.rules[place + 1] = JobClassRule(**{"job_class": "", **named})
            except (ConfigurationError, TypeError) as error:
                self.faults.append(f"{file.where(JOB_CLASS, place)}: {name}: {error}")

    def _take_classes(self, file: ConfigurationFile, given: Any) -> None:
        tables = given.values() if isinstance(given, Mapping) else [given]
        if not all(isinstance(each, Mapping) for each in tables):
            self.faults.append(
                f"{file.where(UTILITY)}: [utility] must have only tables: write [utility.NAME]."
            )
            return
        for name, keys in given.items():
            where = file.where(UTILITY, name)
            try:
                self.classes[name] = _class(name, keys)
                self.origins.setdefault(UTILITY, {})[name] = where
            except ConfigurationError as error:
                self.classes.setdefault(name, BUILT_IN[BATCH])  # so that rules for it are valid
                self.faults.append(f"{where}: [utility.{shown(name)}] {error}")

    def classifier(self) -> JobClassifier:
        """The rules with their classes, without rules for unknown classes, which are faults."""
        known = []
        for number, rule in self.rules.items():
            try:
                JobClassifier((rule,), self.classes)
                known.append(rule)
            except ConfigurationError as error:
                where = self.origins[JOB_CLASS][str(number)]
                self.faults.append(f"{where}: [[job_class]] rule {number}: {error}")
        return JobClassifier(tuple(known), self.classes)


def _class(name: str, given: Mapping[str, Any]) -> UtilityClass:
    own = BUILT_IN.get(name)  # the name decides whether these two are interactive
    known = [key for key in CLASS_KEYS if own is None or key != "interactive"]
    for key in given:
        if key not in known:
            raise ConfigurationError(f"{shown(key)} is unknown{nearest(key, known)}")
    return UtilityClass(**given) if own is None else replace(own, **given)


#: Key of a site -> field of `RemoteSite`; the last three are optional.
_SITE_FIELDS = {
    "name": "name",
    "url": "url",
    "token_file": "token_file",
    "ca": "authority",
    "client_certificate": "client_certificate",
    "client_key": "client_key",
}
_NO_FILES = frozenset({"name", "url"})


def read_sites(paths: list[Path]) -> list[RemoteSite]:
    """The sites of all files, in order; a later file's site replaces that of its name."""
    faults: list[str] = []
    found: dict[str, RemoteSite] = {}
    for path in paths:
        file = read_file(path, faults)
        if file is not None:
            found |= {site.name: site for site in _sites(file, path.parent, faults)}
    if faults:
        raise ConfigurationError(faults)
    return list(found.values())


def _sites(file: ConfigurationFile, folder: Path, faults: list[str]) -> Iterator[RemoteSite]:
    faults += [
        f"{file.where(key)}: {shown(key)} is unknown: write [[site]]."
        for key in file.content
        if key != "site"
    ]
    given = file.content.get("site", [])
    if not isinstance(given, list) or not all(isinstance(each, Mapping) for each in given):
        faults.append(f"{file.where('site')}: site must be a list: write each under [[site]].")
        return
    names: set[str] = set()
    for place, each in enumerate(given):
        where = f"{file.where('site', place)}: [[site]] {place + 1}"
        problems = [*_problems(each)]
        name = each.get("name")
        if isinstance(name, str) and name in names:
            problems.append(f"name {name!r} is given twice: give each site its own.")
        if problems:
            faults += [f"{where}: {problem}" for problem in problems]
            continue
        names.add(str(name))
        # a relative path is relative to the file that names it
        found: dict[str, Any] = {
            to: each[key] if key in _NO_FILES else folder / Path(each[key]).expanduser()
            for key, to in _SITE_FIELDS.items()
            if key in each
        }
        try:
            yield RemoteSite(**found)
        except ConfigurationError as error:
            faults.append(f"{where}: {error}")


def _problems(site: Mapping[str, Any]) -> Iterator[str]:
    for key, value in site.items():
        if key not in _SITE_FIELDS:
            yield f"{shown(key)} is unknown{nearest(key, list(_SITE_FIELDS))}"
        elif not isinstance(value, str) or not value or not value.isprintable():
            yield f"{key} must be a text, not {value!r}."
    if "name" not in site:
        yield "name is missing: give the name of the cluster."
    if ("url" in site) != ("token_file" in site):
        yield "url needs token_file: give both, or neither for --broker learning."
    if ("client_certificate" in site) != ("client_key" in site):
        yield "client_certificate needs client_key: give both or neither."
