"""Root becomes the owner of a service's folder before it reads what lies there.

A user who has a service's account may lay links in its folder and write what it likes into its
files. Root, which follows them, would do for that user what it may not do itself.
"""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from slurm_rl_plugin.configuration import Configuration


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
