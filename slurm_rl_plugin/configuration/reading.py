"""Reads a configuration: flags over the environment over files over defaults, key by key.

The daemon writes the sections that a rollback needs into its state file. Commands that roll back
read them there if the configuration is broken, so that a typo leaves no factor behind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from slurm_rl_plugin.batch_systems.registry import LIMITS, LIMITS_OF_RESOURCES
from slurm_rl_plugin.brokers.live.remote_site import is_loopback
from slurm_rl_plugin.brokers.market.formula import machine_function, user_function
from slurm_rl_plugin.configuration.configuration import Configuration, with_derived_reward
from slurm_rl_plugin.configuration.files import (
    ConfigurationFile,
    GivenTables,
    read_files,
    readable_lines,
    shown,
)
from slurm_rl_plugin.configuration.key import (
    DEFAULT,
    ENVIRONMENT_PREFIX,
    JOB_CLASS,
    REMOVED,
    SHARES,
    UTILITY,
    environment_name,
    nearest,
    removal_of,
)
from slurm_rl_plugin.configuration.sections import KEYS, OFF, reserved_amounts
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.hook.memory.carried_factors import StateFile
from slurm_rl_plugin.utility.reward import RewardWeights

_NOTHING: Mapping[str, str] = MappingProxyType({})
#: Section and name of every key.
_PLACES = tuple((section, name) for section, names in KEYS.items() for name in names)
_IN_FILES_ONLY = "can be given only in a file: write it there."
_NO_KEY = "is not a key: `slurm-rl show-config --defaults` lists all keys."
#: How similar two names must be, from 0 to 1, for one to be a misspelling of the other.
_SLIP = 0.8
#: Sections that serve pages.
_SERVING = ("metrics", "offer", "forecast")
#: Given key of such a section -> the key that it needs.
_NEEDS = (
    ("tls_certificate", "tls_key"),
    ("tls_key", "tls_certificate"),
    ("tls_client_ca", "tls_certificate"),
)
#: Mechanism of [reserve] -> keys that it needs.
_RESERVE_NEEDS = {name: ("most_processors", *keys) for name, keys in LIMITS.items()}
#: A header that a proxy sets; the server drops headers with underscores.
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]*", re.ASCII)
#: Names that become words of commands, where commas and blanks separate several names.
_ONE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
#: Sections that the daemon writes into its state file.
_LEFT = ("hook", "batch_system", "reserve", "metrics")
#: Paths that the daemon's account must not choose, because root may run `disable`.
_NOT_LEFT = ("state_file", "disable_file", "audit_file")
_WANTED = (*_LEFT, "policy")


class Flag(NamedTuple):
    """A key given on the command line: `section.key=value`, and the words that gave it."""

    setting: str
    words: str


class Given(NamedTuple):
    """A value and its origin: `default`, `file:line`, a variable, or a flag."""

    value: Any
    origin: str


@dataclass(slots=True)
class GivenKeys:
    """Collects the values of one source after another, with their faults."""

    faults: list[str] = field(default_factory=list)  #: one sentence each
    warnings: list[str] = field(default_factory=list)  #: one sentence for each removed name in use
    #: (section, name) of keys with a fault in any source
    faulty: set[tuple[str, str]] = field(default_factory=set)
    _given: dict[tuple[str, str], Given] = field(default_factory=dict)

    def give(self, section: str, name: str, value: Any, origin: str) -> None:
        """Take a value, which replaces earlier ones, or its fault."""
        fault = KEYS[section][name].fault(value)
        if fault is None:
            self._given[section, name] = Given(value, origin)
        else:
            self.faulty.add((section, name))
            self.faults.append(f"{origin}: [{section}] {name} {fault}.")

    def value(self, section: str, name: str) -> Given:
        """The value given last, or the key's default, with its origin."""
        return self._given.get((section, name)) or Given(KEYS[section][name].default, DEFAULT)

    def take_file(self, file: ConfigurationFile) -> None:
        """Take the keys of one file; `GivenTables` takes shares and classes."""
        for section, content in file.content.items():
            where, gone = file.where(section), removal_of(section)
            if section in (SHARES, JOB_CLASS, UTILITY):
                continue
            if gone is not None:
                self.warnings.append(f"{where}: [{section}] {gone}")
            elif section not in KEYS:
                near = nearest(section, [*KEYS, SHARES, JOB_CLASS, UTILITY])
                self.faults.append(f"{where}: section [{shown(section)}] is unknown{near}")
            elif not isinstance(content, Mapping):
                self.faulty.update((section, name) for name in KEYS[section])
                self.faults.append(
                    f"{where}: {section} must be a section: write [{section}] on its own line."
                )
            else:
                self._take_section(file, section, content)

    def _take_section(
        self, file: ConfigurationFile, section: str, content: Mapping[str, Any]
    ) -> None:
        for name, value in content.items():
            where, called = file.where(section, name), f"[{section}] {shown(name)}"
            if (gone := removal_of(section, name)) is not None:
                self.warnings.append(f"{where}: {called} {gone}")
            elif name not in KEYS[section]:
                near = nearest(name, KEYS[section])
                self.faults.append(f"{where}: {called} is unknown{near}")
            else:
                self.give(section, name, value, where)

    def take_environment(self, environment: Mapping[str, str]) -> None:
        """Take every variable that names a key; a misspelled name is a fault.

        Other variables that begin with SLURM_RL_ are not keys.
        """
        places = {environment_name(*each): each for each in _PLACES}
        variables = [each for each in environment if each.startswith(ENVIRONMENT_PREFIX)]
        for variable in sorted(variables, key=lambda each: (each in places, each)):
            if variable in places:
                section, name = places[variable]
                value = KEYS[section][name].parsed(environment[variable])
                self.give(section, name, value, variable)
            elif gone := _removal(variable):
                self.warnings.append(f"{variable}: {gone}")
            elif problem := _problem(variable, places):
                self.faults.append(f"{variable}: {problem}")

    def take_flags(self, flags: Iterable[Flag]) -> None:
        """Take the keys of the command line; a later flag wins."""
        for flag in flags:
            place, sign, value = flag.setting.partition("=")
            section, dot, name = place.strip().partition(".")
            if sign and (section, name) in _PLACES:
                self.give(section, name, KEYS[section][name].parsed(value), flag.words)
                continue
            gone = removal_of(section, name)
            if gone is not None and sign and name:
                self.warnings.append(f"{flag.words}: [{section}] {name} {gone}")
            elif not sign or not dot:
                self.faults.append(f"{flag.words}: give section.key=value, such as hook.cycle=10.")
            elif section in (SHARES, JOB_CLASS):
                self.faults.append(f"{flag.words}: [{section}] {_IN_FILES_ONLY}")
            else:
                near = get_close_matches(place.strip(), map(".".join, _PLACES), n=1)
                problem = f"is not a key, did you mean {near[0]}?" if near else _NO_KEY
                self.faults.append(f"{flag.words}: {problem}")


