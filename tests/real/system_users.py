"""Users of this machine for jobs to run as."""

from __future__ import annotations

import contextlib
import os
import pwd
import subprocess
import time

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
