"""What files, environment and command line give, key by key: a later source wins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, NamedTuple

from slurm_rl_plugin.configuration.keys.key import (
    ENVIRONMENT_PREFIX,
    JOB_CLASS,
    REMOVED,
    SHARES,
    UTILITY,
    Keys,
    NamedKey,
    environment_name,
    names_of,
    nearest,
    removal_of,
)
from slurm_rl_plugin.configuration.reading.files import ConfigurationFile, shown

#: Origin of a value that no source gives.
DEFAULT = "default"


_IN_FILES_ONLY = "is given in files only: write it there."
#: How alike two names must be, from 0 to 1, for one to be a slip of the other.
_SLIP = 0.8


class Given(NamedTuple):
    """A value and where it comes from: `default`, `file:line`, a variable, or a flag."""

    value: Any
    origin: str


@dataclass(slots=True)
class GivenKeys:
    """Collects the values of one source after another, with their faults.

    Attributes:
        keys: all that there are.
        faults: one sentence each.
        warnings: one sentence for each former or removed name in use.
        faulty: (section, name) of keys with a fault anywhere.
    """

    keys: Keys
    faults: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    faulty: set[tuple[str, str]] = field(default_factory=set)
    _given: dict[tuple[str, str], Given] = field(default_factory=dict)

    @property
    def names(self) -> dict[tuple[str, str], NamedKey]:
        """All names of keys, those of now and former ones."""
        return names_of(self.keys)

    def give(self, named: NamedKey, value: Any, origin: str) -> None:
        """Take a value over all that were given before, or its fault."""
        place = (named.section, named.name)
        if named.former:
            self.warnings.append(f"{origin}: {named.former} is now called {named}: rename it.")
        fault = named.key.fault(value)
        if fault is None:
            self._given[place] = Given(value, origin)
        else:
            self.faulty.add(place)
            self.faults.append(f"{origin}: {named.former or named} {fault}.")

    def value(self, section: str, name: str) -> Given:
        """The value that was given last, or the key's default, with where it comes from."""
        default = Given(self.keys[section][name].default, DEFAULT)
        return self._given.get((section, name), default)

    def all_values(self) -> dict[str, dict[str, Given]]:
        """Section -> key -> what is in force."""
        return {
            section: {name: self.value(section, name) for name in keys}
            for section, keys in self.keys.items()
        }


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


class Flag(NamedTuple):
    """A key given on the command line: `section.key=value`, and the words that gave it."""

    setting: str
    words: str


def take_environment(given: GivenKeys, environment: Mapping[str, str]) -> None:
    """Take every variable that names a key; one that nearly does, or begins so, is a fault.

    Other variables that begin with SLURM_RL_ mean something else.
    """
    names = {environment_name(*place): named for place, named in given.names.items()}

    def by_age(variable: str) -> tuple[bool, str]:
        """A name of now goes over a former one."""
        return variable in names and not names[variable].former, variable

    for variable in sorted(environment, key=by_age):
        if variable in names:
            named = names[variable]
            given.give(named, named.key.parsed(environment[variable]), variable)
        elif variable.startswith(ENVIRONMENT_PREFIX):
            gone = _removal(variable)
            problem = None if gone is not None else _problem(variable, names, given)
            if gone is not None:
                given.warnings.append(f"{variable}: {gone}")
            elif problem is not None:
                given.faults.append(f"{variable}: {problem}")


def _removal(variable: str) -> str | None:
    """Why the key, or the section, that a variable names no longer exists."""
    for place, gone in REMOVED.items():
        section, dot, name = place.partition(".")
        named = environment_name(section, name)
        if variable == named or (not dot and variable.startswith(named)):
            return f"[{section}] {name}".strip() + f" {gone}"
    return None


def _problem(variable: str, names: Iterable[str], given: GivenKeys) -> str | None:
    """What is wrong with a variable that names no key; None where it was not meant to."""
    for section in (SHARES, JOB_CLASS, UTILITY):
        if f"{variable}_".startswith(environment_name(section, "")):
            return f"[{section}] {_IN_FILES_ONLY}"
    # compared without the prefix, which would make any two names alike
    short = [name.removeprefix(ENVIRONMENT_PREFIX) for name in names]
    wanted = variable.removeprefix(ENVIRONMENT_PREFIX)
    near = get_close_matches(wanted, short, n=1, cutoff=_SLIP)
    if near:
        return f"is no key, did you mean {ENVIRONMENT_PREFIX}{near[0]}?"
    if any(f"{variable}_".startswith(environment_name(section, "")) for section in given.keys):
        return "is no key: see `slurm-rl show-config --defaults` for all keys."
    return None


def take_flags(given: GivenKeys, flags: Iterable[Flag]) -> None:
    """Take what the command line gives; a later flag wins."""
    names = {".".join(place): named for place, named in given.names.items()}
    for flag in flags:
        name, sign, value = flag.setting.partition("=")
        named = names.get(name.strip())
        section, _, key = name.strip().partition(".")
        gone = removal_of(section, key)
        if named is not None and sign:
            given.give(named, named.key.parsed(value), flag.words)
        elif gone is not None and sign and key:
            given.warnings.append(f"{flag.words}: [{section}] {key} {gone}")
        else:
            given.faults.append(f"{flag.words}: {_problem_of_flag(name.strip(), sign, names)}")


def _problem_of_flag(name: str, sign: str, names: Iterable[str]) -> str:
    section, dot, _ = name.partition(".")
    near = get_close_matches(name, list(names), n=1)
    if not sign or not dot:
        return "write section.key=value, such as hook.cycle=10."
    if section in (SHARES, JOB_CLASS):
        return f"[{section}] {_IN_FILES_ONLY}"
    if near:
        return f"is no key, did you mean {near[0]}?"
    return "is no key: see `slurm-rl show-config --defaults` for all keys."
