"""Run one command of a batch system as a child that never outlives its time-out."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from slurm_rl_plugin.errors import BatchSystemError, BatchSystemUnavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command said; `status` is its exit status."""

    status: int
    output: str
    errors: str


class KillableCommands:
    """Runs commands with a time-out, each in a group of processes that is killed as a whole.

    Args:
        environment: variables of the children.
        timeout: seconds that a call may take.
        on_call: told the command's name and the seconds it took, after every call.
        failure: makes the error for a command that failed with these words.
        without_answer: what an operator does where no answer comes in time.
        without_command: what an operator does where there is no such command.
    """

    def __init__(
        self,
        *,
        environment: Mapping[str, str],
        timeout: float,
        on_call: Callable[[str, float], None] | None,
        failure: Callable[[str, str], BatchSystemError],
        without_answer: str,
        without_command: str,
    ) -> None:
        self.environment = dict(environment)
        self.timeout = timeout
        self._on_call = on_call
        self._failure = failure
        self._without_answer = without_answer
        self._without_command = without_command

    def read(self, arguments: Sequence[str], variables: Mapping[str, str] | None = None) -> str:
        """Output of a command that must succeed.

        Args:
            arguments: of the command, itself included.
            variables: of this child alone; see `call`.

        Raises:
            BatchSystemUnavailable: no answer in time, or the batch system cannot be reached.
            BatchSystemError: the command failed in another way.
        """
        answer = self.call(arguments, variables=variables)
        if answer.status:
            raise self._failure(arguments[0], answer.errors or answer.output)
        return answer.output

    def call(
        self,
        arguments: Sequence[str],
        *,
        stdin: str = "",
        extra: float = 0.0,
        name: str | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Answer:
        """Run a command, `extra` seconds longer than usual where needed, whatever its status.

        Args:
            arguments: of the command, itself included.
            stdin: what it reads.
            extra: seconds on top of the time-out.
            name: what it is called in messages and metrics; by default as it is.
            variables: of this child alone, on top of `environment`. Only its own user and root see
                them, where every user of the host sees arguments.

        Raises:
            BatchSystemUnavailable: no answer in time, or there is no such command.
        """
        called = name or arguments[0]
        with self.timed(called):
            child = self._start(arguments, called, variables or {})
            return self._wait(child, stdin, self.timeout + extra, called)

    @contextlib.contextmanager
    def timed(self, call: str) -> Iterator[None]:
        """Tell `on_call` how long the block took, however it ends."""
        began = time.monotonic()
        try:
            yield
        finally:
            if self._on_call is not None:
                self._on_call(call, time.monotonic() - began)

    def _wait(
        self, child: subprocess.Popen[bytes], stdin: str, timeout: float, name: str
    ) -> Answer:
        try:
            output, errors = child.communicate(stdin.encode(), timeout)
        except subprocess.TimeoutExpired as error:
            _end(child)
            raise BatchSystemUnavailable(
                f"{name} gave no answer within {timeout:g} s; {self._without_answer}"
            ) from error
        except BaseException:
            _end(child)
            raise
        return Answer(
            status=child.returncode,
            output=output.decode(errors="replace"),
            errors=errors.decode(errors="replace"),
        )

    def _start(
        self, arguments: Sequence[str], name: str, variables: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**self.environment, **variables},
                start_new_session=True,  # so that its whole group can be killed
            )
        except OSError as error:
            raise BatchSystemUnavailable(
                f"{name} cannot be run ({error.strerror}); {self._without_command}"
            ) from error


def answers(commands: KillableCommands, words: Sequence[str]) -> bool:
    """Whether a command succeeds in time."""
    try:
        return commands.call(words).status == 0
    except BatchSystemUnavailable:
        return False


def first_line(words: str, otherwise: str = "(no message)") -> str:
    """The first line with anything on it."""
    return next((line.strip() for line in words.splitlines() if line.strip()), otherwise)


def last_line(words: str, otherwise: str = "(no message)") -> str:
    """The last line with anything on it."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return lines[-1] if lines else otherwise


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


@contextmanager
def collector_paused() -> Iterator[None]:
    """No pass of the collector within; it goes on as before afterwards.

    A pass is due after so many new objects, and visits every row that is kept. None of them is part
    of a cycle: with 100,000 jobs a third of the time of a look went into such passes.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
