"""`slurm-rl` as the user slurmrl, who is nobody on this machine, as a site runs it."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.real.private_cluster import Account, PrivateSlurm

NAME = "slurmrl"
#: His account; without AdminLevel he has no right there.
STAFF = {"staff": Account(share=1, users=(NAME,))}
#: Words before a command that let him run it.
AS_HIM = ("setpriv", f"--reuid={NAME}", f"--regid={NAME}", "--clear-groups")


def give_him(folder: Path) -> Path:
    """Make a folder his, and let him through to it."""
    shutil.chown(folder, NAME)
    for above in folder.parents:
        if not above.stat().st_mode & 0o001:
            above.chmod(0o755)
    return folder


def make_him_operator(cluster: PrivateSlurm) -> None:
    """Give him the right to write."""
    cluster.run("sacctmgr", "-i", "modify", "user", NAME, "set", "AdminLevel=Operator")
