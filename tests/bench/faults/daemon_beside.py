"""The daemon beside a cluster through several lives: started, scraped, killed, stopped, watched."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.faults.fault import Scrape
from tests.bench.faults.set_clock import PRELOAD
from tests.real.daemon_under_test import RunningHook, running_hook
from tests.real.private_cluster import PrivateSlurm

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
