"""Users of this machine: jobs' users, and slurmrl, as whom a site runs the daemon."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.real.cluster_files import Account
from tests.real.daemon import ClusterError
from tests.real.slurm_releases import SEARCH_PATH


def add_system_user(name: str) -> None:
    """Create a local user without a home for jobs to run as, unless there is one."""
    with contextlib.suppress(KeyError):
        pwd.getpwnam(name)
        return
    subprocess.run(
        ["useradd", "--no-create-home", "--shell", "/bin/sh", name],
        env={**os.environ, "PATH": SEARCH_PATH},
        capture_output=True,
        timeout=20,
        check=False,
    )
    end = time.monotonic() + 5
    while time.monotonic() < end:  # another cluster may be adding the same one just now
        with contextlib.suppress(KeyError):
            pwd.getpwnam(name)
            return
        time.sleep(0.05)
    raise ClusterError(f"user {name} is missing and useradd could not create it")


NAME = "slurmrl"
#: Its account; without AdminLevel the user has no rights.
STAFF = {"staff": Account(share=1, users=(NAME,))}
#: Words before a command that run it as this user.
AS_HIM = ("setpriv", f"--reuid={NAME}", f"--regid={NAME}", "--clear-groups")


def skip_unless_he_may_run_python() -> None:
    """Skips the test where a process of this user cannot start Python, which lies in a home."""
    add_system_user(NAME)
    words = [*AS_HIM, "sh", "-c", 'exec "$0" -c ""', sys.executable]
    if subprocess.run(words, capture_output=True, check=False, cwd="/").returncode:
        pytest.skip(
            f"needs a Python that other users may run, not {sys.executable}: chmod a+x its folders"
        )


def give_him(folder: Path) -> Path:
    """Gives the user a folder, and access to it."""
    shutil.chown(folder, NAME)
    for above in folder.parents:
        if not above.stat().st_mode & 0o001:
            above.chmod(0o755)
    return folder
