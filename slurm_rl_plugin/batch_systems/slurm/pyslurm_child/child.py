"""The child in which pyslurm runs, seen from here: asked, answered in time or killed."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import subprocess
import tempfile
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from slurm_rl_plugin.batch_systems.command_process import LONGEST_ANSWER, start_python
from slurm_rl_plugin.batch_systems.slurm.process import (
    WHAT_TO_DO,
    CommandRunner,
    failure,
    not_understood,
)
from slurm_rl_plugin.errors import BatchSystemError, BatchSystemUnavailable

PROGRAM = Path(__file__).with_name("program.py")
#: Seconds after our own time-out in which a child without a parent ends.
ORPHAN_SECONDS = 1.0
READ_AT_ONCE = 1 << 20
#: Bytes of the file that takes what libslurm complains of.
_LONGEST_COMPLAINTS = 1 << 20


class SlurmChild:
    """Starts the child at the first question and again after it was killed or ended.

    Args:
        commands: run beside it; with their environment and time-out the child is started and asked.
    """

    def __init__(self, commands: CommandRunner) -> None:
        self._commands = commands
        self._running: _Running | None = None

    def ask(self, call: str, question: Mapping[str, Any], *, extra: float = 0.0) -> dict[str, Any]:
        """Answer of the child to a question, `extra` seconds longer than usual where needed."""
        seconds = self._commands.timeout + extra
        with self._commands.timed(call):
            try:
                return self._ask(question, time.monotonic() + seconds)
            except TimeoutError:
                self._end()
                raise BatchSystemUnavailable(
                    f"{call} gave no answer within {seconds:g} s; {WHAT_TO_DO}"
                ) from None
            except OSError as error:
                raise BatchSystemUnavailable(f"no child can be started: {error}") from error
            except BaseException:
                self._end()
                raise

    def _ask(self, question: Mapping[str, Any], deadline: float) -> dict[str, Any]:
        child = self._running
        if child is None or child.process.poll() is not None:
            self._end()
            child = self._running = _Running(
                self._commands.environment, deadline - time.monotonic()
            )
            greeting = child.answer(deadline)
            if "missing" in greeting:
                raise BatchSystemError(
                    f"pyslurm cannot be imported: {greeting['missing']}; mend it, or set "
                    'adapter = "slurm_commands" under [batch_system]'
                )
        seconds = deadline - time.monotonic() + ORPHAN_SECONDS
        child.ask({"seconds": seconds, **question})
        answer = child.answer(deadline)
        if "failed" in answer:
            raise _failure(answer["failed"], reached=answer["reached"])
        return answer

    def _end(self) -> None:
        if self._running is not None:
            self._running.end()
            self._running = None


class _Running:
    """One child: its pipes, and a file for what libslurm complains of."""

    def __init__(self, environment: Mapping[str, str], seconds: float) -> None:
        self._complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - the child's
        self.process = start_python(
            [str(PROGRAM), f"{seconds + ORPHAN_SECONDS:.3f}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            env=environment,
            start_new_session=True,  # a Ctrl-C at our terminal is not for the child
        )
        bound = (_LONGEST_COMPLAINTS, _LONGEST_COMPLAINTS)
        with contextlib.suppress(OSError):  # the child has ended, which is told when it is asked
            resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, bound)
        self.end = weakref.finalize(self, _end, self.process, self._complaints)

    def ask(self, question: Mapping[str, Any]) -> None:
        """Send one line; a question is shorter than what a pipe holds, so this never waits."""
        assert self.process.stdin is not None
        self._complaints.seek(0)  # the child writes on from there
        self._complaints.truncate()
        # A broken pipe: the child has ended, and why is seen when its answer is read.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(question).encode() + b"\n")
            self.process.stdin.flush()

    def answer(self, deadline: float) -> dict[str, Any]:
        """Read one line of the child's output, a JSON object.

        Raises:
            TimeoutError: there is none at the deadline, a time of `time.monotonic`.
        """
        assert self.process.stdout is not None
        pipe = self.process.stdout.fileno()
        waiting = select.poll()
        waiting.register(pipe, select.POLLIN)
        parts: list[bytes] = []
        longest = LONGEST_ANSWER
        while not (parts and parts[-1].endswith(b"\n")):
            left = deadline - time.monotonic()
            if left <= 0 or not waiting.poll(left * 1000.0):
                raise TimeoutError
            part = os.read(pipe, READ_AT_ONCE)
            if not part:
                raise self._ended()
            parts.append(part)
            longest -= len(part)
            if longest < 0:
                raise BatchSystemError(
                    f"the child that runs pyslurm printed more than {LONGEST_ANSWER >> 20} MiB and "
                    'was killed; set adapter = "slurm_commands" under [batch_system]'
                )
        return _parse(b"".join(parts))

    def _ended(self) -> BatchSystemError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(1.0)
        self._complaints.seek(0)
        said = self._complaints.read(4096).decode(errors="replace").strip().splitlines()
        words = said[-1] if said else f"exit status {self.process.returncode}"
        return BatchSystemUnavailable(
            f"the child that runs pyslurm ended: {words}; check slurm.conf, and {WHAT_TO_DO}"
        )


def _end(process: subprocess.Popen[bytes], complaints: IO[bytes]) -> None:
    """Kill a child and leave no zombie. It starts no process of its own."""
    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1.0)
    for pipe in (process.stdin, process.stdout, complaints):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def _parse(line: bytes) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = json.loads(line)
    except ValueError as error:
        raise not_understood("pyslurm", line.decode(errors="replace")) from error
    return answer


def _failure(words: str, *, reached: bool) -> BatchSystemError:
    if reached:
        return failure("pyslurm", words)
    return BatchSystemUnavailable(f"pyslurm cannot reach Slurm: {words}; {WHAT_TO_DO}")
