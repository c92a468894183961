"""`slurm-rl` as the user slurmrl, who is nobody on this machine, as a site runs it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.real.private_cluster import Account, PrivateSlurm

NAME = "slurmrl"
#: His account; without AdminLevel he has no right there.
STAFF = {"staff": Account(share=1, users=(NAME,))}
#: Words before a command that let him run it.
AS_HIM = ("setpriv", f"--reuid={NAME}", f"--regid={NAME}", "--clear-groups")


def run_as_him(
    cluster: PrivateSlurm, folder: Path, *words: str
) -> subprocess.CompletedProcess[str]:
    """A verb of `slurm-rl` with the configuration in `folder`, whatever its exit code."""
    return cluster.run(
        *AS_HIM,
        *(sys.executable, "-m", "slurm_rl_plugin.cli.entry", *words),
        *("--config", str(folder / "slurm-rl.toml")),
        check=False,
        timeout=60,
    )


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
