"""The ordinary user slurmrl, as whom a site runs the daemon."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.real.private_cluster import Account, PrivateSlurm

NAME = "slurmrl"
#: Its account; without AdminLevel the user has no rights.
STAFF = {"staff": Account(share=1, users=(NAME,))}
#: Words before a command that run it as this user.
AS_HIM = ("setpriv", f"--reuid={NAME}", f"--regid={NAME}", "--clear-groups")


def give_him(folder: Path) -> Path:
    """Gives the user a folder, and access to it."""
    shutil.chown(folder, NAME)
    for above in folder.parents:
        if not above.stat().st_mode & 0o001:
            above.chmod(0o755)
    return folder


def make_him_operator(cluster: PrivateSlurm) -> None:
    """Gives the user the right to write."""
    cluster.run("sacctmgr", "-i", "modify", "user", NAME, "set", "AdminLevel=Operator")
