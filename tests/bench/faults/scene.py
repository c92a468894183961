"""A running site on which a fault is tried: a real cluster, its jobs, our daemon."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.faults.drowsy_hook import SLEEP
from tests.bench.faults.jobs_under_fault import JobsUnderFault
from tests.bench.faults.set_clock import PRELOAD
from tests.real.daemon_under_test import RunningHook, running_hook
from tests.real.private_cluster import PrivateSlurm

if TYPE_CHECKING:
    from tests.bench.faults.scene import Scene

#: Metrics as scraped: series -> value; None where nobody answers the scrape.
Scrape = dict[str, float] | None
#: The program of a daemon whose policy wants another order in each cycle, so that it always writes.
RESTLESS = "tests.real.restless_hook"
#: The daemon as it is shipped.
SHIPPED = "slurm_rl_plugin.cli.entry"


@dataclass(frozen=True, slots=True)
class Sign:
    """What of our metrics shows a fault.

    Attributes:
        series: its name and labels as served; "" where the scrape itself must fail.
        value: that it must take; None where it must rise.
        labels: text that one of its label sets must hold.
        stays: it has the value before as well, and keeps it: the fault changes nothing.
    """

    series: str
    value: float | None = None
    labels: str = ""
    stays: bool = False

    def shows(self, before: Scrape, now: Scrape) -> bool:
        """Whether it does, by a scrape before the fault and one now."""
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
        """For the table."""
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


def _nothing(scene: Scene) -> None:
    del scene


def _no_place(scene: Scene) -> AbstractContextManager[None]:
    del scene
    return nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault.

    Attributes:
        name: short, as in the table; also the name of its folder with dashes.
        begin: does it to the running site.
        end: takes its cause away.
        sign: the metric that must show it.
        log: text that a line of the daemon's log must hold.
        place: what must be there before the daemon starts, such as a small disk for its files.
        program: of the daemon.
        model: of the daemon; a rule, or a file that the place makes.
        more: lines of its configuration.
        after_save: it kills slurmctld, which forgets what it has not saved yet: wait until it has.
        forgets_jobs: Slurm itself drops its jobs; those that come later count.
        reruns_jobs: Slurm itself may run a job again.
        counts_end: the recovery counts from the beginning of `end`, which waits for it itself.
        clock: the clock of the whole site can be set.
        patience: seconds after which the signs must have shown.
        slack: seconds that the recovery may take beyond one cycle, such as a call's time-out.
    """

    name: str
    begin: Callable[[Scene], None]
    end: Callable[[Scene], None] = _nothing
    sign: Sign
    log: str
    place: Callable[[Scene], AbstractContextManager[None]] = _no_place
    program: str = RESTLESS
    model: str = "sjf"
    more: str = ""
    after_save: bool = False
    forgets_jobs: bool = False
    reruns_jobs: bool = False
    counts_end: bool = False
    clock: bool = False
    patience: float = 60.0
    slack: float = 0.0

    @property
    def folder(self) -> str:
        """A name for files."""
        return "".join(each if each.isalnum() else "-" for each in self.name)


COMMANDS = ("scontrol", "squeue", "sprio", "sshare", "sinfo", "sdiag", "sacct")
#: Runs the tampered program where there is one; `$0` is the command's own name.
_WRAPPER = """#!/bin/sh
[ -x {tampered} ] && exec {tampered} "$@"
exec {real} "$@"
"""
#: Passes what comes on standard input, and lets something happen before, amid or after the writes.
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
#: Halves of a burst that are written first.
BEFORE, AMID, AFTER = 0, 1, 2


@dataclass(frozen=True, slots=True)
class TamperedCommands:
    """Wrappers in `folder`/bin, which comes first in the daemon's PATH; see `COMMANDS`."""

    folder: Path

    def make(self, path: str) -> str:
        """Write the wrappers; the PATH with them.

        Args:
            path: PATH on which the real ones are found.
        """
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
        """Let the daemon's calls of a command run a shell script instead."""
        self._script("tampered", command, f"#!/bin/sh\n{script}\n")

    def at_the_next_write(self, when: int, *happens: str) -> None:
        """Let shell commands run once BEFORE, AMID or AFTER the next burst of changes."""
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
        """Whether what was to happen at a write has begun to."""
        return (self.folder / "once").exists()

    def real(self, command: str) -> Path:
        """The untampered one."""
        return self.folder / "bin" / f"real-{command}"

    def mend(self, commands: Sequence[str] = COMMANDS) -> None:
        """Let them be what they are."""
        for command in commands:
            (self.folder / "tampered" / command).unlink(missing_ok=True)

    def _script(self, folder: str, name: str, text: str) -> None:
        beside = self.folder / f".{name}"
        beside.write_text(text)
        beside.chmod(0o755)
        beside.replace(self.folder / folder / name)


#: Seconds between two cycles at most, and that a call of Slurm may take.
CYCLE, TIMEOUT = 3.0, 2.0
#: Seconds after which a job goes first, whatever the policy says.
STARVATION = 25.0
_RAILS = f"starvation_hours = {STARVATION / 3600!r}\n"
#: So that a call without an answer does not make the next cycle wait for longer than usual.
_PACE = "busy_share = 0.9\n"
_SLURM = f"[batch_system]\ntimeout = {TIMEOUT}\n"


