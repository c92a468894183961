"""Options of the verbs that work on a configured site, and what they and the environment give."""

from __future__ import annotations

import argparse
import logging
import os
from pathlib import Path

from slurm_rl_plugin.cli.tables import printable
from slurm_rl_plugin.configuration import (
    DEFAULT_PATH,
    Configuration,
    Flag,
    read_configuration,
    readable_configuration,
)

logger = logging.getLogger(__name__)


def add_configuration_options(parser: argparse.ArgumentParser) -> None:
    """Declare --config and --set."""
    parser.add_argument("--config", type=Path, metavar="FILE", help=f"default {DEFAULT_PATH}")
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
        or_defaults: where no file is named, the usual one may be missing.

    Raises:
        ConfigurationError: lists every fault.
    """
    settings = _settings(options)
    path = options.config or DEFAULT_PATH
    if or_defaults and options.config is None and not path.exists():
        path = None
    configuration = read_configuration(path, environment=os.environ, flags=[*settings, *flags])
    for warning in configuration.warnings:
        logger.warning("%s", warning)
    return configuration


def configuration_in_part(options: argparse.Namespace) -> tuple[Configuration | None, list[str]]:
    """What can be read of it, and its faults; None where a file cannot be read at all."""
    return readable_configuration(
        options.config or DEFAULT_PATH, environment=os.environ, flags=_settings(options)
    )


def _settings(options: argparse.Namespace) -> list[Flag]:
    return [Flag(setting, printable(f"--set {setting}")) for setting in options.set]
