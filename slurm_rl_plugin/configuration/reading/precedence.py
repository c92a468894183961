"""Reads a configuration: flags over the environment over files over defaults."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from slurm_rl_plugin.batch_systems.registry import LIMITS, LIMITS_OF_RESOURCES
from slurm_rl_plugin.brokers.live.remote_site import is_loopback
from slurm_rl_plugin.brokers.market.formula import Formula, machine_function, user_function
from slurm_rl_plugin.configuration.configuration import Configuration, with_derived_reward
from slurm_rl_plugin.configuration.keys.hook import OFF, reserved_amounts
from slurm_rl_plugin.configuration.keys.key import JOB_CLASS, SHARES, UTILITY, Keys
from slurm_rl_plugin.configuration.keys.sections import KEYS
from slurm_rl_plugin.configuration.reading.files import ConfigurationFile, read_files
from slurm_rl_plugin.configuration.reading.given_keys import (
    DEFAULT,
    Flag,
    Given,
    GivenKeys,
    take_environment,
    take_file,
    take_flags,
)
from slurm_rl_plugin.configuration.reading.shares_and_classes import (
    GivenRules,
    GivenShares,
    classifier_of,
    take_classes,
    take_rules,
    take_shares,
)
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.utility.reward import RewardWeights

_NOTHING: Mapping[str, str] = MappingProxyType({})
#: Sections that serve.
_SERVING = ("metrics", "offer", "forecast")
#: Key of such a section that is given -> the one that it needs.
_NEEDS = (
    ("tls_certificate", "tls_key"),
    ("tls_key", "tls_certificate"),
    ("tls_client_ca", "tls_certificate"),
)
#: Mechanism of [reserve] -> keys that it needs.
_RESERVE_NEEDS = {name: ("most_processors", *keys) for name, keys in LIMITS.items()}
#: They become words of commands that take commas and blanks for several names.
_ONE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def read_configuration(
    path: Path | None,
    *,
    environment: Mapping[str, str] = _NOTHING,
    flags: Sequence[Flag] = (),
    keys: Keys = KEYS,
) -> Configuration:
    """Read the file, those of conf.d beside it, variables and flags."""
    faults: list[str] = []
    files = [] if path is None else read_files(path, faults)
    given = GivenKeys(keys=keys, faults=faults)
    # else the other of a pair may stand where we could not look
    complete = not faults
    shares, rules = _take_all(files, environment, flags, given, complete=complete)
    found = _of(given, shares, rules)
    if given.faults:
        raise ConfigurationError(given.faults)
    return found


def configuration_of_parts(
    files: Iterable[ConfigurationFile],
    environment: Mapping[str, str],
    flags: Iterable[Flag],
    *,
    complete: bool,
) -> tuple[Configuration, list[str]]:
    """What is right by itself, with the default of each key that is not, and the faults.

    Keys that must fit each other are looked at only where `complete`: where no file is missing.
    """
    given = GivenKeys(keys=KEYS)
    shares, rules = _take_all(files, environment, flags, given, complete=complete)
    return _of(given, shares, rules), given.faults


def _take_all(
    files: Iterable[ConfigurationFile],
    environment: Mapping[str, str],
    flags: Iterable[Flag],
    given: GivenKeys,
    *,
    complete: bool,
) -> tuple[GivenShares, GivenRules]:
    shares, rules = GivenShares(), GivenRules()
    for file in files:
        take_file(given, file)
        shares = take_shares(shares, file, given.faults)
        rules = take_rules(rules, file, given.faults)
        rules = take_classes(rules, file, given.faults)
    take_environment(given, environment)
    take_flags(given, flags)
    if complete:
        add_joint_faults(given)
    return shares, rules


def _of(given: GivenKeys, shares: GivenShares, rules: GivenRules) -> Configuration:
    found = given.all_values()
    values = {
        section: {name: each.value for name, each in keys.items()}
        for section, keys in found.items()
    }
    origins = {
        section: {name: each.origin for name, each in keys.items()}
        for section, keys in found.items()
    }
    origins[SHARES] = dict(shares.origins)
    origins[JOB_CLASS] = {str(n): each for n, each in enumerate(rules.origins, start=1)}
    if rules.class_origins:
        origins[UTILITY] = dict(rules.class_origins)
    configuration = Configuration(
        values=values,
        shares=shares.shares,
        shares_source=shares.source,
        classifier=classifier_of(rules, given.faults),
        has_class_rules=rules.given or bool(rules.class_origins),
        origins=origins,
        warnings=tuple(given.warnings),
        is_whole=not given.faults,
    )
    return with_derived_reward(configuration) if "reward" in values else configuration


def add_joint_faults(given: GivenKeys) -> None:
    """Add the faults of keys that do not go together."""
    given.faults.extend(_reserve_faults(given))
    given.faults.extend(_reward_faults(given))
    given.faults.extend(_tls_faults(given))
    given.faults.extend(_offer_faults(given))


def _reserve_faults(given: GivenKeys) -> Iterator[str]:
    if "reserve" not in given.keys:
        return
    mechanism = given.value("reserve", "mechanism")
    for name in _RESERVE_NEEDS.get(mechanism.value, ()):
        known = ("reserve", name) not in given.faulty
        if known and not given.value("reserve", name).value:
            yield (
                f'{mechanism.origin}: [reserve] mechanism = "{mechanism.value}" needs {name}: give '
                "both."
            )
    lift, idle = given.value("reserve", "lift_hours"), given.value("reserve", "idle_minutes")
    if mechanism.value in _RESERVE_NEEDS and not lift.value and not idle.value:
        yield (
            f"{lift.origin}: [reserve] lift_hours and idle_minutes are both 0, so a wide batch job "
            "might never start: give one of them."
        )
    narrow = given.value("reserve", "narrow_first")
    if mechanism.value in _RESERVE_NEEDS and narrow.value and not lift.value:
        yield (
            f"{narrow.origin}: [reserve] narrow_first puts wide batch jobs behind the others until "
            "lift_hours, which is 0, so one might never start: give lift_hours."
        )
    yield from _resource_faults(given, mechanism)
    for name in ("qos", "license", "reservation"):
        value = given.value("reserve", name)
        if value.value and not _ONE_NAME.fullmatch(value.value):
            yield (
                f"{value.origin}: [reserve] {name} is {value.value!r}, give one name of letters, "
                "digits, dots, dashes and underscores."
            )


def _resource_faults(given: GivenKeys, mechanism: Given) -> Iterator[str]:
    for name in ("most_resources", "widest_batch_resources"):
        value = given.value("reserve", name)
        try:
            amounts = reserved_amounts(value.value)
        except ValueError as error:
            yield (
                f"{value.origin}: [reserve] {name} has {str(error)!r}, give each resource once, as "
                "gres/gpu=2 or mem=64G."
            )
        else:
            if amounts and mechanism.value not in (OFF, *LIMITS_OF_RESOURCES):
                yield (
                    f'{value.origin}: [reserve] mechanism = "{mechanism.value}" limits processors '
                    f'alone: take {name} out, or set mechanism = "qos".'
                )


def _reward_faults(given: GivenKeys) -> Iterator[str]:
    weights = {name: given.value("reward", name) for name in given.keys.get("reward", ())}
    if any(("reward", name) in given.faulty for name in weights):
        return
    try:
        RewardWeights(**{name: float(each.value) for name, each in weights.items()})
    except ConfigurationError as error:
        origins = [each.origin for each in weights.values() if each.origin != DEFAULT]
        yield f"{origins[0]}: [reward]: {error}"


def _tls_faults(given: GivenKeys) -> Iterator[str]:
    for section in _SERVING:
        if section not in given.keys:
            continue
        for name, needed in _NEEDS:
            value = given.value(section, name)
            known = (section, needed) not in given.faulty
            if value.value and known and not given.value(section, needed).value:
                yield f"{value.origin}: [{section}] {name} needs {needed}: give both, or neither."


def _bare_token_faults(given: GivenKeys, section: str) -> Iterator[str]:
    if section not in given.keys:
        return
    address, tls = given.value(section, "address"), given.value(section, "tls_certificate")
    secret = (section, "tls_certificate") in given.faulty or tls.value
    if address.value and not secret and not is_loopback(address.value):
        yield (
            f"{address.origin}: [{section}] address {address.value!r} would show the token to the "
            "network: give tls_certificate and tls_key, or address 127.0.0.1."
        )


def _offer_faults(given: GivenKeys) -> Iterator[str]:
    yield from _bare_token_faults(given, "offer")
    yield from _bare_token_faults(given, "forecast")
    if "offer" not in given.keys:
        return
    yield from _formula_faults(given, "offer", "price", machine_function)
    yield from _formula_faults(given, "route", "formula", user_function)


def _formula_faults(
    given: GivenKeys, section: str, name: str, read: Callable[[str], Formula]
) -> Iterator[str]:
    if name not in given.keys.get(section, ()) or (section, name) in given.faulty:
        return
    formula = given.value(section, name)
    try:
        read(formula.value)
    except ConfigurationError as error:
        yield f"{formula.origin}: [{section}] {name}: {error}"
