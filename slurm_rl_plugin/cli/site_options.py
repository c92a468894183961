"""Options of commands on a configured site, and the account that these commands take.

An attacker with a service's account can put links into the service's folder and change its files.
So root becomes the owner of that folder before it reads any file in it.
"""

from __future__ import annotations

import argparse
import logging
import os
import pwd
import sys
from contextlib import suppress
from pathlib import Path

from slurm_rl_plugin.configuration import (
    DEFAULT_PATH,
    Configuration,
    Flag,
    KnownConfiguration,
    known_configuration,
    read_configuration,
)
from slurm_rl_plugin.hook.memory.carried_factors import StateFile
from slurm_rl_plugin.readable import printable
from slurm_rl_plugin.whole_file import may_exist

logger = logging.getLogger(__name__)


def add_configuration_options(parser: argparse.ArgumentParser) -> None:
    """Add --config FILE and --set SECTION.KEY=VALUE."""
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help=f"configuration file (default: {DEFAULT_PATH})"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="override a key of the configuration; may be repeated",
    )


def configuration_of(
    options: argparse.Namespace, *flags: Flag, or_defaults: bool = False
) -> Configuration:
    """The configuration in force; its warnings go to the log on standard error.

    Args:
        flags: keys that other options give; they override --set.
        or_defaults: unless --config names a file, a missing or unreadable one means defaults.
    """
    settings = _settings(options)
    path = options.config or DEFAULT_PATH
    if or_defaults and options.config is None and not os.access(path, os.R_OK):
        if may_exist(path):  # such as a file that only the daemon's group can read
            logger.warning("you cannot read %s: defaults apply", path)
        path = None
    configuration = read_configuration(path, environment=os.environ, flags=[*settings, *flags])
    for warning in configuration.warnings:
        logger.warning("%s", warning)
    return configuration


def add_rollback_options(parser: argparse.ArgumentParser) -> None:
    """Add --config, --set and --state-file, for commands that work with a broken configuration."""
    add_configuration_options(parser)
    parser.set_defaults(verb=parser.prog.rpartition(" ")[2])
    parser.add_argument(
        "--state-file",
        metavar="FILE",
        help="the daemon's state file, which says how to roll factors back if the configuration "
        "cannot be read (default: as the configuration says)",
    )


def known_configuration_of(
    options: argparse.Namespace, *, quiet: bool = False
) -> KnownConfiguration:
    """The configuration as far as it is known; its faults go to stderr unless `quiet`."""
    found = known_configuration(
        options.config or DEFAULT_PATH,
        environment=os.environ,
        flags=[*_settings(options), *state_file_flags(options)],
    )
    if not quiet:
        print_faults(options.verb, found)
    return found


def state_file_flags(options: argparse.Namespace) -> list[Flag]:
    """The key that --state-file gives."""
    if not options.state_file:
        return []
    return [Flag(f"hook.state_file={options.state_file}", "--state-file")]


def print_faults(verb: str, known: KnownConfiguration) -> None:
    """Print what is wrong with the configuration, and what is used instead."""
    lines = list(known.faults)
    if not known.is_read:
        found = StateFile(known.state_file).left_behind()
        what = "as the daemon left it" if found else "which has no settings; trying the defaults"
        lines.append(f"going by the state file {known.state_file}, {what}.")
    with suppress(OSError):
        for line in lines:
            print(f"slurm-rl {verb}: {line}", file=sys.stderr)


def _settings(options: argparse.Namespace) -> list[Flag]:
    return [Flag(setting, printable(f"--set {setting}")) for setting in options.set]


def become_state_owner(configuration: Configuration) -> None:
    """Become the owner of the daemon's state folder; see `become_owner`."""
    become_owner(Path(configuration.sections.hook.state_file).parent)


def become_owner(folder: Path) -> None:
    """Become the folder's owner permanently, home included; nothing if that is root.

    Files that only root can read or write must be read or written before.
    """
    if os.geteuid() != 0:
        return
    owner = _owner(folder)
    if owner is None:
        return
    user, group = owner
    try:
        known = pwd.getpwuid(user)
        os.initgroups(known.pw_name, known.pw_gid)
        os.setgid(known.pw_gid)
        os.environ.update(HOME=known.pw_dir, USER=known.pw_name, LOGNAME=known.pw_name)
    except KeyError:  # an account without a name has no groups and no home
        os.setgroups([])
        os.setgid(group)
        os.environ["HOME"] = "/"
    for each in [name for name in os.environ if name.startswith("XDG_")]:
        del os.environ[each]  # these name folders of root's
    os.setuid(user)
    if not os.access(".", os.X_OK):
        os.chdir("/")  # processes of this account could not start in root's home


def _owner(folder: Path) -> tuple[int, int] | None:
    """User and group of the first folder on the path that is not root's; None if all are root's.

    That user controls everything below. If a link of root's is on the path, the folders of its
    target are checked too.
    """
    folder = folder.absolute()
    for way in (folder, Path(os.path.realpath(folder))):
        for each in (*reversed(way.parents), way):
            try:
                found = each.lstat()
            except OSError:
                break
            if found.st_uid != 0:
                return found.st_uid, found.st_gid
    return None
