"""An OpenPBS that runs on this machine, for the tests that may change it."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from slurm_rl_plugin.batch_systems.pbs.cluster import Pbs
from slurm_rl_plugin.batch_systems.pbs.kind import DEFAULT_CONF, read_pbs_conf
from slurm_rl_plugin.batch_systems.pbs.process import DEFAULT_HOME
from slurm_rl_plugin.batch_systems.pbs.setup import Step
from slurm_rl_plugin.batch_systems.port import AdapterParts
from slurm_rl_plugin.domain.job_class import JobClassifier
from tests.architecture.markdown_documents import TOP
from tests.real.users import add_system_user

WANTED = "SLURM_RL_TEST_PBS"
_STARTED = re.compile(r"^\S+ \S+;S;([^;]+);", re.MULTILINE)


def missing_openpbs() -> str | None:
    """Why there is no OpenPBS for tests, and how to get one; None if there is."""
    if os.environ.get(WANTED) != "1":
        return f"changes an OpenPBS that runs here: `make test-pbs` asks for it ({WANTED}=1)"
    if os.geteuid() != 0:
        return "needs root: only root may set job_sort_formula"
    if "PBS_EXEC" not in read_pbs_conf(DEFAULT_CONF):
        return f"needs an installed OpenPBS (no PBS_EXEC in {DEFAULT_CONF}): build it, start it"
    if InstalledPbs().run("qstat", "-B", check=False).returncode:
        return "needs an OpenPBS that runs: start it (/etc/init.d/pbs start)"
    return None


class InstalledPbs:
    """Its commands, and what a test changes."""

    def __init__(self) -> None:
        self.conf = read_pbs_conf(DEFAULT_CONF)
        folders = [f"{self.conf.get('PBS_EXEC', '')}/{name}" for name in ("bin", "sbin")]
        self.env = {**os.environ, "PATH": os.pathsep.join([*folders, os.environ["PATH"]])}
        #: Of the scheduler.
        self.files = Path(self.conf.get("PBS_HOME", DEFAULT_HOME), "sched_priv")

    def run(
        self, *words: str, check: bool = True, user: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        as_user = ("runuser", "-u", user, "--") if user else ()
        return subprocess.run(
            [*as_user, *words],
            env=self.env,
            cwd=TOP,
            capture_output=True,
            text=True,
            timeout=60,
            check=check,
        )

    def qmgr(self, command: str, *, check: bool = True) -> str:
        return self.run("qmgr", "-c", command, check=check).stdout

    def shell(self, lines: list[str]) -> None:
        """Run the lines of one step; some may have been run before, so nothing is raised."""
        self.run("sh", "-c", "\n".join(lines), check=False)

    @contextmanager
    def set_up_by(self, steps: Sequence[Step]) -> Iterator[None]:
        """Steps of `pbs-setup` are run, and undone at the end."""
        for step in steps:
            self.shell(list(step.lines))
        try:
            yield
        finally:
            for step in reversed(steps):
                self.shell(list(step.undo))

    def read_files(self) -> None:
        """Let the scheduler read its files anew."""
        self.run("pkill", "-HUP", "-x", "pbs_sched")
        time.sleep(1)

    def restart(self) -> None:
        """Stop pbs_server, start it again, and wait until it answers."""
        self.run("qterm", "-t", "quick")
        server = str(Path(self.conf["PBS_EXEC"], "sbin", "pbs_server"))
        started = lambda: self.run(server, check=False).returncode == 0  # noqa: E731
        self.wait_until(started, 30, "end of the server")
        answers = lambda: self.run("qstat", "-B", check=False).returncode == 0  # noqa: E731
        self.wait_until(answers, 30, "answer of the server")

    @contextmanager
    def changed(self, name: str, words: str) -> Iterator[None]:
        """One of the scheduler's files with other words, for a while."""
        path = self.files / name
        before = path.read_text() if path.exists() else ""
        path.write_text(words)
        self.read_files()
        try:
            yield
        finally:
            path.write_text(before)
            self.read_files()

    def told(self, job: str, attribute: str) -> str:
        """An attribute of a job as qstat prints it; "" where it has none."""
        words = self.run("qstat", "-x", "-f", job, check=False).stdout
        found = re.search(rf"{re.escape(attribute)} = (.*)", words)
        return found[1] if found else ""

    def submit(self, *options: str, user: str, seconds: float = 0.1) -> str:
        """Submit a job that writes no files; its name."""
        words = ["qsub", "-o", "/dev/null", "-e", "/dev/null", *options]
        done = self.run(*words, "--", "/bin/sleep", str(seconds), user=user)
        return done.stdout.strip()

    def state(self, job: str) -> str:
        """The letter of a job's state; "" where it is gone."""
        return self.told(job, "job_state")

    @staticmethod
    def home_of(user: str) -> Path | None:
        """Give a user the home without which jobs end at once; None where there is one."""
        entry = pwd.getpwnam(user)
        home = Path(entry.pw_dir)
        if home.exists():
            return None
        home.mkdir(parents=True)
        os.chown(home, entry.pw_uid, entry.pw_gid)
        return home

    def started(self) -> list[str]:
        """Names of the jobs that started today, in the order of their starts."""
        folder = Path(self.conf["PBS_HOME"], "server_priv", "accounting")
        return _STARTED.findall("".join(path.read_text() for path in sorted(folder.iterdir())[-2:]))

    @contextmanager
    def granted(self, right: str, user: str) -> Iterator[None]:
        """The user is one of the server's `managers` or `operators` for a while.

        The last of them goes by `unset`: taken out by `-=` it is back after a restart (23.06.06).
        """
        entry = f"{user}@{self.run('hostname').stdout.strip()}"
        others = f"{right} = " in self.qmgr(f"list server {right}")
        self.qmgr(f"set server {right} += {entry}")
        try:
            yield
        finally:
            self.qmgr(f"set server {right} -= {entry}" if others else f"unset server {right}")

    def create_queues(self, *names: str) -> None:
        """Creates started queues."""
        for name in names:
            self.qmgr(f"create queue {name} queue_type=execution,enabled=True,started=True")

    def delete_queues(self, *names: str) -> None:
        """Deletes queues once they are empty."""
        for name in names:
            words = ("qmgr", "-c", f"delete queue {name}")
            gone = lambda words=words: self.run(*words, check=False).returncode == 0  # noqa: E731
            self.wait_until(gone, 30, f"end of queue {name}")

    def delete_all(self) -> None:
        names = self.run("qselect").stdout.split()
        for first in range(0, len(names), 100):
            self.run("qdel", "-W", "force", *names[first : first + 100], check=False)

    def wait_until(self, holds: Callable[[], bool], seconds: float, what: str) -> None:
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, f"no {what} within {seconds} s"
            time.sleep(0.2)


@contextmanager
def set_up_server(plan: Sequence[Step], *users: str) -> Iterator[InstalledPbs]:
    """The server after these steps of `pbs-setup`, which are undone; users have a home.

    Without an OpenPBS the test is skipped.
    """
    if reason := missing_openpbs():
        pytest.skip(reason)
    server, homes = InstalledPbs(), []
    server.delete_all()
    for user in users:
        add_system_user(user)
        homes.append(server.home_of(user))
    with server.set_up_by(plan):
        server.qmgr("set server flatuid = True")
        server.qmgr("set server job_history_enable = True")
        yield server
        server.delete_all()
    server.qmgr("set server scheduling = True")
    for home in filter(None, homes):
        home.rmdir()


def pbs_adapter(server: InstalledPbs, user: str, **settings: Any) -> Pbs:
    """The adapter over the server."""
    return Pbs(
        AdapterParts(
            shares={user: 1.0},
            classifier=JobClassifier(),
            clock=time.time,  # noqa: TID251
            environment=server.env,
            **settings,
        )
    )
