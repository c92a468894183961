"""The releases of Slurm that the real tests run on, and in what their daemons differ."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = (
    *("munged", "munge", "mariadbd", "mariadb-install-db", "mariadb-admin"),
    *("slurmdbd", "slurmctld", "slurmd", "sacctmgr", "scontrol", "sbatch", "sinfo", "squeue"),
)
SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])
#: What makes a folder that holds another release, and the file in it that says which.
INSTALLER, MARK = "tests/real/install_release.sh", "slurm-release"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmRelease:
    """A release of Slurm from another suite of Debian, in a folder of its own.

    Attributes:
        name: such as 24.11.
        suite: of Debian.
        slurmctld_options: that let a test kill it and start it again.
        mariadbd_options: that the release's MariaDB needs on top of the installed one's.
        variables: program -> environment that it needs there.
    """

    name: str
    suite: str
    slurmctld_options: tuple[str, ...] = ()
    mariadbd_options: tuple[str, ...] = ()
    variables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Where `install_release.sh` puts it."""
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(cache) / "slurm-rl-plugin" / "releases" / self.suite

    @property
    def number(self) -> tuple[int, int]:
        return release_number(self.name)


#: slurmdbd complains of the default, which is ON since MariaDB 11.6.
NO_SNAPSHOT_ISOLATION = ("--innodb-snapshot-isolation=OFF",)
#: With libmariadb 11.8.9 slurmdbd ends: "Number of columns in result (=1) ..."
OLDER_LIBMARIADB = {"slurmdbd": {"LD_LIBRARY_PATH": "/opt/bookworm/usr/lib/x86_64-linux-gnu"}}
RELEASES = {
    release.name: release
    for release in (
        SlurmRelease(
            name="24.11",
            suite="trixie",
            mariadbd_options=NO_SNAPSHOT_ISOLATION,
            variables=OLDER_LIBMARIADB,
        ),
        SlurmRelease(
            name="26.05",
            suite="forky",
            # Killed before it first saved its state, it would not start: "No Assoc usage file".
            slurmctld_options=("-i",),
            mariadbd_options=NO_SNAPSHOT_ISOLATION,
            variables=OLDER_LIBMARIADB,
        ),
    )
}


def missing_programs() -> list[str]:
    """What has to be installed before a cluster of the installed release can start."""
    return [program for program in PROGRAMS if shutil.which(program, path=SEARCH_PATH) is None]


def missing_release(release: SlurmRelease) -> str:
    """Why no cluster of this release can start, and what to do; empty where one can."""
    get = f"run {INSTALLER} {release.suite}"
    mark = release.folder / MARK
    if not mark.is_file():
        return f"Slurm {release.name} is not in {release.folder}: {get}"
    found = mark.read_text().strip()
    if found != release.name:
        return (
            f"{release.folder} holds Slurm {found} and not {release.name}: the suite moved on, or "
            f"is an old one; {INSTALLER} --remove {release.suite}, then {get}"
        )
    return ""


def installed_number() -> tuple[int, int]:
    """Major and minor number of the installed Slurm, such as (22, 5)."""
    program = shutil.which("slurmctld", path=SEARCH_PATH) or "slurmctld"
    words = subprocess.run([program, "-V"], capture_output=True, text=True, timeout=10, check=True)
    return release_number(words.stdout.split()[-1])


def release_number(text: str) -> tuple[int, int]:
    major, minor = text.split(".")[:2]
    return int(major), int(minor)
