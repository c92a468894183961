"""Run one command of a batch system in a child process, bounded in time and in output."""

from __future__ import annotations

import contextlib
import ctypes
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
from typing import TYPE_CHECKING, Any, Self

from slurm_rl_plugin.errors import BatchSystemError, BatchSystemUnavailable

if TYPE_CHECKING:
    from slurm_rl_plugin.batch_systems.port import AdapterParts

#: Bytes that a command may print, errors included. `squeue` prints 200 for a job, so this is the
#: answer for a million jobs, and `release` can hold it on a host with 1 GB.
LONGEST_ANSWER = 256 << 20
_READ_AT_ONCE = 1 << 20
_WRITABLE = selectors.EVENT_WRITE
#: Number of the setting in glibc's malloc.h.
_M_ARENA_MAX = -8


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Exit status and output of a command."""

    status: int
    output: str
    errors: str


def start_python(words: Sequence[str], **more: Any) -> subprocess.Popen[bytes]:
    """Start a Python program of this package; nothing in the package starts Python otherwise.

    Python searches neither the current folder nor the program's for modules, since another user may
    have put some there. The child runs in the root folder, so paths must be absolute.
    """
    return subprocess.Popen([sys.executable, "-P", *words], cwd="/", **more)


class KillableCommands:
    """Runs commands with a time-out, each in a process group that is killed as a whole.

    Children get the variables of `environment`, or this process's own if it is None. After every
    call `on_call` gets a pair: the command's name and its seconds.
    """

    title = "the batch system"  #: name for messages
    what_to_do = "check it"  #: what an operator does if the batch system does not answer
    unreachable: tuple[str, ...] = ()  #: phrases of a command that could not reach it
    longest = LONGEST_ANSWER  #: bytes that a call may print

    def __init__(
        self,
        *,
        timeout: float,
        environment: Mapping[str, str] | None = None,
        on_call: Callable[[tuple[str, float]], None] | None = None,
    ) -> None:
        self.environment = self._prepared(os.environ if environment is None else environment)
        self.timeout = timeout
        self._on_call = on_call

    @classmethod
    def of(cls, given: AdapterParts) -> Self:
        """The commands of an adapter."""
        return cls(timeout=given.timeout, environment=given.environment, on_call=given.on_call)

    def _prepared(self, environment: Mapping[str, str]) -> dict[str, str]:
        return dict(environment)

    @classmethod
    def failure(cls, command: str, words: str) -> BatchSystemError:
        """Make the error for a command that failed with this output."""
        first = first_line(words)
        if cls.is_unreachable(words):
            return BatchSystemUnavailable(
                f"{command} cannot reach {cls.title}: {first}; {cls.what_to_do}"
            )
        return BatchSystemError(f"{command} failed: {first}; run it by hand to see more")

    @classmethod
    def not_understood(cls, command: str, text: str) -> BatchSystemError:
        """Make the error for output in an unknown form."""
        return BatchSystemError(
            f"{command} answered a line that is not understood: {text[:200]!r}; "
            f"run it by hand, and report it if this release of {cls.title} prints another form"
        )

    @classmethod
    def child_ended(cls, library: str, words: str) -> BatchSystemError:
        """Make the error for a child process that a library ended with this output."""
        return cls.failure(library, words)

    @classmethod
    def is_unreachable(cls, words: str) -> bool:
        """Whether a command that printed this could not reach the batch system."""
        return any(phrase in words for phrase in cls.unreachable)

    def answers(self, *words: str) -> bool:
        """Whether a command succeeds in time."""
        try:
            return self.call(words).status == 0
        except BatchSystemError:
            return False

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
        """Run a command, for `extra` seconds longer than usual; its status does not matter.

        Messages and metrics call it `name`. Every user of the host sees arguments; only the child's
        user and root see `variables`, which are added to `environment`. A command that prints more
        than `longest` bytes is killed: BatchSystemError. `start` is `start_python` for a program of
        this package.
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
        """Start a program of this package for one question; question and answer are JSON objects.

        If the library crashes, hangs or ends its process, only the child is lost. An answer
        `{"failed": WORDS, "reached": BOOL}` becomes an error.
        """
        answer = self.call(
            [str(program)], stdin=json.dumps(question), extra=extra, name=name, start=start_python
        )
        if answer.status:
            last = last_line(answer.errors, f"exit status {answer.status}")
            raise self.child_ended(library, last)
        try:
            found: dict[str, Any] = json.loads(answer.output)
        except ValueError:
            raise self.failure(
                library, f"its answer is not understood: {answer.output[:200]!r}"
            ) from None
        if "failed" not in found:
            return found
        if found["reached"]:
            raise self.failure(library, found["failed"])
        raise BatchSystemUnavailable(f"{found['failed']}; {self.what_to_do}")

    @contextlib.contextmanager
    def timed(self, call: str) -> Iterator[None]:
        """Report to `on_call` how long the block took, also if it raises."""
        began = time.monotonic()
        try:
            yield
        finally:
            if self._on_call is not None:
                self._on_call((call, time.monotonic() - began))


class TooMuchPrinted(Exception):
    """A child printed more than it may."""


def exchange(
    child: subprocess.Popen[bytes], stdin: bytes, timeout: float, longest: int
) -> tuple[bytearray, bytearray]:
    """Write a child's input and wait for its end; returns its output and its errors.

    `Popen.communicate` would keep output of any size. A child may end without reading its input.
    The child still runs after subprocess.TimeoutExpired and after TooMuchPrinted (more than
    `longest` bytes).
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
    """What is still to be written; nothing if the child has ended or does not read."""
    try:
        return left[os.write(pipe, left[: select.PIPE_BUF]) :]
    except BrokenPipeError:
        return left[:0]


def first_line(words: str, otherwise: str = "(no message)") -> str:
    """The first line that is not blank."""
    return next((line.strip() for line in words.splitlines() if line.strip()), otherwise)


def last_line(words: str, otherwise: str = "(no message)") -> str:
    """The last line that is not blank."""
    return first_line("\n".join(reversed(words.splitlines())), otherwise)


def end(child: subprocess.Popen[bytes]) -> None:
    """Kill a child's process group, and leave no zombie."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(1.0)
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def share_one_heap() -> None:
    """Let all threads use one heap of glibc; other C libraries have no such setting.

    The thread that reads `sprio` would keep a heap of its own, 15 MB of 300 with 100,000 jobs.
    """
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector within the block.

    A pass starts after a number of new objects and visits every kept row, and no row is part of a
    reference cycle. With 100,000 jobs a third of the time of a snapshot was spent in such passes.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
