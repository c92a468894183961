"""Keys given in the environment and on the command line, as texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import NamedTuple

from slurm_rl_plugin.configuration.keys.definitions import JOB_CLASS, SHARES, UTILITY
from slurm_rl_plugin.configuration.keys.names import (
    ENVIRONMENT_PREFIX,
    REMOVED,
    environment_name,
    removal_of,
)
from slurm_rl_plugin.configuration.reading.given_keys import GivenKeys

_IN_FILES_ONLY = "is given in files only: write it there."
#: How alike two names must be, from 0 to 1, for one to be a slip of the other.
_SLIP = 0.8


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
