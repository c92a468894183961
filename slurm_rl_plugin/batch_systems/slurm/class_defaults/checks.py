"""A check of `slurm-rl check`: whether slurmctld reads the table of class defaults at all."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

from slurm_rl_plugin.batch_systems.port import FAIL, PASS, WARN, Check
from slurm_rl_plugin.batch_systems.slurm.answers.settings import (
    SHOW_CONFIG,
    parse_slurm_uid,
    parse_submit_plugins,
)
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.errors import BatchSystemError

_NAME = "class defaults"
_PLACE = "class defaults table"
_SCRIPT = "job_submit.lua"


def class_defaults_of(table: Path, commands: CommandRunner) -> Iterator[Check]:
    """Whether it is read, and whether nobody can put another file there."""
    try:
        settings = commands.read(SHOW_CONFIG)
        loaded, folder = parse_submit_plugins(settings)
    except BatchSystemError as error:
        yield Check(FAIL, _NAME, str(error))
    else:
        yield _script_of(table, folder / _SCRIPT, loaded="lua" in loaded)
        yield _place_of(table, frozenset({0, parse_slurm_uid(settings)}))


def _script_of(table: Path, script: Path, *, loaded: bool) -> Check:
    """What stands beside slurm.conf, where this host can see that."""
    if not loaded:
        what = f"nobody reads {table}: put our script at {script}, set JobSubmitPlugins=lua in "
        return Check(WARN, _NAME, f"{what}slurm.conf and run scontrol reconfigure")
    try:
        text = script.read_text(errors="replace")
    except FileNotFoundError:
        what = f"{script} is missing, and slurmctld will not start without it where it runs on this"
        return Check(FAIL, _NAME, f"{what} host: put it back, or take JobSubmitPlugins=lua out")
    except OSError as error:
        return Check(WARN, _NAME, f"{script} cannot be read here: {error.strerror}")
    if "slurm_rl_class_defaults" not in text:
        what = f"{script} is the site's own: let it call slurm_rl_class_defaults of ours"
        return Check(WARN, _NAME, what)
    if f'"{table}"' not in text and "dofile" not in text:
        return Check(WARN, _NAME, f'{script} reads another table: set TABLE = "{table}" in it')
    return Check(PASS, _NAME, f"{script} reads {table}")


def _place_of(table: Path, trusted: frozenset[int]) -> Check:
    """Whether only root and slurmctld's user can put a FIFO or a link there.

    Args:
        table: whose place is looked at.
        trusted: ids of these users.
    """
    mend = f"; as root: install -d {table.parent}; install -m 0664 -g slurmrl /dev/null {table}"
    harm = "a FIFO or a link put there holds up slurmctld for good"
    for folder in table.parents:
        try:
            found = folder.stat()
        except OSError as error:
            return Check(WARN, _PLACE, f"{folder}: {error.strerror}{mend}")
        shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if shared and found.st_mode & stat.S_ISVTX and folder != table.parent:
            shared = 0  # as in /tmp, nobody moves what is not his
        if shared or found.st_uid not in trusted:
            what = f"others than root and slurmctld's user may write into {folder}: {harm}"
            return Check(WARN, _PLACE, f"{what}; set class_defaults_file to a folder of root's")
    try:
        found = table.stat(follow_symlinks=False)
    except OSError as error:
        return Check(WARN, _PLACE, f"{table}: {error.strerror}{mend}")
    if not stat.S_ISREG(found.st_mode) or found.st_uid not in trusted:
        what = f"{table} is no regular file of root's, which can hold up slurmctld"
        return Check(WARN, _PLACE, f"{what}; remove it, and{mend[1:]}")
    return Check(PASS, _PLACE, f"only root and slurmctld's user can replace {table}")
