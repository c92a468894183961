"""Options of commands on a configured site, and whose rights these commands have.

A user who has a service's account may lay links in its folder and write what it likes into its
files. Root would follow them: it becomes the owner of the folder before it reads what lies there.
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
        flags: what other options of the verb say of keys; these go before --set.
        or_defaults: where no file is named, the usual one may be missing or unreadable.
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


def known_configuration_of(
    options: argparse.Namespace, *, quiet: bool = False
) -> KnownConfiguration:
    """The configuration as far as it can be known; unless `quiet`, its faults go to stderr."""
    found = known_configuration(
        options.config or DEFAULT_PATH,
        environment=os.environ,
        flags=[*_settings(options), *state_file_flags(options)],
        left_behind=lambda path: StateFile(path).left_behind(),
    )
    if not quiet:
        tell_faults(options.verb, found)
    return found


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


def become_state_owner(configuration: Configuration) -> None:
    """Become the owner of the daemon's state folder for good; see `become_owner`."""
    become_owner(Path(configuration.sections.hook.state_file).parent)


def become_owner(folder: Path) -> None:
    """Become the folder's owner for good, home included; nothing if that is root.

    What only root may read or write has to be read or written before.
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
    except KeyError:  # an account without a name has no further groups and no home
        os.setgroups([])
        os.setgid(group)
        os.environ["HOME"] = "/"
    for each in [name for name in os.environ if name.startswith("XDG_")]:
        del os.environ[each]  # root's
    os.setuid(user)
    if not os.access(".", os.X_OK):
        os.chdir("/")  # what this account starts could not begin in root's home


def _owner(folder: Path) -> tuple[int, int] | None:
    """User and group of the first folder on the way there that is not root's; None if all are.

    That user decides what lies further down. If a link of root's leads the way on, the folders of
    its target are looked at too.
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
