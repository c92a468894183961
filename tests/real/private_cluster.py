"""A real Slurm under one directory: munge, MariaDB, slurmdbd, slurmctld, slurmd."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.real import process_sweep
from tests.real.cluster_files import (
    Account,
    ClusterPlan,
    NodeKind,
    PortBlock,
    write_controller_conf,
    write_slurm_conf,
    write_slurmdbd_conf,
)
from tests.real.daemon import ClusterError, Daemon, wait_until
from tests.real.release_root import OwnRoot, ReleaseRoot
from tests.real.slurm_releases import SlurmRelease, installed_number
from tests.real.users import add_system_user

__all__ = ["Account", "ClusterError", "ClusterPlan", "NodeKind", "PrivateSlurm"]

STEP_SECONDS = 30.0
#: What sacctmgr says to an addition that changes nothing.
ALREADY_THERE = ("lready exist", "Nothing new added")


#: Words are a file of host names, the name to have, and a command.
AS_HOST = 'mount --bind "$1" /etc/hosts && hostname "$2" && shift 2 && exec "$@"'


class PrivateSlurm:
    """A running cluster in `directory`; several can run at the same time.

    Must be started by root. With `with`, or by `start()` and `stop()`; nothing is left running
    when the owning process ends, however it ends. A second `start()` in the same directory
    continues with the state and the accounting of the first.

    Args:
        directory: of the cluster's files.
        plan: what kind of cluster.
        release: another release than the installed one; its folder must be there.
        storage_of: a running cluster of the same release whose munge, MariaDB and slurmdbd this one
            shares; the plan must give it a ClusterName of its own, and it must be stopped first.

    Raises:
        ClusterError: a daemon did not come up in time; shows the end of its log.
    """

    def __init__(
        self,
        directory: Path,
        plan: ClusterPlan | None = None,
        release: SlurmRelease | None = None,
        storage_of: PrivateSlurm | None = None,
    ) -> None:
        self.directory = directory.resolve()
        self.plan = plan or ClusterPlan()
        self._host_of_storage = storage_of
        if storage_of is not None:
            options = {**self.plan.options, **storage_of.storage_options}
            self.plan = replace(self.plan, options=options)
        self.release = release
        self._root = ReleaseRoot(release, self.directory) if release else OwnRoot()
        self._mark = uuid.uuid4().hex
        self._ports = PortBlock()
        self._daemons: dict[str, Daemon] = {}
        self._reaper: subprocess.Popen[bytes] | None = None
        if len(f"{self.directory}/munge/munge.sock") > 100:
            raise ClusterError(f"{self.directory} is too long a path for a socket")

    @property
    def env(self) -> dict[str, str]:
        """Environment in which Slurm's commands reach this cluster."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("SLURM")}
        return {
            **kept,
            "PATH": self._root.path,
            "SLURM_CONF": f"{self.directory}/etc/slurm.conf",
            process_sweep.MARK: self._mark,
        }

    @property
    def number(self) -> tuple[int, int]:
        """Major and minor number of its Slurm, such as (22, 5)."""
        return self.release.number if self.release else installed_number()

    @property
    def storage_options(self) -> dict[str, str]:
        """What slurm.conf says of this cluster's munge and slurmdbd, once it runs."""
        munge = f"{self.directory}/munge/munge.sock"
        return {
            "AuthInfo": f"socket={munge}",
            "AccountingStoragePort": str(self._ports.first),
            "AccountingStoragePass": munge,
        }

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Bring every daemon up, in order; takes about two seconds."""
        atexit.register(self.stop)
        self._reaper = subprocess.Popen(
            [sys.executable, "-S", process_sweep.__file__, self._mark, self.directory.name],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            self._write_files()
            self._open_root()
            if self._host_of_storage is None:
                self._start_storage()
            self._add_accounts()
            self._start_slurm()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End every process of the cluster at once; the directory stays. May be repeated."""
        left = process_sweep.sweep(self._mark, self.directory.name)
        for daemon in self._daemons.values():
            daemon.reap()
        if self._reaper is not None and self._reaper.stdin is not None:
            self._reaper.stdin.close()
            self._reaper.wait(timeout=10)
            self._reaper = None
        self._ports.give_back()
        atexit.unregister(self.stop)
        if left:
            raise ClusterError(f"processes {sorted(left)} of {self.directory} cannot be killed")

    def run(
        self,
        *command: str,
        stdin: str = "",
        user: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 20.0,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run one command in the cluster's environment, `user` instead of root where named.

        Raises:
            ClusterError: it took longer than `timeout` s, or failed and `check` is set.
        """
        try:
            done = subprocess.run(
                command if user is None else (*self.as_user(user), *command),
                input=stdin,
                env={**self.env, **(env or {})},
                timeout=timeout,
                capture_output=True,
                text=True,
                cwd="/",
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ClusterError(f"{' '.join(command)}: no answer in {timeout:g} s") from error
        if check and done.returncode:
            raise ClusterError(f"{' '.join(command)}: {done.stderr or done.stdout}")
        return done

    def as_user(self, user: str) -> tuple[str, ...]:
        """Words before a command that make it run as this user, with this cluster's programs."""
        return self._root.as_user(user)

    def on_host(self, name: str) -> tuple[str, ...]:
        """Words before a command that let it run on one of the plan's controllers' hosts."""
        hosts = str(self.directory / "etc" / "hosts")
        return ("unshare", "--uts", "--mount", "sh", "-c", AS_HOST, "sh", hosts, name)

    def submit(
        self,
        *options: str,
        user: str = "root",
        account: str | None = None,
        processors: int = 1,
        minutes: float = 5,
        seconds: float = 300,
        name: str = "trial",
    ) -> int:
        """Submit a job that sleeps for `seconds`; further `options` are sbatch's. Its job id.

        Without an account it has that of the user in the plan.
        """
        if account is None:
            owners = {each: name for name, one in self.plan.accounts.items() for each in one.users}
            account = owners.get(user)
        done = self.run(
            "sbatch",
            "--parsable",
            f"--uid={user}",
            *([f"--account={account}"] if account else []),
            f"--ntasks={processors}",
            f"--time={minutes:g}",
            f"--job-name={name}",
            "--chdir=/",
            "--output=/dev/null",
            *options,
            f"--wrap=sleep {seconds:g}",
        )
        return int(done.stdout.partition(";")[0])

    def scontrol(self, *words: str) -> str:
        """Runs scontrol; returns what it prints."""
        return self.run("scontrol", *words).stdout

    def set_partition(self, state: str, *names: str) -> None:
        """Sets the state of partitions, of `batch` if none is named."""
        for name in names or ("batch",):
            self.scontrol("update", f"partition={name}", f"state={state}")

    def add_qos(self, name: str, *settings: str, users: str = "alice,bob") -> None:
        """Adds a QOS that these users may name."""
        self.run("sacctmgr", "-i", "add", "qos", name, *settings)
        where = ("where", f"name={users}")
        self.run("sacctmgr", "-i", "modify", "user", *where, "set", f"qos+={name}")

    def make_operator(self, user: str) -> None:
        """Gives a user the right to write factors."""
        self.run("sacctmgr", "-i", "modify", "user", user, "set", "AdminLevel=Operator")

    def cancel(self, *users: str) -> None:
        """Cancels all jobs of these users."""
        for user in users:
            self.run("scancel", "-u", user)

    def state_of(self, job: int) -> str:
        """State of a job in the queue; "" if it is not there."""
        return self.run("squeue", "-h", "-j", str(job), "-o", "%T", check=False).stdout.strip()

    def wait_state(self, job: int, state: str, seconds: float = 20.0) -> None:
        """Waits until a job, or a task of the array, has this state."""

        def reached() -> bool:
            words = ("squeue", "-h", "-t", "all", "-j", f"{job},{job}", "-o", "%T")
            return state in self.run(*words).stdout.split()

        self.wait_until(reached, seconds, f"job {job} {state}")

    def wait_eligible(self, jobs: Collection[int]) -> None:
        """Waits until sprio lists the jobs; a new job is eligible from the next second on."""
        self.wait_until(lambda: set(jobs) <= self.site_factors().keys(), 10.0, "jobs in sprio")

    def wait_empty(self, seconds: float = 30.0) -> None:
        """Waits until no job is pending or runs."""
        self.wait_until(
            lambda: not self.run("squeue", "-h", "-a").stdout, seconds, "an empty queue"
        )

    def site_factors(self) -> dict[int, int]:
        """Job id -> our factor (SITE of sprio), of every pending job that sprio lists."""
        lines = self.run("sprio", "-h", "-o", "%i %S").stdout.splitlines()
        return {int(job): int(float(factor)) for job, factor in map(str.split, lines)}

    def by_priority(self) -> list[int]:
        """Pending jobs that can start: by priority, then by number; an array is one job."""
        lines = self.run("squeue", "-h", "-t", "PD,RD", "-o", "%F %Q %r").stdout.splitlines()
        rows = (line.split(maxsplit=2) for line in lines)
        blocked = ("Dependency", "JobHeldUser", "JobHeldAdmin")
        able = {(-int(total), int(job)) for job, total, reason in rows if reason not in blocked}
        return [job for _, job in sorted(able)]

    def run_order(self, jobs: Collection[int]) -> list[int]:
        """The jobs that have ended, in that order; a heterogeneous one once for each component.

        Meant for jobs that cannot run at the same time. slurmctld's log of ends is read, since
        26.05 does not log a start by backfill; a component's line begins with the leader's number.
        """
        log = (self.directory / "log" / "slurmctld.log").read_text()
        found = re.findall(r"_job_complete: JobId=(\d+)\S* done$", log, re.MULTILINE)
        return [job for job in map(int, found) if job in jobs]

    def qos_limit(self, name: str = "batch") -> str:
        """GrpTRES of a QOS in the accounting database."""
        words = ("show", "qos", "where", f"name={name}", "format=GrpTRES")
        return self.run("sacctmgr", "-nP", *words).stdout.strip()

    def slurm_rl(
        self,
        *words: str,
        folder: Path | None = None,
        user: str | None = None,
        timeout: float = 60.0,
    ) -> subprocess.CompletedProcess[str]:
        """Runs `slurm-rl`, whatever its exit code, with the configuration in `folder`."""
        configured = () if folder is None else ("--config", str(folder / "slurm-rl.toml"))
        # as the service's user is entered: only root may look into some interpreters' folders
        as_user = ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups")
        command = (sys.executable, "-m", "slurm_rl_plugin.cli.entry", *words, *configured)
        return self.run(
            *(as_user if user else ()),
            *command,
            env={"PYTHONPATH": str(Path(__file__).parents[2])},
            timeout=timeout,
            check=False,
        )

    def kill(self, daemon: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to munged, mariadbd, slurmdbd, slurmctld or slurmd-n1, -n2, ...

        SIGSTOP makes a daemon hang and SIGCONT lets it go on; SIGKILL waits for the end.
        """
        self._daemons[daemon].send(number)

    def restart(self, daemon: str, *options: str) -> None:
        """Stop a daemon cleanly if it runs, start it again and wait until it answers.

        Further `options` are for this start only, such as -c of slurmctld.
        """
        process = self._daemons[daemon]
        process.terminate(STEP_SECONDS)
        with process.also(options):
            process.start()

    def pid(self, daemon: str) -> int:
        """Process id of a daemon."""
        process = self._daemons[daemon].process
        assert process is not None
        return process.pid

    def wait_until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Poll until `condition` holds.

        Raises:
            ClusterError: it does not after `seconds`; shows the end of slurmctld's log.
        """
        wait_until(condition, seconds, what, self._daemons["slurmctld"].log_tail)

    def _write_files(self) -> None:
        for name in ("etc", "run", "log", "munge", "mysql", "spool", "state"):
            self.directory.joinpath(name).mkdir(parents=True, exist_ok=True)
        port = self._ports.take()
        if self._host_of_storage is None:
            write_slurmdbd_conf(self.directory, port)
        write_slurm_conf(self.directory, self.plan, port, self.number)
        key = self.directory / "munge" / "munge.key"
        if not key.exists():
            key.write_bytes(os.urandom(1024))
            key.chmod(0o400)

    def _open_root(self) -> None:
        """Make another release's programs those of this cluster."""
        root = self._root
        if isinstance(root, OwnRoot):
            return
        for account in self.plan.accounts.values():
            for user in account.users:  # before: a user added later is not seen inside
                add_system_user(user)
        self._start("root", root.hold_command(), lambda: root.is_held(self.pid("root")))
        root.write_programs(self.pid("root"))

    def _start_storage(self) -> None:
        munge = self.directory / "munge"
        socket_path = munge / "munge.sock"
        self._start(
            "munged",
            (
                *("munged", "--foreground", "--force", "--num-threads=4"),
                *(f"--socket={socket_path}", f"--key-file={munge}/munge.key"),
                *(f"--seed-file={munge}/munged.seed", f"--pid-file={munge}/munged.pid"),
            ),
            lambda: self._answers("munge", "-n", "-S", str(socket_path)),
        )
        self._install_database()
        mysql = self.directory / "mysql"
        self._start(
            "mariadbd",
            (
                *("mariadbd", "--no-defaults", "--user=root", f"--datadir={mysql}/data"),
                *(f"--socket={mysql}/my.sock", f"--pid-file={mysql}/my.pid"),
                *("--skip-networking", "--innodb-lock-wait-timeout=900", f"--tmpdir={mysql}"),
                "--innodb-flush-log-at-trx-commit=2",
                *(self.release.mariadbd_options if self.release else ()),
            ),
            lambda: self._answers(
                "mariadb-admin", "--no-defaults", "-S", f"{mysql}/my.sock", "ping"
            ),
        )
        self._start(
            "slurmdbd",
            ("slurmdbd", "-D"),
            self._slurmdbd_listens,
            {"MYSQL_UNIX_PORT": f"{mysql}/my.sock"},
        )

    def _install_database(self) -> None:
        data = self.directory / "mysql" / "data"
        if not data.joinpath("mysql").is_dir():
            self.run(
                *("mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}"),
                f"--tmpdir={data.parent}",  # any MariaDB that starts clears the shared /tmp
                *("--auth-root-authentication-method=socket", "--skip-test-db"),
                timeout=60.0,
            )

    def _slurmdbd_listens(self) -> bool:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self._ports.first), 1.0),
        ):
            return True
        return False

    def _add_accounts(self) -> None:
        if "AccountingStorageType" in self.plan.options:
            return  # slurmctld knows no slurmdbd
        cluster = self.plan.options.get("ClusterName") or "trial"
        self._sacctmgr("cluster", cluster)
        for name, account in self.plan.accounts.items():
            above = f"parent={account.parent}"
            self._sacctmgr("account", name, above, f"fairshare={account.share}")
            for user in account.users:
                add_system_user(user)
            if account.users:
                self._sacctmgr("user", ",".join(account.users), f"account={name}", "fairshare=1")

    def _sacctmgr(self, *words: str) -> None:
        done = self.run("sacctmgr", "-i", "add", *words, check=False)
        answer = done.stdout + done.stderr
        if done.returncode and not any(text in answer for text in ALREADY_THERE):
            raise ClusterError(f"sacctmgr add {' '.join(words)}: {answer}")

    def _start_slurm(self) -> None:
        controller = ("slurmctld", "-D", *(self.release.slurmctld_options if self.release else ()))
        if not self.plan.controllers:
            self._start("slurmctld", controller, lambda: self._controller_is_up(""))
        for number, name in enumerate(self.plan.controllers):
            self._start(
                f"slurmctld-{name}" if number else "slurmctld",
                (*self.on_host(name), *controller),
                lambda name=name: self._controller_is_up(name),  # type: ignore[misc]
                {"SLURM_CONF": write_controller_conf(self.directory, name)},
            )
        for name in self.plan.node_names:
            self.directory.joinpath("spool", name).mkdir(exist_ok=True)
            # All start at once; one wait below covers them.
            self._start(f"slurmd-{name}", ("slurmd", "-D", "-N", name), lambda: True)
        wait_until(
            self._nodes_ready,
            STEP_SECONDS,
            f"nodes {' '.join(self.plan.node_names)} idle",
            lambda: "\n".join(daemon.log_tail() for daemon in self._daemons.values()),
        )

    def _controller_is_up(self, host: str) -> bool:
        lines = self._output("scontrol", "ping").splitlines()
        return any("is UP" in line and f" {host}" in line for line in lines)

    def _nodes_ready(self) -> bool:
        for name in self.plan.node_names:
            self._daemons[f"slurmd-{name}"].is_ready()
        states = self._output("sinfo", "-h", "-N", "-o", "%N %t").splitlines()
        ready = {line.split()[0] for line in states if line.split()[1] in ("idle", "mix", "alloc")}
        return len(ready) == len(self.plan.node_names)

    def _start(
        self,
        name: str,
        command: tuple[str, ...],
        ready: Callable[[], bool],
        extra: Mapping[str, str] | None = None,
    ) -> None:
        program = shutil.which(command[0], path=self._root.path) or command[0]
        self._daemons[name] = Daemon(
            name=name,
            command=(program, *command[1:]),
            environment={**self.env, **(extra or {})},
            log_folder=self.directory / "log",
            ready=ready,
            deadline=STEP_SECONDS,
        )
        self._daemons[name].start()

    def _answers(self, *command: str) -> bool:
        return self.run(*command, check=False).returncode == 0

    def _output(self, *command: str) -> str:
        return self.run(*command, check=False).stdout
