"""Options of the verbs that work on a configured site, and what they and the environment give."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from contextlib import suppress
from pathlib import Path

from slurm_rl_plugin.cli.tables import printable
from slurm_rl_plugin.configuration import (
    DEFAULT_PATH,
    Configuration,
    Flag,
    KnownConfiguration,
    known_configuration,
    read_configuration,
)
from slurm_rl_plugin.hook.memory.carried_factors import StateFile
from slurm_rl_plugin.whole_file import may_exist

logger = logging.getLogger(__name__)


def add_configuration_options(parser: argparse.ArgumentParser) -> None:
    """Add --config FILE and --set SECTION.KEY=VALUE, by which a verb finds its configuration."""
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help=f"the configuration (default: {DEFAULT_PATH})"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="a key of the configuration, over environment and files; repeat it",
    )


def configuration_of(
    options: argparse.Namespace, *flags: Flag, or_defaults: bool = False
) -> Configuration:
    """The configuration in force; warnings go to the log, which is standard error.

    Args:
        options: as declared by `add_configuration_options`.
        flags: what other options of the verb say of keys; these go before --set.
        or_defaults: where no file is named, the usual one may be missing or unreadable.

    Raises:
        ConfigurationError: lists every fault.
    """
    settings = _settings(options)
    path = options.config or DEFAULT_PATH
    if or_defaults and options.config is None and not os.access(path, os.R_OK):
        if may_exist(path):  # as where only the daemon's group may read it
            logger.warning("%s is not yours to read: defaults are taken", path)
        path = None
    configuration = read_configuration(path, environment=os.environ, flags=[*settings, *flags])
    for warning in configuration.warnings:
        logger.warning("%s", warning)
    return configuration


def add_way_out_options(parser: argparse.ArgumentParser) -> None:
    """Add --config, --set and --state-file, for verbs that work without a configuration too."""
    add_configuration_options(parser)
    parser.set_defaults(verb=parser.prog.rpartition(" ")[2])
    parser.add_argument(
        "--state-file",
        metavar="FILE",
        help="the daemon's, which tells how to take factors back where the configuration cannot "
        "be read; it is looked for otherwise",
    )


def known_configuration_of(options: argparse.Namespace) -> KnownConfiguration:
    """The configuration as far as it can be known; what is wrong with it goes to stderr.

    Raises:
        ConfigurationError: --set gives no key.
    """
    found = quiet_known_configuration(options)
    tell_faults(options.verb, found)
    return found


def quiet_known_configuration(options: argparse.Namespace) -> KnownConfiguration:
    """What `known_configuration_of` finds, with no warning printed.

    Raises:
        ConfigurationError: --set gives no key.
    """
    return known_configuration(
        options.config or DEFAULT_PATH,
        environment=os.environ,
        flags=[*_settings(options), *state_file_flags(options)],
        left_behind=lambda path: StateFile(path).left_behind(),
    )


def state_file_flags(options: argparse.Namespace) -> list[Flag]:
    """What --state-file says of the configuration, as `add_way_out_options` declares it."""
    if not options.state_file:
        return []
    return [Flag(f"hook.state_file={options.state_file}", "--state-file")]


def tell_faults(verb: str, known: KnownConfiguration) -> None:
    """Say what is wrong with the configuration, and what is used in its place."""
    lines = list(known.faults)
    if not known.is_read:
        told = StateFile(known.state_file).left_behind()
        what = "as the daemon left it" if told else "which does not tell how; defaults are tried"
        lines.append(f"going by the state file {known.state_file}, {what}.")
    with suppress(OSError):
        for line in lines:
            print(f"slurm-rl {verb}: {line}", file=sys.stderr)


def _settings(options: argparse.Namespace) -> list[Flag]:
    return [Flag(setting, printable(f"--set {setting}")) for setting in options.set]
