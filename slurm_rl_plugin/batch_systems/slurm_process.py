"""Run one Slurm command as a child that never outlives its time-out."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from slurm_rl_plugin.errors import BatchSystemError, BatchSystemUnavailable

#: Slurm's commands take filters and formats from variables of these names too.
FILTER_PREFIXES = (
    "SQUEUE_",
    "SPRIO_",
    "SSHARE_",
    "SINFO_",
    "SCONTROL_",
    "SACCT_",
    "SLURM_CLUSTERS",
)
#: Words of a command that could not reach slurmctld.
UNREACHABLE = (
    "Unable to contact slurm controller",
    "Socket timed out",
    "connect failure",
    "Connection refused",
    "Communication connection failure",
    "Communication shutdown failure",
    "Zero Bytes were transmitted",
    "Transport endpoint",
    "Protocol authentication error",
    "Unable to process configuration file",
    "Could not establish a configuration source",
)
WHAT_TO_DO = "check slurmctld with `scontrol ping`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command said; `status` is its exit status."""

    status: int
    output: str
    errors: str


class CommandRunner:
    """Runs Slurm's commands with a clean environment and a time-out.

    Args:
        environment: variables of the children; None takes this process's own.
        timeout: seconds that a call may take.
        on_call: told the command's name and the seconds it took, after every call.
    """

    def __init__(
        self,
        *,
        environment: Mapping[str, str] | None,
        timeout: float,
        on_call: Callable[[str, float], None] | None,
    ) -> None:
        self._environment = {**clean_environment(environment), "SLURM_TIME_FORMAT": "%s"}
        self._timeout = timeout
        self._on_call = on_call

    def read(self, arguments: Sequence[str]) -> str:
        """Output of a command that must succeed.

        Raises:
            BatchSystemUnavailable: no answer in time, or slurmctld cannot be reached.
            BatchSystemError: the command failed in another way.
        """
        answer = self.call(arguments)
        if answer.status:
            raise failure(arguments[0], answer.errors or answer.output)
        return answer.output

    def call(self, arguments: Sequence[str], *, stdin: str = "", extra: float = 0.0) -> Answer:
        """Run a command, `extra` seconds longer than usual where needed, whatever its status.

        Raises:
            BatchSystemUnavailable: no answer in time, or there is no such command.
        """
        began = time.monotonic()
        try:
            return self._run(arguments, stdin, self._timeout + extra)
        finally:
            if self._on_call is not None:
                self._on_call(arguments[0], time.monotonic() - began)

    def _run(self, arguments: Sequence[str], stdin: str, timeout: float) -> Answer:
        child = self._start(arguments)
        try:
            output, errors = child.communicate(stdin.encode(), timeout)
        except subprocess.TimeoutExpired as error:
            _end(child)
            raise BatchSystemUnavailable(
                f"{arguments[0]} gave no answer within {timeout:g} s; {WHAT_TO_DO}"
            ) from error
        except BaseException:
            _end(child)
            raise
        return Answer(
            status=child.returncode,
            output=output.decode(errors="replace"),
            errors=errors.decode(errors="replace"),
        )

    def _start(self, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment,
                start_new_session=True,  # so that its whole group can be killed
            )
        except OSError as error:
            raise BatchSystemUnavailable(
                f"{arguments[0]} cannot be run ({error.strerror}); "
                "install Slurm's client commands or put them on the PATH"
            ) from error


def clean_environment(environment: Mapping[str, str] | None) -> dict[str, str]:
    """Variables for a child that talks to Slurm, without filters; None takes this process's own."""
    base = os.environ if environment is None else environment
    return {key: value for key, value in base.items() if not key.startswith(FILTER_PREFIXES)}


def failure(command: str, words: str) -> BatchSystemError:
    """Make the error for a command that failed with these words."""
    first = next((line.strip() for line in words.splitlines() if line.strip()), "(no message)")
    if any(phrase in words for phrase in UNREACHABLE):
        return BatchSystemUnavailable(f"{command} cannot reach Slurm: {first}; {WHAT_TO_DO}")
    return BatchSystemError(f"{command} failed: {first}; run it by hand to see more")


def not_understood(command: str, line: str) -> BatchSystemError:
    """Make the error for an answer of another form than this adapter knows."""
    return BatchSystemError(
        f"{command} answered a line that is not understood: {line[:200]!r}; "
        "run it by hand, and report it if this release of Slurm prints another form"
    )


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill a child with all that it started, and leave no zombie."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.communicate(timeout=1.0)
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
