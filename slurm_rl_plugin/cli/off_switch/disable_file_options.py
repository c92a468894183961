"""What `disable`, `enable` and `pause` have in common: options, who acts, the file that counts."""

from __future__ import annotations

import argparse
import math
import os
import pwd
from pathlib import Path

from slurm_rl_plugin.cli.assembly.configuration_arguments import (
    add_way_out_options,
    known_configuration_of,
)
from slurm_rl_plugin.configuration import KnownConfiguration
from slurm_rl_plugin.errors import ConfigurationError

#: Seconds that a verb waits for the daemon unless told otherwise.
WAIT = 20.0


def add_common_options(parser: argparse.ArgumentParser, *, reason: bool) -> None:
    """Add what `disable`, `pause` and `enable` share: configuration, state file and waiting.

    Args:
        parser: of the verb.
        reason: whether it takes one.
    """
    add_way_out_options(parser)
    if reason:
        parser.add_argument("--reason", default="", metavar="TEXT", help="shown by status and log")
    parser.add_argument(
        "--wait",
        type=_seconds,
        default=WAIT,
        metavar="SECONDS",
        help=f"for the daemon to follow; 0 does not wait (default: {WAIT:g})",
    )


def configured_file(options: argparse.Namespace) -> tuple[KnownConfiguration, Path]:
    """The configuration as far as it can be known, and its disable file.

    Raises:
        ConfigurationError: no such file is named.
    """
    known = known_configuration_of(options)
    path = known.configuration.disable_file
    if path is None:
        raise ConfigurationError(
            "no disable file is configured: give its path in [hook] disable_file and reload the "
            "daemon."
        )
    return known, path


def acting_user() -> str:
    """Who types: behind sudo its user, else the owner of this process."""
    try:
        own = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        own = str(os.getuid())
    behind = os.environ.get("SUDO_USER", "")
    return f"{behind} as {own}" if behind and behind != own else own


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds of at least 0")
    return value
