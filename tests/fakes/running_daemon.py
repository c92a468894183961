"""`slurm-rl run` as a process of its own, over the fake that the environment names."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ENTRY = (sys.executable, "-m", "slurm_rl_plugin.cli.entry")
TOP = Path(__file__).parents[2]


@contextmanager
def running_daemon(
    folder: Path, log: Path, environment: Mapping[str, str] | None = None, *flags: str
) -> Iterator[subprocess.Popen[bytes]]:
    """With `site.toml` of the folder; it is killed where it still runs at the end."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*ENTRY, "run", "--config", "site.toml", *flags],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(TOP)} if environment is None else environment,
            stderr=file,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait(timeout=10)


def stop(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, after which it must take all factors back and say so."""
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0


def until(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
