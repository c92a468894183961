"""A running site on which a fault is tried: a real cluster, its jobs, and the daemon."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.faults.jobs_under_fault import JobsUnderFault
from tests.real.daemon_under_test import RunningHook, started_hook, write_configuration
from tests.real.private_cluster import PrivateSlurm
from tests.real.restless_hook import CLOCK, SLEEP

#: Metrics as scraped: series -> value; None if the daemon does not answer.
Scrape = dict[str, float] | None
#: The daemon with a policy that wants another order in each cycle, so that it always writes.
RESTLESS = "tests.real.restless_hook"
#: The daemon as it is shipped.
SHIPPED = "slurm_rl_plugin.cli.entry"


@dataclass(frozen=True, slots=True)
class Sign:
    """The metric that shows a fault."""

    series: str  #: name and labels as served; "" if the scrape itself must fail
    value: float | None = None  #: value that it must take; None if it must rise
    labels: str = ""  #: text that one of its label sets must hold
    stays: bool = False  #: it must have the value before the fault too

    def shows(self, before: Scrape, now: Scrape) -> bool:
        """Whether it shows, by a scrape before the fault and one now."""
        if not self.series:
            return now is None
        if now is None:
            return False
        if self.labels:
            return any(self.series in each and self.labels in each for each in now)
        if self.series not in now:
            return False
        if self.value is not None:
            had = (before or {}).get(self.series) == self.value
            return now[self.series] == self.value and had == self.stays
        return now[self.series] > (before or {}).get(self.series, 0.0)

    @property
    def words(self) -> str:
        """Text of the table."""
        if not self.series:
            return "no answer to the scrape"
        if self.labels:
            return f"`{self.series}` has another `{self.labels.partition('=')[0]}`"
        if self.value is None:
            return f"`{self.series}` rises"
        return f"`{self.series}` {'stays' if self.stays else 'is'} {self.value:g}"


UNREACHABLE = Sign('slurm_rl_cycle_failures_total{reason="batch_system"}')
UNWRITABLE = Sign('slurm_rl_cycle_failures_total{reason="write"}')
FALLS_BACK = Sign("slurm_rl_fallback_active", 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault."""

    name: str  #: as in the table; with dashes it is the name of its folder
    begin: Callable[[Scene], object]  #: causes it on the running site
    end: Callable[[Scene], object] = lambda scene: None  #: ends its cause
    sign: Sign  #: metric that must show it
    log: str  #: text that a line of the daemon's log must hold
    #: Is open while the daemon runs, such as a small disk for its files.
    place: Callable[[Scene], AbstractContextManager[None]] = lambda scene: nullcontext()
    program: str = RESTLESS  #: module of the daemon
    model: str = "sjf"  #: of the daemon; FOLDER is the daemon's folder
    #: It kills slurmctld, which forgets unsaved jobs: wait until they are saved.
    after_save: bool = False
    forgets_jobs: bool = False  #: Slurm drops its jobs; only later ones count
    reruns_jobs: bool = False  #: Slurm may run a job again
    counts_end: bool = False  #: the recovery counts from the start of `end`, which waits for it
    clock: bool = False  #: the clock of the whole site can be set
    patience: float = 60.0  #: seconds until the signs must show
    #: Seconds that the recovery may take beyond one cycle, such as a call's time-out.
    slack: float = 0.0

    @property
    def folder(self) -> str:
        """The name of its folder."""
        return "".join(each if each.isalnum() else "-" for each in self.name)


COMMANDS = ("scontrol", "squeue", "sprio", "sshare", "sinfo", "sdiag", "sacct")
#: Runs the tampered program if there is one.
_WRAPPER = """#!/bin/sh
[ -x {tampered} ] && exec {tampered} "$@"
exec {real} "$@"
"""
#: Passes the changes on standard input on, and runs commands before, amid or after the writes.
_AT_A_WRITE = """#!/bin/sh
[ $# -gt 0 ] && exec {real} "$@"
cat >{lines}.$$
if mkdir {once} 2>/dev/null; then
    all=$(wc -l <{lines}.$$) first=$(({numerator} * all / 2))
    [ $first -eq 0 ] || head -n $first {lines}.$$ | {real}
    {happens}
    [ $first -eq $all ] || tail -n +$((first + 1)) {lines}.$$ | {real}
else
    {real} <{lines}.$$
fi
status=$?
rm -f {lines}.$$
exit $status
"""
#: Halves of the changes that are written first.
BEFORE, AMID, AFTER = 0, 1, 2


