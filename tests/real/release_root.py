"""The root folder in which one private cluster's programs run: ours, or another release's.

A process holds a copy of the other root with what a cluster shares with the tests mounted into
it: the folder of the cluster, users, host names and /proc. The mounts are its own and end with
it. Programs get in by `chroot /proc/PID/root`, so that paths are the same inside and outside.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.real.slurm_releases import PROGRAMS, SEARCH_PATH, SlurmRelease

#: Further clients that tests and the hook call.
CLIENTS = ("sacct", "scancel", "sdiag", "sprio", "srun", "sshare")
#: Words are the root and the folder where clusters are; all else of the host stays outside.
HOLD = """
set -eu
mkdir -p "$1$2"
mount --rbind /proc "$1/proc"
mount -t tmpfs tmpfs "$1/run"
mount --bind "$2" "$1$2"
for file in passwd group hosts resolv.conf; do
    [ -e "/etc/$file" ] || continue
    [ -e "$1/etc/$file" ] || touch "$1/etc/$file"
    mount --bind "/etc/$file" "$1/etc/$file"
done
exec chroot "$1" sleep infinity
"""


class OwnRoot:
    """The machine's own root: programs are those that are installed."""

    path = SEARCH_PATH

    def as_user(self, user: str) -> tuple[str, ...]:
        """Words before a command that make it run as this user."""
        return _as_user(user, "/")


class ReleaseRoot:
    """The root of another release, for a cluster in `directory`."""

    def __init__(self, release: SlurmRelease, directory: Path) -> None:
        self.folder = release.folder.resolve()
        self.path = f"{directory}/bin{os.pathsep}{SEARCH_PATH}"
        self._release = release
        self._directory = directory
        self._root = ""

    def hold_command(self) -> tuple[str, ...]:
        """Command of the process that holds the root; end it to end the mounts."""
        words = (str(self.folder), str(self._directory.parent))
        return ("unshare", "--mount", "sh", "-c", HOLD, "sh", *words)

    def is_held(self, pid: int) -> bool:
        """Whether that process has mounted everything."""
        return Path(f"/proc/{pid}/root").readlink() == self.folder

    def write_programs(self, pid: int) -> None:
        """Put programs on the cluster's PATH that run those of the release."""
        self._root = f"/proc/{pid}/root"
        folder = self._directory / "bin"
        folder.mkdir(exist_ok=True)
        for name, inside in self._programs():
            variables = self._release.variables.get(name, {}).items()
            settings = ["/usr/bin/env", *(f"{key}={value}" for key, value in variables)]
            words = [_chroot(), self._root, *(settings if variables else ()), inside]
            folder.joinpath(name).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
            folder.joinpath(name).chmod(0o755)

    def as_user(self, user: str) -> tuple[str, ...]:
        """Words before a command that make it run as this user."""
        return _as_user(user, self._root)

    def _programs(self) -> Iterator[tuple[str, str]]:
        for name in (*PROGRAMS, *CLIENTS):
            inside = f"/usr/bin/{name}"
            yield name, inside if os.path.lexists(f"{self.folder}{inside}") else f"/usr/sbin/{name}"


def _as_user(user: str, root: str) -> tuple[str, ...]:
    # Only root can chroot, so a user must not find the programs that write_programs made.
    enter = (_chroot(), f"--userspec={user}", "--groups=", root)
    return (*enter, "/usr/bin/env", f"PATH={SEARCH_PATH}")


def _chroot() -> str:
    return shutil.which("chroot", path=SEARCH_PATH) or "chroot"
