"""One daemon of a private cluster, kept in the foreground as a child so that none is orphaned."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LOG_LINES = 15
#: In which a killed process is gone, on a machine that others use as well.
KILLED_SECONDS = 60.0


class ClusterError(Exception):
    """The private cluster does not do what a test needs; the text shows the log."""


@dataclass(slots=True, kw_only=True)
class Daemon:
    """A daemon that can be started, signalled and started again.

    Attributes:
        name: also of its log.
        command: with the option that keeps it in the foreground.
        log_folder: of its output and its own log.
        ready: whether it answers.
        deadline: seconds until it must answer.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    log_folder: Path
    ready: Callable[[], bool]
    deadline: float
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def start(self) -> None:
        """Start it and wait until it answers.

        Raises:
            ClusterError: it ended at once, or does not answer within the deadline.
        """
        with self.log_folder.joinpath(f"{self.name}.out").open("ab") as output:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(self.environment),
                start_new_session=True,
                cwd="/",
            )
        wait_until(self.is_ready, self.deadline, f"{self.name} up", self.log_tail)

    @contextlib.contextmanager
    def also(self, options: Sequence[str]) -> Iterator[None]:
        """Let starts within the block have further options."""
        usual = self.command
        self.command = (*usual, *options)
        try:
            yield
        finally:
            self.command = usual

    def is_ready(self) -> bool:
        """Whether it answers.

        Raises:
            ClusterError: it has ended.
        """
        if self.process is not None and self.process.poll() is not None:
            code = self.process.returncode
            raise ClusterError(f"{self.name} ended with status {code}:\n{self.log_tail()}")
        return self.ready()

    def send(self, number: signal.Signals) -> None:
        """Send a signal; after SIGKILL wait for the end."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait(timeout=KILLED_SECONDS)

    def terminate(self, seconds: float) -> None:
        """Ask it to end, and kill it where it has not after `seconds`."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=seconds)
        self.send(signal.SIGKILL)

    def reap(self) -> None:
        """Take the status of the killed process, so that no zombie stays."""
        if self.process is not None:
            self.process.wait(timeout=KILLED_SECONDS)

    def log_tail(self) -> str:
        """The end of what it printed and logged."""
        path = self.log_folder / f"{self.name}.out"
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        return "\n".join([f"--- {self.name} says", *lines[-LOG_LINES:]])


def wait_until(
    condition: Callable[[], bool], seconds: float, what: str, log_tail: Callable[[], str]
) -> None:
    """Poll until `condition` holds.

    Raises:
        ClusterError: it does not after `seconds`.
    """
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise ClusterError(f"waited {seconds:g} s for: {what}\n{log_tail()}")
        time.sleep(0.03)
