"""The files of a configuration: the one that is named, and those of conf.d beside it."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slurm_rl_plugin.configuration.reading.toml_lines import TomlPath, key_given_twice, lines_of
from slurm_rl_plugin.whole_file import read_whole

#: Folder beside the file whose *.toml are read after it, in the order of their names.
FURTHER_FILES = "conf.d"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationFile:
    """The content of one TOML file, with the line that each key stands in.

    Attributes:
        name: that faults begin with.
        content: as parsed, unchecked.
        lines: where its keys stand; a key that is missing here is in a line that we do not know.
    """

    name: str
    content: Mapping[str, Any]
    lines: Mapping[TomlPath, int] = field(default_factory=dict)

    def where(self, *path: str | int) -> str:
        """`file:line` of a key, or the file alone where the line is not known."""
        line = self.lines.get(path)
        return self.name if line is None else f"{self.name}:{line}"


def configuration_paths(path: Path, faults: list[str]) -> list[Path]:
    """The named file and those of conf.d, in the order in which they count."""
    folder = path.parent / FURTHER_FILES
    found: list[Path] = []
    try:
        found = sorted(folder.iterdir(), key=lambda each: each.name)
    except OSError as error:
        if os.path.lexists(folder):  # else there is none
            faults.append(f"configuration {folder} cannot be read: {error.strerror}.")
    further = [each for each in found if each.suffix == ".toml" and each.name[0] != "."]
    return [path, *further]


def read_files(path: Path, faults: list[str]) -> list[ConfigurationFile]:
    """The named file and those of conf.d; what cannot be read is added to the faults."""
    read = [read_file(each, faults) for each in configuration_paths(path, faults)]
    return [each for each in read if each is not None]


def read_file(path: Path, faults: list[str]) -> ConfigurationFile | None:
    """One file alone; None, and a fault more, where it cannot be read."""
    try:
        text = read_whole(path).decode()
    except FileNotFoundError:
        faults.append(f"configuration {path} does not exist: write one or give --config.")
        return None
    except OSError as error:
        faults.append(f"configuration {path} cannot be read: {error.strerror}.")
        return None
    except UnicodeDecodeError as error:
        faults.append(f"configuration {path} cannot be read: byte {error.start} is no UTF-8.")
        return None
    try:
        content = tomllib.loads(text)
    except ValueError as error:  # a TOMLDecodeError, or a number of thousands of digits
        faults.append(_no_toml(path, text, str(error)))
        return None
    except RecursionError:
        faults.append(f"{path} is no TOML that can be read: it is nested too deeply.")
        return None
    return ConfigurationFile(name=str(path), content=content, lines=lines_of(text, content))


def _no_toml(path: Path, text: str, problem: str) -> str:
    found = re.search(r" \(at line (\d+), column (\d+)\)$", problem)
    if found is None:
        return f"{path} is no TOML: {problem}."
    line, column = int(found[1]), found[2]
    twice = key_given_twice(text, line) if re.search("overwrite|twice", problem) else None
    if twice is None:
        return f"{path}:{line}: is no TOML: {problem[: found.start()]}, in column {column}."
    keys, first, again = twice
    return f"{path}:{again}: {shown_path(keys)} is given twice, first in line {first}."


def shown_path(path: TomlPath) -> str:
    """A path of keys in one line: `[hook] cycle`."""
    words = [shown(each) if isinstance(each, str) else str(each + 1) for each in path]
    return f"[{words[0]}] {'.'.join(words[1:])}".strip() if len(words) > 1 else words[0]


def shown(key: str) -> str:
    """A key as TOML has it, always in one line."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key)
