"""What still stands in files that are no TOML any more, line by line; a typo spoils one line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from slurm_rl_plugin.configuration.keys.sections import KEYS
from slurm_rl_plugin.configuration.reading.files import configuration_paths
from slurm_rl_plugin.whole_file import read_whole

_LINE = re.compile(r"\s*([A-Za-z_]+)\s*=\s*(.*)")
#: A text whose quotes are the typo.
_TEXT = re.compile(r"[\"']?([^\"'#]+)")


def standing_lines(path: Path, wanted: Collection[str]) -> dict[str, dict[str, Any]]:
    """Section -> key -> value, of the lines that can be read by themselves.

    Headings are not looked at, since one of them may be the typo: a key counts where one section
    alone has it.

    Args:
        path: of the file; those of conf.d beside it are read after it.
        wanted: sections that are looked for.
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