def _removal(variable: str) -> str | None:
    """The warning about the removed key or section that a variable names."""
    for place, gone in REMOVED.items():
        section, dot, name = place.partition(".")
        named = environment_name(section, name)
        if variable == named or (not dot and variable.startswith(named)):
            return f"[{section}] {name}".strip() + f" {gone}"
    return None


def _problem(variable: str, names: Iterable[str]) -> str | None:
    """What is wrong with a variable that names no key; None if it was not meant to."""
    for section in (SHARES, JOB_CLASS, UTILITY):
        if f"{variable}_".startswith(environment_name(section, "")):
            return f"[{section}] {_IN_FILES_ONLY}"
    # compared without the prefix, which would make any two names similar
    short = [name.removeprefix(ENVIRONMENT_PREFIX) for name in names]
    wanted = variable.removeprefix(ENVIRONMENT_PREFIX)
    if near := get_close_matches(wanted, short, n=1, cutoff=_SLIP):
        return f"is not a key, did you mean {ENVIRONMENT_PREFIX}{near[0]}?"
    meant = any(f"{variable}_".startswith(environment_name(section, "")) for section in KEYS)
    return _NO_KEY if meant else None


def read_configuration(
    path: Path | None, *, environment: Mapping[str, str] = _NOTHING, flags: Sequence[Flag] = ()
) -> Configuration:
    """Read the file, those of conf.d next to it, variables and flags."""
    faults: list[str] = []
    files = [] if path is None else read_files(path, faults)
    # an unreadable file may hold the other key of a pair
    found, more = configuration_of_parts(files, environment, flags, complete=not faults)
    if faults or more:
        raise ConfigurationError([*faults, *more])
    return found


