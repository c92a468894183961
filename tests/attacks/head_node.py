"""A head node with a fake Slurm: the daemon's account, its folders, and its verbs as any user."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import socket
import time
from pathlib import Path
from typing import Any
from unittest import mock

from slurm_rl_plugin.cli.entry import main
from tests.attacks.another_user import DAEMON
from tests.fakes.fake_cluster import FakeCluster

#: Jobs and the factors that they carry.
JOBS = {1: 500, 2: 700, 3: 0}


class HeadNode:
    """The node, in a folder that all users may enter; `uid` owns the daemon's folders."""

    def __init__(self, folder: Path, uid: int = DAEMON) -> None:
        self.folder, self.uid = folder, uid
        self.more = ""
        for each in (self.state, self.slurm):
            each.mkdir(mode=0o755)
        self.cluster = FakeCluster(self.slurm)
        now = int(time.time())  # noqa: TID251 - the clock of the commands
        self.cluster.set(now=now)
        for job, factor in JOBS.items():
            self.cluster.add(job, submit=now - 100, eligible=now - 100, site=factor)
        self.write_state(json.dumps({"version": 1, "jobs": [1, 2]}))
        for each in (self.state, self.slurm, self.slurm / "slurm.json"):
            os.chown(each, uid, uid)

    @property
    def state(self) -> Path:
        """Folder of the daemon's files."""
        return self.folder / "state"

    @property
    def slurm(self) -> Path:
        """Folder of the fake cluster, which every user of Slurm writes to."""
        return self.folder / "slurm"

    @property
    def locks(self) -> tuple[Path, ...]:
        """Paths of the lock, in this release and the one before."""
        host = socket.gethostname().partition(".")[0]
        return tuple(self.state / f"state.json.{host}.{end}" for end in ("daemon", "lock"))

    @property
    def factors(self) -> list[int]:
        """Of the jobs."""
        return [job["site"] for job in json.loads((self.slurm / "slurm.json").read_text())["jobs"]]

    def write_state(self, content: str) -> None:
        """The daemon's state file."""
        (self.state / "state.json").write_text(content)
        os.chown(self.state / "state.json", self.uid, self.uid)

    def verb(self, *words: str) -> dict[str, Any]:
        """Exit code and output of a command, run in this process by its user."""
        text = (
            f'[hook]\nmode = "active"\nstate_file = "{self.state}/state.json"\n'
            f'audit_file = "{self.state}/audit.jsonl"\ndisable_file = "{self.folder}/DISABLE"\n'
            f'[policy]\nmodel = "sjf"\n[metrics]\nport = 0\n{self.more}'
        )
        path = self.folder / "site.toml"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
        said = io.StringIO()
        with (
            mock.patch.dict(os.environ, self.cluster.env),
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(said),
        ):
            code = main([*words, "--config", str(path)])
        return {"code": code, "said": said.getvalue()}

    def configured(self) -> None:
        """Writes the configuration for users who may not write it."""
        self.verb("show-config")


def lock_all_of(folder: Path) -> list[str]:
    """Locks every file that may be opened, permanently; returns their names."""
    held = []
    for each in sorted(folder.iterdir()):
        with contextlib.suppress(OSError):
            file = os.open(each, os.O_RDONLY | os.O_NONBLOCK)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held.append(each.name)
    return held


def read_all_of(folder: Path) -> list[str]:
    """Names of the files that may be read."""
    found = []
    for each in sorted(folder.iterdir()):
        with contextlib.suppress(OSError):
            each.read_bytes()
            found.append(each.name)
    return found
