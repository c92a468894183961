"""Keys that are read at the start of the daemon only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from slurm_rl_plugin.configuration.configuration import Configuration
from slurm_rl_plugin.configuration.keys.sections import KEYS


def changed_start_keys(running: Configuration, fresh: Configuration) -> list[tuple[str, str]]:
    """(section, name) of each key that a reload cannot take over and that has changed."""
    return [
        place
        for place in _start_keys()
        if fresh.values[place[0]][place[1]] != running.values[place[0]][place[1]]
    ]


def with_start_values(running: Configuration, fresh: Configuration) -> Configuration:
    """What a reload takes over: `fresh`, but for keys that are read at the start only."""
    values = {section: dict(found) for section, found in fresh.values.items()}
    for section, name in _start_keys():
        values[section][name] = running.values[section][name]
    return replace(fresh, values=values)


def _start_keys() -> Iterator[tuple[str, str]]:
    for section, definitions in KEYS.items():
        yield from ((section, name) for name, key in definitions.items() if key.at_start)
