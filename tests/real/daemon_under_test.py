"""`slurm-rl run` as a process of its own on a private cluster."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.real.openpbs_server import InstalledPbs
from tests.real.private_cluster import PrivateSlurm


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningService:
    """A process of `slurm-rl` with its configuration and its log in a folder."""

    process: subprocess.Popen[bytes]
    folder: Path
    port: int = 0

    @property
    def log(self) -> str:
        return (self.folder / "daemon.log").read_text()

    def wait_for(self, pattern: str, seconds: float) -> re.Match[str]:
        """Wait until the log holds a pattern; the first place."""
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.log)):
            assert time.monotonic() < end, f"no {pattern!r} in {seconds} s:\n{self.log}"
            assert self.process.poll() is None, f"it ended:\n{self.log}"
            time.sleep(0.05)
        return found

    def stop(self, seconds: float = 60.0) -> int:
        """Stop it as systemd does; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=seconds)


@contextmanager
def started_service(
    verb: str,
    environment: Mapping[str, str],
    folder: Path,
    before: Sequence[str] = (),
    program: str = "slurm_rl_plugin.cli.entry",
) -> Iterator[RunningService]:
    """Starts a verb with the configuration in `folder`; kills it at the end if it still runs.

    Args:
        before: words before its command, such as those of `PrivateSlurm.on_host`.
        program: module to run, `slurm-rl` itself or one with another policy.
    """
    words = (*before, sys.executable, "-m", program, verb)
    with (folder / "daemon.log").open("wb") as log:
        process = subprocess.Popen(
            [*words, "--config", str(folder / "slurm-rl.toml")],
            env={
                "PYTHONPATH": str(Path(__file__).parents[2]),
                "PYTHONDONTWRITEBYTECODE": "1",
                **environment,
            },
            stderr=log,
            stdout=log,
            cwd="/",
        )
    try:
        yield RunningService(process=process, folder=folder)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(timeout=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningHook(RunningService):
    """The daemon."""

    @property
    def audit(self) -> list[dict[str, Any]]:
        """Every line of the audit log."""
        lines = (self.folder / "audit.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def metric(self, name: str) -> float | None:
        """The value of the first series that begins with `name`."""
        for line in self.metrics().splitlines():
            if line.startswith(name):
                return float(line.rpartition(" ")[2])
        return None

    def metrics(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())


#: Shares of the accounts of most tests, and which of their jobs are interactive.
SITE = """
[shares]
physics = 0.7
biology = 0.3

[[job_class]]
class = "interactive"
time_limit_at_most = 60
"""


def write_configuration(
    folder: Path,
    model: Path | str,
    *,
    mode: str,
    cycle: float,
    influence: float | None = 0.0,
    rails: str = "",
    more: str = "",
    site: str = SITE,
    state: Path | None = None,
) -> Path:
    """Writes a configuration with all files in `folder`, but `state` if it is given.

    Args:
        influence: by default the order counts in full; None leaves the key out.
        rails: lines of [guard_rails].
        more: lines of [hook] and of sections after it.
        site: shares and job classes.
    """
    influences = "" if influence is None else f"influence_hours = {influence:.9g}"
    path = folder / "slurm-rl.toml"
    path.write_text(f"""
[hook]
mode = "{mode}"
cycle = {cycle}
{influences}
disable_file = "{folder}/DISABLE"
state_file = "{state or folder / "state.json"}"
audit_file = "{folder}/audit.jsonl"
{more}

[policy]
model = "{model}"

[guard_rails]
{rails}

[metrics]
port = 0
{site}""")
    return path


@contextmanager
def started_hook(
    environment: Mapping[str, str], folder: Path, before: Sequence[str] = (), **more: str
) -> Iterator[RunningHook]:
    """Starts the daemon as `started_service` does; the block begins after its first cycle."""
    with started_service("run", environment, folder, before, **more) as begun:
        begun.wait_for("cycle=done", 60)
        found = begun.wait_for(r"metrics=http://127.0.0.1:(\d+)/metrics", 0.0)
        yield RunningHook(process=begun.process, folder=folder, port=int(found[1]))


@contextmanager
def running_hook(
    slurm: PrivateSlurm | InstalledPbs,
    folder: Path,
    model: Path | str,
    *,
    mode: str = "active",
    cycle: float = 2,
    before: Sequence[str] = (),
    program: str = "slurm_rl_plugin.cli.entry",
    stop_seconds: float = 60.0,
    **configured: Any,
) -> Iterator[RunningHook]:
    """Configures and starts the daemon; at the end it must stop with exit code 0 if it still runs.

    `configured` are further arguments of `write_configuration`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_configuration(folder, model, mode=mode, cycle=cycle, **configured)
    with started_hook(slurm.env, folder, before, program=program) as hook:
        yield hook
        if hook.process.poll() is None:
            assert hook.stop(stop_seconds) == 0, hook.log[-3000:]
