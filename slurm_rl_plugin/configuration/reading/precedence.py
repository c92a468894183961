"""Reads a configuration: flags over the environment over files over defaults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from slurm_rl_plugin.configuration.configuration import Configuration
from slurm_rl_plugin.configuration.keys.definitions import JOB_CLASS, SHARES, UTILITY
from slurm_rl_plugin.configuration.keys.key import Keys
from slurm_rl_plugin.configuration.keys.sections import KEYS
from slurm_rl_plugin.configuration.reading.environment import Flag, take_environment, take_flags
from slurm_rl_plugin.configuration.reading.file_keys import take_file
from slurm_rl_plugin.configuration.reading.files import ConfigurationFile, read_files
from slurm_rl_plugin.configuration.reading.given_keys import GivenKeys
from slurm_rl_plugin.configuration.reading.job_class_rules import GivenRules, take_rules
from slurm_rl_plugin.configuration.reading.joint_faults import add_joint_faults
from slurm_rl_plugin.configuration.reading.shares import GivenShares, take_shares
from slurm_rl_plugin.configuration.reading.utility_tables import (
    GivenUtilities,
    classifier_of,
    take_utilities,
)
from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.errors import ConfigurationError

_NOTHING: Mapping[str, str] = MappingProxyType({})


class _Tables(NamedTuple):
    """What files alone give."""

    shares: GivenShares
    rules: GivenRules
    utilities: GivenUtilities
    classifier: JobClassifier


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
    found = _take_all(files, environment, flags, given, complete=complete)
    return _of(given, found), given.faults


def _configuration(
    files: Iterable[ConfigurationFile],
    environment: Mapping[str, str],
    flags: Iterable[Flag],
    given: GivenKeys,
) -> Configuration:
    # else the other of a pair may stand where we could not look
    complete = not given.faults
    found = _take_all(files, environment, flags, given, complete=complete)
    if given.faults:
        raise ConfigurationError(given.faults)
    return _of(given, found)


def _take_all(
    files: Iterable[ConfigurationFile],
    environment: Mapping[str, str],
    flags: Iterable[Flag],
    given: GivenKeys,
    *,
    complete: bool,
) -> _Tables:
    shares, rules, utilities = GivenShares(), GivenRules(), GivenUtilities()
    for file in files:
        take_file(given, file)
        shares = take_shares(shares, file, given.faults)
        rules = take_rules(rules, file, given.faults)
        utilities = take_utilities(utilities, file, given.faults)
    take_environment(given, environment)
    take_flags(given, flags)
    if complete:
        add_joint_faults(given)
    return _Tables(shares, rules, utilities, classifier_of(rules, utilities, given.faults))


def _of(given: GivenKeys, tables: _Tables) -> Configuration:
    shares, rules, utilities, classifier = tables
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
    if utilities.origins:
        origins[UTILITY] = dict(utilities.origins)
    return Configuration(
        values=values,
        shares=shares.shares,
        shares_source=shares.source,
        classifier=classifier,
        has_class_rules=rules.given or bool(utilities.origins),
        origins=origins,
        warnings=tuple(given.warnings),
        is_whole=not given.faults,
    )
