"""Reads a configuration: flags over the environment over files over defaults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from slurm_rl_plugin.configuration.configuration import Configuration
from slurm_rl_plugin.configuration.keys.definitions import JOB_CLASS, SHARES, UTILITY
from slurm_rl_plugin.configuration.keys.key import Keys
from slurm_rl_plugin.configuration.keys.sections import KEYS
from slurm_rl_plugin.configuration.reading.environment import Flag, take_environment, take_flags
from slurm_rl_plugin.configuration.reading.file_keys import take_file
from slurm_rl_plugin.configuration.reading.files import ConfigurationFile, read_files
from slurm_rl_plugin.configuration.reading.given_keys import GivenKeys
from slurm_rl_plugin.configuration.reading.job_class_rules import (
    GivenRules,
    classifier_of,
    take_classes,
    take_rules,
)
from slurm_rl_plugin.configuration.reading.joint_faults import add_joint_faults
from slurm_rl_plugin.configuration.reading.shares import GivenShares, take_shares
from slurm_rl_plugin.errors import ConfigurationError

_NOTHING: Mapping[str, str] = MappingProxyType({})


def read_configuration(
    path: Path | None,
    *,
    environment: Mapping[str, str] = _NOTHING,
    flags: Sequence[Flag] = (),
    keys: Keys = KEYS,
) -> Configuration:
    """Read the file, those of conf.d beside it, variables and flags.

    Args:
        path: of the file; None for no file.
        environment: variables of the process; names SLURM_RL_<SECTION>_<KEY> are looked at.
        flags: of the command line.
        keys: all that there are.

    Raises:
        ConfigurationError: lists every fault of all sources, one line each.
    """
    faults: list[str] = []
    files = [] if path is None else read_files(path, faults)
    return _configuration(files, environment, flags, GivenKeys(keys=keys, faults=faults))


def configuration_of_parts(
    files: Iterable[ConfigurationFile],
    environment: Mapping[str, str],
    flags: Iterable[Flag],
    *,
    complete: bool,
) -> tuple[Configuration, list[str]]:
    """What is right by itself, with the default of each key that is not, and the faults.

    Args:
        files: as far as they could be read.
        environment: variables of the process.
        flags: of the command line.
        complete: they are all that there are, so that keys are looked at that must fit each other.
    """
    given = GivenKeys(keys=KEYS)
    shares, rules = _take_all(files, environment, flags, given, complete=complete)
    return _of(given, shares, rules), given.faults


def _configuration(
    files: Iterable[ConfigurationFile],
    environment: Mapping[str, str],
    flags: Iterable[Flag],
    given: GivenKeys,
) -> Configuration:
    # else the other of a pair may stand where we could not look
    complete = not given.faults
    shares, rules = _take_all(files, environment, flags, given, complete=complete)
    found = _of(given, shares, rules)
    if given.faults:
        raise ConfigurationError(given.faults)
    return found


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
    return Configuration(
        values=values,
        shares=shares.shares,
        shares_source=shares.source,
        classifier=classifier_of(rules, given.faults),
        has_class_rules=rules.given or bool(rules.class_origins),
        origins=origins,
        warnings=tuple(given.warnings),
        is_whole=not given.faults,
    )