@dataclass(frozen=True, slots=True)
class TamperedCommands:
    """Wrappers of COMMANDS in `folder`/bin, the first folder of the daemon's PATH."""

    folder: Path

    def make(self, path: str) -> str:
        """Writes wrappers of the commands on `path`; returns a PATH that starts with them."""
        for name in ("bin", "tampered"):
            (self.folder / name).mkdir(parents=True)
        for command in COMMANDS:
            real = shutil.which(command, path=path)
            assert real is not None, command
            tampered = self.folder / "tampered" / command
            self._script("bin", command, _WRAPPER.format(tampered=tampered, real=real))
            (self.folder / "bin" / f"real-{command}").symlink_to(real)
        return f"{self.folder}/bin:{path}"

    def replace(self, command: str, script: str) -> None:
        """Runs a shell script instead of a command that the daemon calls."""
        self._script("tampered", command, f"#!/bin/sh\n{script}\n")

    def at_the_next_write(self, when: int, *happens: str) -> None:
        """Runs shell commands once BEFORE, AMID or AFTER the next write of changes."""
        once = self.folder / "once"
        if once.exists():
            once.rmdir()
        script = _AT_A_WRITE.format(
            real=self.real("scontrol"),
            lines=self.folder / "lines",
            once=once,
            numerator=when,
            happens="\n    ".join(happens),
        )
        self._script("tampered", "scontrol", script)

    @property
    def written(self) -> bool:
        """Whether the commands for the next write have started."""
        return (self.folder / "once").exists()

    def real(self, command: str) -> Path:
        """The real command."""
        return self.folder / "bin" / f"real-{command}"

    def mend(self) -> None:
        """Restores all commands."""
        for command in COMMANDS:
            (self.folder / "tampered" / command).unlink(missing_ok=True)

    def _script(self, folder: str, name: str, text: str) -> None:
        beside = self.folder / f".{name}"
        beside.write_text(text)
        beside.chmod(0o755)
        beside.replace(self.folder / folder / name)


#: Longest time between two cycles, and time-out of a call of Slurm, seconds.
CYCLE, TIMEOUT = 3.0, 2.0
#: Seconds after which a job goes first, under every policy.
STARVATION = 25.0
_RAILS = f"starvation_hours = {STARVATION / 3600!r}\n"
#: A call without an answer must not delay the next cycle.
_PACE = "busy_share = 0.9\n"
_SLURM = f"[batch_system]\ntimeout = {TIMEOUT}\n"


#: Seconds by which the clock jumps; every job's limit is longer.
JUMP = 1800.0
PRELOAD = "LD_PRELOAD"
LIBRARY = "faketime/libfaketimeMT.so.1"


def clock_library() -> Path | None:
    """Path of libfaketime; None if it is not installed."""
    folders = [Path("/usr/lib64"), *Path("/usr/lib").glob("*-linux-gnu")]
    found = [each / LIBRARY for each in folders if (each / LIBRARY).exists()]
    return found[0] if found else None


@contextmanager
def settable_clock(folder: Path) -> Iterator[None]:
    """Programs that start during the block use a clock in `folder`, which is right at first.

    It is the wall clock only: durations stay right, as when an administrator sets the time.
    """
    library = clock_library()
    assert library is not None, "libfaketime is missing"
    set_clock(folder, 0.0)
    variables = {
        PRELOAD: str(library),
        CLOCK: str(folder / "clock"),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name)


def set_clock(folder: Path, seconds: float) -> None:
    """Sets the clock ahead by these seconds, or back if they are negative."""
    new = folder / "clock.new"
    new.write_text(f"{seconds:+.0f}\n")
    new.replace(folder / "clock")


