"""Keys given in a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurm_rl_plugin.configuration.keys.definitions import JOB_CLASS, SHARES, UTILITY
from slurm_rl_plugin.configuration.keys.names import nearest, removal_of
from slurm_rl_plugin.configuration.reading.files import ConfigurationFile, shown
from slurm_rl_plugin.configuration.reading.given_keys import GivenKeys


def take_file(given: GivenKeys, file: ConfigurationFile) -> None:
    """Take what one file says over what was given before; shares and classes are not keys."""
    sections = {section for section, _ in given.names}
    under: dict[str, str] = {}
    for section, content in file.content.items():
        if section in (SHARES, JOB_CLASS, UTILITY):
            continue
        where, gone = file.where(section), removal_of(section)
        if gone is not None:
            given.warnings.append(f"{where}: [{section}] {gone}")
        elif section not in sections:
            near = nearest(section, [*given.keys, SHARES, JOB_CLASS, UTILITY])
            given.faults.append(f"{where}: section [{shown(section)}] is unknown{near}")
        elif not isinstance(content, Mapping):
            given.faulty.update((section, name) for name in given.keys.get(section, ()))
            given.faults.append(
                f"{where}: [{section}] is no section: write [{section}] on a line of its own."
            )
        else:
            _take_section(given, file, section, content, under)


def _take_section(
    given: GivenKeys,
    file: ConfigurationFile,
    section: str,
    content: Mapping[str, Any],
    under: dict[str, str],
) -> None:
    """Take one section; `under` holds the name under which this file gave each key so far."""
    names = given.names
    for name, value in content.items():
        where, called = file.where(section, name), f"[{section}] {shown(name)}"
        named, gone = names.get((section, name)), removal_of(section, name)
        if gone is not None:
            given.warnings.append(f"{where}: {called} {gone}")
        elif named is None:
            near = nearest(name, given.keys.get(section, ()))
            given.faults.append(f"{where}: {called} is unknown{near}")
        elif str(named) in under:
            given.faults.append(
                f"{where}: {called} and {under[str(named)]} are the same key: give {named} only."
            )
        else:
            under[str(named)] = called
            given.give(named, value, where)