def configuration_of_parts(
    files: Iterable[ConfigurationFile],
    environment: Mapping[str, str],
    flags: Iterable[Flag],
    *,
    complete: bool,
) -> tuple[Configuration, list[str]]:
    """The valid keys, the default of each faulty key, and the faults.

    Keys that depend on each other are checked only if `complete`: if no file is missing.
    """
    given = GivenKeys()
    tables = GivenTables(given.faults)
    for file in files:
        given.take_file(file)
        tables.take(file)
    given.take_environment(environment)
    given.take_flags(flags)
    if complete:
        for faults in (_reserve_faults, _reward_faults, _tls_faults, _offer_faults):
            given.faults.extend(faults(given))
    values, origins = (
        {
            section: {name: given.value(section, name)[part] for name in names}
            for section, names in KEYS.items()
        }
        for part in (0, 1)
    )
    classifier = tables.classifier()
    configuration = Configuration(
        values=values,
        shares=tables.shares,
        shares_source=tables.source,
        classifier=classifier,
        has_class_rules=tables.has_rules or UTILITY in tables.origins,
        origins=origins | tables.origins,
        warnings=tuple(given.warnings),
        is_whole=not given.faults,
    )
    return with_derived_reward(configuration), given.faults


def _reserve_faults(given: GivenKeys) -> Iterator[str]:
    mechanism = given.value("reserve", "mechanism")
    for name in _RESERVE_NEEDS.get(mechanism.value, ()):
        known = ("reserve", name) not in given.faulty
        if known and not given.value("reserve", name).value:
            yield (
                f'{mechanism.origin}: [reserve] mechanism = "{mechanism.value}" needs {name}: give '
                "both keys."
            )
    lift, idle = given.value("reserve", "lift_hours"), given.value("reserve", "idle_minutes")
    if mechanism.value in _RESERVE_NEEDS and not lift.value and not idle.value:
        yield (
            f"{lift.origin}: [reserve] lift_hours and idle_minutes are both 0: a wide batch job "
            "might never start. Give one of them."
        )
    narrow = given.value("reserve", "narrow_first")
    if mechanism.value in _RESERVE_NEEDS and narrow.value and not lift.value:
        yield (
            f"{narrow.origin}: [reserve] narrow_first needs lift_hours: a wide batch job behind "
            "narrower ones might never start. Give lift_hours."
        )
    for name in ("most_resources", "widest_batch_resources"):
        value = given.value("reserve", name)
        try:
            amounts = reserved_amounts(value.value)
        except ValueError as error:
            yield (
                f"{value.origin}: [reserve] {name} must name each resource once, as gres/gpu=2 or "
                f"mem=64G, not {str(error)!r}."
            )
            continue
        if amounts and mechanism.value not in (OFF, *LIMITS_OF_RESOURCES):
            yield (
                f'{value.origin}: [reserve] mechanism = "{mechanism.value}" limits only '
                f'processors: remove {name}, or set mechanism = "qos".'
            )
    for name in ("qos", "license", "reservation"):
        value = given.value("reserve", name)
        if value.value and not _ONE_NAME.fullmatch(value.value):
            yield (
                f"{value.origin}: [reserve] {name} must be one name of letters, digits, dots, "
                f"dashes and underscores, not {value.value!r}."
            )


def _reward_faults(given: GivenKeys) -> Iterator[str]:
    weights = {name: given.value("reward", name) for name in KEYS["reward"]}
    if any(("reward", name) in given.faulty for name in weights):
        return
    try:
        RewardWeights(**{name: float(each.value) for name, each in weights.items()})
    except ConfigurationError as error:
        origins = [each.origin for each in weights.values() if each.origin != DEFAULT]
        yield f"{origins[0]}: [reward]: {error}"


def _tls_faults(given: GivenKeys) -> Iterator[str]:
    for section in _SERVING:
        for name, needed in _NEEDS:
            value = given.value(section, name)
            known = (section, needed) not in given.faulty
            if value.value and known and not given.value(section, needed).value:
                yield f"{value.origin}: [{section}] {name} needs {needed}: give both or neither."


