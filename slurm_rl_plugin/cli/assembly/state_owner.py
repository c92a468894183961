"""Root becomes the owner of the state folder before it reads what lies there.

Whoever has the daemon's account may lay links in that folder and write what he likes into its
files. Root, who follows them, would do for him what he may not do himself.
"""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from slurm_rl_plugin.configuration import Configuration


def become_state_owner(configuration: Configuration) -> None:
    """Become the state folder's owner for good; does nothing where that is root.

    What only root may read or write has to be read or written before.
    """
    if os.geteuid() != 0:
        return
    owner = _owner(Path(configuration.sections.hook.state_file).parent)
    if owner is None:
        return
    user, group = owner
    try:
        known = pwd.getpwuid(user)
        os.initgroups(known.pw_name, known.pw_gid)
        os.setgid(known.pw_gid)
    except KeyError:  # an account without a name has no further groups
        os.setgroups([])
        os.setgid(group)
    os.setuid(user)


def _owner(folder: Path) -> tuple[int, int] | None:
    """User and group of the first folder on the way there that is not root's; None where all are.

    What lies further down is what that user wants to lie there. Where a link of root's leads the
    way on, its folders are looked at too.
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
