"""Run one command of a batch system as a child with a bound on its time and on what it prints."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_rl_plugin.errors import BatchSystemError, BatchSystemUnavailable

#: Bytes that a command may print, errors included: `squeue` prints 200 for a job, so this is the
#: answer of a million jobs, and a host that has only 1 GB for `release` holds it.
LONGEST_ANSWER = 256 << 20
_READ_AT_ONCE = 1 << 20
_WRITABLE = selectors.EVENT_WRITE


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command said; `status` is its exit status."""

    status: int
    output: str
    errors: str


def start_python(words: Sequence[str], **more: Any) -> subprocess.Popen[bytes]:
    """Start a program of ours in this Python; the only way in which the package does so.

    Neither the current folder nor that of the program is searched for modules: another user may
    have laid some there. The child's folder is the root folder, so paths have to be absolute.
    """
    return subprocess.Popen([sys.executable, "-P", *words], cwd="/", **more)


class KillableCommands:
    """Runs commands with a time-out, each in a group of processes that is killed as a whole.

    Children have the variables of `environment`, None for this process's own. After every call
    `on_call` is told the command's name and its seconds.
    """

    #: What a subclass says of its batch system: its name, what an operator does where it does not
    #: answer, words of a command that could not reach it, and bytes that a call may print.
    title = "the batch system"
    what_to_do = "check it"
    unreachable: tuple[str, ...] = ()
    longest = LONGEST_ANSWER

    def __init__(
        self,
        *,
        timeout: float,
        environment: Mapping[str, str] | None = None,
        on_call: Callable[[str, float], None] | None = None,
    ) -> None:
        self.environment = self._prepared(os.environ if environment is None else environment)
        self.timeout = timeout
        self._on_call = on_call

    def _prepared(self, environment: Mapping[str, str]) -> dict[str, str]:
        return dict(environment)

    @classmethod
    def failure(cls, command: str, words: str) -> BatchSystemError:
        """Make the error for a command that failed with these words."""
        first = first_line(words)
        if cls.is_unreachable(words):
            return BatchSystemUnavailable(
                f"{command} cannot reach {cls.title}: {first}; {cls.what_to_do}"
            )
        return BatchSystemError(f"{command} failed: {first}; run it by hand to see more")

    @classmethod
    def child_ended(cls, library: str, words: str) -> BatchSystemError:
        """Make the error for a program of ours that a library ended with these words."""
        return cls.failure(library, words)

    @classmethod
    def is_unreachable(cls, words: str) -> bool:
        """Whether these are the words of a command that could not reach the batch system."""
        return any(phrase in words for phrase in cls.unreachable)

    def read(self, arguments: Sequence[str], variables: Mapping[str, str] | None = None) -> str:
        """Output of a command that must succeed."""
        answer = self.call(arguments, variables=variables)
        if answer.status:
            raise self.failure(arguments[0], answer.errors or answer.output)
        return answer.output

    def call(
        self,
        arguments: Sequence[str],
        *,
        stdin: str = "",
        extra: float = 0.0,
        name: str | None = None,
        variables: Mapping[str, str] | None = None,
        longest: int | None = None,
        start: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen,
    ) -> Answer:
        """Run a command, `extra` seconds longer than usual where needed, whatever its status.

        Messages and metrics call it `name`. Only the child's user and root see its `variables`, on
        top of `environment`; every user of the host sees arguments. If it prints more than
        `longest` bytes, it is killed: BatchSystemError. `start_python` starts a program of ours.
        """
        called, timeout = name or arguments[0], self.timeout + extra
        longest = self.longest if longest is None else longest
        with self.timed(called):
            try:
                child = start(
                    arguments,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env={**self.environment, **(variables or {})},
                    start_new_session=True,  # so that its whole group can be killed
                )
            except OSError as error:
                raise BatchSystemUnavailable(
                    f"{called} cannot be run ({error.strerror}); install {self.title}'s client "
                    "commands or put them on the PATH"
                ) from error
            try:
                output, errors = exchange(child, stdin.encode(), timeout, longest)
            except subprocess.TimeoutExpired as error:
                end(child)
                raise BatchSystemUnavailable(
                    f"{called} gave no answer within {timeout:g} s; {self.what_to_do}"
                ) from error
            except TooMuchPrinted:
                end(child)
                raise BatchSystemError(
                    f"{called} printed more than {longest >> 20} MiB and was killed; run it by "
                    "hand to see what it prints"
                ) from None
            except BaseException:
                end(child)
                raise
        return Answer(
            status=child.returncode,
            output=output.decode(errors="replace"),
            errors=errors.decode(errors="replace"),
        )

    def ask(
        self,
        program: Path,
        question: Mapping[str, Any],
        *,
        library: str,
        name: str,
        extra: float = 0.0,
    ) -> dict[str, Any]:
        """The answer of a program of ours, a child for this one question, both as JSON objects.

        A library that crashes, hangs or ends its process takes the child alone with it. An answer
        `{"failed": WORDS, "reached": BOOL}` becomes an error.
        """
        words = [str(program)]
        answer = self.call(
            words, stdin=json.dumps(question), extra=extra, name=name, start=start_python
        )
        if answer.status:
            said = last_line(answer.errors, f"exit status {answer.status}")
            raise self.child_ended(library, said)
        try:
            told: dict[str, Any] = json.loads(answer.output)
        except ValueError:
            raise self.failure(
                library, f"its answer is not understood: {answer.output[:200]!r}"
            ) from None
        if "failed" not in told:
            return told
        if told["reached"]:
            raise self.failure(library, told["failed"])
        raise BatchSystemUnavailable(f"{told['failed']}; {self.what_to_do}")

    @contextlib.contextmanager
    def timed(self, call: str) -> Iterator[None]:
        """Tell `on_call` how long the block took, however it ends."""
        began = time.monotonic()
        try:
            yield
        finally:
            if self._on_call is not None:
                self._on_call(call, time.monotonic() - began)