def _offer_faults(given: GivenKeys) -> Iterator[str]:
    """Faults of tokens that would be sent in clear text, of a portal's header, and of formulas."""
    for section in ("offer", "forecast"):
        address, tls = given.value(section, "address"), given.value(section, "tls_certificate")
        secret = (section, "tls_certificate") in given.faulty or tls.value
        if address.value and not secret and not is_loopback(address.value):
            yield (
                f"{address.origin}: [{section}] address {address.value!r} would send the token in "
                "clear text: give tls_certificate and tls_key, or address 127.0.0.1."
            )
    header = given.value("forecast", "user_header")
    if header.value and not _HEADER.fullmatch(header.value):
        yield (
            f"{header.origin}: [forecast] user_header must be letters, digits and hyphens, not "
            f"{header.value!r}."
        )
    elif header.value and not given.value("forecast", "token_file").value:
        yield (
            f"{header.origin}: [forecast] user_header needs token_file: the service believes the "
            "header only with the token."
        )
    formulas = (("offer", "price", machine_function), ("route", "formula", user_function))
    for section, name, read in formulas:
        formula = given.value(section, name)
        try:
            if (section, name) not in given.faulty:
                read(formula.value)
        except ConfigurationError as error:
            yield f"{formula.origin}: [{section}] {name}: {error}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownConfiguration:
    """The configuration as far as it is known, so that factors can be rolled back with it."""

    configuration: Configuration  #: with the default of each unknown key
    faults: tuple[str, ...] = ()  #: one sentence each; empty if the configuration is valid
    is_read: bool = True  #: whether its files could be read; else the state file gave the rest

    @property
    def state_file(self) -> Path:
        """The file that lists the jobs that carry our factor."""
        return Path(self.configuration.sections.hook.state_file)

    @property
    def beside_controllers(self) -> bool | None:
        """Whether a daemon runs next to each controller; None if a fault may hide that."""
        is_given = self.configuration.origins["hook"]["beside_controllers"] != DEFAULT
        if self.faults and not is_given:
            return None
        return bool(self.configuration.sections.hook.beside_controllers)


def rollback_values(configuration: Configuration) -> dict[str, dict[str, Any]]:
    """Section -> key -> value that a daemon leaves for commands that roll back after it."""
    found = {section: dict(configuration.values[section]) for section in _LEFT}
    for name in _NOT_LEFT:
        del found["hook"][name]
    return found


def known_configuration(
    path: Path,
    *,
    environment: Mapping[str, str],
    flags: Sequence[Flag],
) -> KnownConfiguration:
    """Read a configuration, however broken it is.

    Valid keys apply; the daemon's state file gives the others. If no file can be read, its readable
    lines name the state file, unless the environment or a flag does.

    Raises:
        ConfigurationError: a flag gives no key. The user mistyped it; no file is broken.
    """
    _, slips = configuration_of_parts((), {}, flags, complete=False)
    if slips:
        raise ConfigurationError(slips)
    faults: list[str] = []
    files = read_files(path, faults)
    is_read = not faults
    if not is_read:
        files = [ConfigurationFile(name=str(path), content=readable_lines(path, _WANTED))]
    configuration, wrong = configuration_of_parts(files, environment, flags, complete=is_read)
    faults += wrong
    if not faults:
        return KnownConfiguration(configuration=configuration)
    state = str(configuration.sections.hook.state_file)
    # only what a daemon leaves: another user may have written the rest
    found = StateFile(Path(state)).left_behind()
    own = {section: found[section] for section in _LEFT if isinstance(found.get(section), dict)}
    if "hook" in own:
        own["hook"] = {name: each for name, each in own["hook"].items() if name not in _NOT_LEFT}
    left = ConfigurationFile(name=state, content=own)
    # a file overrides what the daemon left, but single readable lines do not
    files = [left, *files] if is_read else [*files, left]
    configuration, _ = configuration_of_parts(files, environment, flags, complete=is_read)
    if not left.content:  # the values of the faulty lines are unknown
        configuration = replace(configuration, is_whole=False)
    return KnownConfiguration(configuration=configuration, faults=tuple(faults), is_read=is_read)