@dataclass(slots=True, kw_only=True)
class DaemonBeside:
    """The daemon, its supervisor and its watchdog."""

    cluster: PrivateSlurm  #: the cluster that it orders
    folder: Path  #: its configuration, log, and links to its other files
    path: str  #: PATH on which it finds Slurm's commands
    program: str  #: module that runs
    model: str  #: of its configuration
    stack: ExitStack  #: ends it at last
    _hook: RunningHook | None = None
    _earlier: list[Path] = field(default_factory=list)

    @property
    def files(self) -> Path:
        """Folder of its state file and its audit log."""
        return self.folder / "files"

    def start(self) -> None:
        """Starts it and waits for its first cycle."""
        log = self.folder / "daemon.log"
        if log.exists():
            self._earlier.append(log.rename(self.folder / f"daemon-{len(self._earlier)}.log"))
        audit = self.folder / "audit.jsonl"
        if not audit.is_symlink():
            audit.symlink_to(self.files / "audit.jsonl")
        more = _PACE + _SLURM
        state = self.files / "state.json"
        write_configuration(
            self.folder,
            self.model,
            mode="active",
            cycle=CYCLE,
            rails=_RAILS,
            more=more,
            state=state,
        )
        deadline = "SLURM_RL_POLICY_INFERENCE_DEADLINE=1.5"
        before = ("env", "-u", PRELOAD, f"PATH={self.path}", deadline)
        self._hook = self.stack.enter_context(
            started_hook(self.cluster.env, self.folder, before, program=self.program)
        )

    @property
    def hook(self) -> RunningHook:
        assert self._hook is not None
        return self._hook

    @property
    def runs(self) -> bool:
        return self.hook.process.poll() is None

    @property
    def other_log(self) -> Path:
        """Output of another daemon that could not start."""
        return self.folder / "other.log"

    @property
    def log(self) -> str:
        """Logs of all its starts, and of the other daemon."""
        paths = [*self._earlier, self.folder / "daemon.log"]
        paths += [self.other_log] if self.other_log.exists() else []
        return "".join(path.read_text(errors="replace") for path in paths)

    def good_cycles(self) -> int:
        """Number of successful cycles without a fallback."""
        return sum(
            "cycle=done mode=active" in line and "failure=none fallback=no" in line
            for line in self.log.splitlines()
        )

    def wait_for_good_cycle(self, seconds: float, since: int | None = None) -> None:
        """Waits for one more successful cycle than now, or than `since`."""
        begin = time.monotonic()
        before = self.good_cycles() if since is None else since
        while self.good_cycles() <= before:
            assert time.monotonic() - begin < seconds, f"no good cycle:\n{self.log[-3000:]}"
            assert self.runs, f"the daemon ended:\n{self.log[-3000:]}"
            time.sleep(0.02)

    def scrape(self) -> Scrape:
        """Every series that it serves now; None if it does not answer."""
        try:
            text = self.hook.metrics()
        except OSError:
            return None
        lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
        return {series: float(value) for series, _, value in lines}

    def kill(self) -> None:
        """Kills it."""
        self.hook.process.send_signal(signal.SIGKILL)
        self.hook.process.wait(timeout=10)

    def end(self) -> None:
        """Kills it if it still runs."""
        if self._hook is not None and self.runs:
            self.kill()

    def watchdog(self) -> subprocess.CompletedProcess[str]:
        """Runs what the timer of systemd runs."""
        return self.cluster.run(
            *(sys.executable, "-m", SHIPPED, "release", "--unattended"),
            *("--config", f"{self.folder}/slurm-rl.toml"),
            env={"PATH": self.path, PRELOAD: ""},
            check=False,
            timeout=60,
        )


@dataclass(frozen=True, slots=True)
class Scene:
    """The site."""

    cluster: PrivateSlurm  #: a real Slurm
    jobs: JobsUnderFault  #: sleep jobs on it
    daemon: DaemonBeside  #: the daemon under test
    commands: TamperedCommands  #: commands of Slurm that the daemon calls
    rng: random.Random  #: random numbers of the fault
    stack: ExitStack  #: removes at last what a fault put there
    others: list[DaemonBeside] = field(default_factory=list)  #: further daemons


def set_up(fault: Fault, cluster: PrivateSlurm, folder: Path, seed: int, stack: ExitStack) -> Scene:
    """Makes the site of a fault; its daemon does not run yet."""
    commands = TamperedCommands(folder / "commands")
    daemon = DaemonBeside(
        cluster=cluster,
        folder=folder,
        path=commands.make(cluster.env["PATH"]),
        program=fault.program,
        model=fault.model.replace("FOLDER", str(folder)),
        stack=stack,
    )
    daemon.files.mkdir()
    os.environ[SLEEP] = str(folder / "sleep")
    rng = random.Random(f"{fault.name} {seed}")
    jobs = JobsUnderFault(cluster, random.Random(seed))
    return Scene(cluster, jobs, daemon, commands, rng, stack)