class TooMuchPrinted(Exception):
    """A child printed more than it may."""


def exchange(
    child: subprocess.Popen[bytes], stdin: bytes, timeout: float, longest: int
) -> tuple[bytearray, bytearray]:
    """Give a child its input and wait for its end; what it printed, output and errors.

    `Popen.communicate` would keep all that a child prints, however much that is. A child that ends
    without reading is no fault. One that has not ended (subprocess.TimeoutExpired), or printed more
    than `longest` bytes (TooMuchPrinted), still runs.
    """
    deadline = time.monotonic() + timeout
    left = memoryview(stdin)
    assert child.stdout is not None
    assert child.stderr is not None
    output, errors = bytearray(), bytearray()
    printed = {child.stdout.fileno(): output, child.stderr.fileno(): errors}
    open_pipes = {pipe.fileno(): pipe for pipe in (child.stdin, child.stdout, child.stderr) if pipe}
    with selectors.DefaultSelector() as pipes:
        for number in open_pipes:
            pipes.register(number, selectors.EVENT_READ if number in printed else _WRITABLE)
        while open_pipes:
            ready = pipes.select(max(deadline - time.monotonic(), 0.0))
            if not ready and time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired(child.args, timeout)
            for key, _ in ready:
                if key.fd in printed:
                    part = os.read(key.fd, _READ_AT_ONCE)
                    is_done = not part
                    printed[key.fd] += part
                    longest -= len(part)
                    if longest < 0:
                        raise TooMuchPrinted
                else:
                    left = _written(key.fd, left)
                    is_done = not left
                if is_done:
                    pipes.unregister(key.fd)
                    open_pipes.pop(key.fd).close()
    child.wait(max(deadline - time.monotonic(), 0.0))
    return output, errors


def _written(pipe: int, left: memoryview) -> memoryview:
    """What is still left to write; nothing for a child that has ended or does not read."""
    try:
        return left[os.write(pipe, left[: select.PIPE_BUF]) :]
    except BrokenPipeError:
        return left[:0]


def answers(commands: KillableCommands, words: Sequence[str]) -> bool:
    """Whether a command succeeds in time."""
    try:
        return commands.call(words).status == 0
    except BatchSystemError:
        return False


def first_line(words: str, otherwise: str = "(no message)") -> str:
    """The first line with anything on it."""
    return next((line.strip() for line in words.splitlines() if line.strip()), otherwise)


def last_line(words: str, otherwise: str = "(no message)") -> str:
    """The last line with anything on it."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return lines[-1] if lines else otherwise


def end(child: subprocess.Popen[bytes]) -> None:
    """Kill a child with all that it started, and leave no zombie."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(1.0)
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