@dataclass(slots=True)
class DaemonBeside:
    """The daemon, its supervisor and its watchdog.

    Attributes:
        cluster: that it orders.
        folder: of its configuration, log, and with links of its other files.
        path: PATH on which it finds Slurm's commands.
        program: module that is run.
        model: of its configuration.
        more: further lines of its configuration.
        stack: ends it at last.
    """

    cluster: PrivateSlurm
    folder: Path
    path: str
    program: str
    model: str
    more: str
    stack: ExitStack
    _hook: RunningHook | None = None
    _earlier: list[Path] = field(default_factory=list)

    @property
    def files(self) -> Path:
        """Folder of its state file and its audit log, which a fault may take away."""
        return self.folder / "files"

    def start(self) -> None:
        """Start it and wait for its first cycle."""
        log = self.folder / "daemon.log"
        if log.exists():
            self._earlier.append(log.rename(self.folder / f"daemon-{len(self._earlier)}.log"))
        audit = self.folder / "audit.jsonl"
        if not audit.is_symlink():
            audit.symlink_to(self.files / "audit.jsonl")
        self._hook = self.stack.enter_context(
            running_hook(
                self.cluster,
                self.folder,
                self.model,
                cycle=CYCLE,
                rails=_RAILS,
                more=_PACE + _SLURM + self.more,
                state=self.files / "state.json",
                before=(
                    "env",
                    "-u",
                    PRELOAD,
                    f"PATH={self.path}",
                    "SLURM_RL_POLICY_INFERENCE_DEADLINE=1.5",
                ),
                program=self.program,
            )
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
        """What another daemon said that could not start."""
        return self.folder / "other.log"

    @property
    def log(self) -> str:
        """Of all its lives, and of another one."""
        paths = [*self._earlier, self.folder / "daemon.log"]
        paths += [self.other_log] if self.other_log.exists() else []
        return "".join(path.read_text(errors="replace") for path in paths)

    def good_cycles(self) -> int:
        """Cycles so far that did all they should, without a fallback."""
        return sum(
            "cycle=done mode=active" in line and "failure=none fallback=no" in line
            for line in self.log.splitlines()
        )

    def wait_for_good_cycle(self, seconds: float, since: int | None = None) -> None:
        """Wait for one more than there are now, or than there were."""
        begin = time.monotonic()
        before = self.good_cycles() if since is None else since
        while self.good_cycles() <= before:
            assert time.monotonic() - begin < seconds, f"no good cycle:\n{self.log[-3000:]}"
            assert self.runs, f"the daemon ended:\n{self.log[-3000:]}"
            time.sleep(0.02)

    def scrape(self) -> Scrape:
        """Every series that it serves now; None where it does not answer."""
        try:
            text = self.hook.metrics()
        except OSError:
            return None
        lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
        return {series: float(value) for series, _, value in lines}

    def kill(self) -> None:
        """Kill it outright."""
        self.hook.process.send_signal(signal.SIGKILL)
        self.hook.process.wait(timeout=10)

    def end(self) -> None:
        """End it if it still runs, whatever it leaves."""
        if self._hook is not None and self.runs:
            self.kill()

    def stop(self) -> int:
        """Stop it as systemd does; its exit code."""
        return self.hook.stop()

    def signal(self, number: signal.Signals) -> None:
        self.hook.process.send_signal(number)

    def watchdog(self) -> subprocess.CompletedProcess[str]:
        """What the timer of systemd runs."""
        return self.cluster.run(
            *(sys.executable, "-m", "slurm_rl_plugin.cli.entry", "release", "--unattended"),
            *("--config", f"{self.folder}/slurm-rl.toml"),
            env={"PATH": self.path, PRELOAD: ""},
            check=False,
            timeout=60,
        )


@dataclass(frozen=True, slots=True)
class Scene:
    """See the module.

    Attributes:
        cluster: with real sleep jobs.
        jobs: of it.
        daemon: of ours.
        commands: through which the daemon reaches Slurm.
        rng: of the fault.
        stack: takes away at last what a fault put there.
        others: further daemons of ours.
    """

    cluster: PrivateSlurm
    jobs: JobsUnderFault
    daemon: DaemonBeside
    commands: TamperedCommands
    rng: random.Random
    stack: ExitStack
    others: list[DaemonBeside] = field(default_factory=list)


def set_up(fault: Fault, cluster: PrivateSlurm, folder: Path, seed: int, stack: ExitStack) -> Scene:
    """A scene for a fault; its daemon is not started yet."""
    commands = TamperedCommands(folder / "commands")
    daemon = DaemonBeside(
        cluster=cluster,
        folder=folder,
        path=commands.make(cluster.env["PATH"]),
        program=fault.program,
        model=fault.model.replace("FOLDER", str(folder)),
        more=fault.more.replace("FOLDER", str(folder)),
        stack=stack,
    )
    daemon.files.mkdir()
    os.environ[SLEEP] = str(folder / "sleep")
    rng = random.Random(f"{fault.name} {seed}")
    jobs = JobsUnderFault(cluster, random.Random(seed))
    return Scene(cluster, jobs, daemon, commands, rng, stack)
