"""The program of the child in which pyslurm runs; the only module that imports it.

Run as a script, never imported: a line of JSON on standard input asks, one on standard output
answers. It imports nothing else of this package, so that a child stays small.

    {"seconds": S, "read": [ATTRIBUTE, ...]}   -> {"jobs": [[VALUE, ...], ...]}
    {"seconds": S, "write": [[JOB, FACTOR], ...]} -> {"refused": [[JOB, WORDS], ...]}

The first line comes unasked: {}, or {"missing": WORDS} where pyslurm cannot be imported.
{"failed": WORDS, "reached": BOOL} answers where slurmctld refused to list jobs at all or was not
reached; changes may have been written.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: Slurm's numbers for what slurmctld has against one request: unknown job, job over, no right.
#: All others tell that it was not reached, and so does a controller that is not in charge.
REFUSALS = range(2000, 3000)
STANDBY = "in standby mode"


def main() -> None:
    """Import pyslurm, then answer until standard input ends: whoever started the child is gone."""
    # A service manager that stops the daemon signals us too, but the daemon still has to take its
    # factors back. We end when it does.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    # libslurm may print; what it prints must not stand between answers.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        with _killed_after(float(sys.argv[1])):
            pyslurm, greeting = _import_pyslurm()
        _say(answers, greeting)
        if pyslurm is None:
            return
        for line in sys.stdin:
            request = json.loads(line)
            with _killed_after(request["seconds"]):
                answer = _answer(pyslurm, request)
            _say(answers, answer)


@contextmanager
def _killed_after(seconds: float) -> Iterator[None]:
    """Let the kernel end this process in time.

    No thread and no handler of Python could: pyslurm keeps the interpreter's lock while it waits
    for slurmctld. The parent kills the child earlier; this is for a parent that is gone.
    """
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0.0)


def _import_pyslurm() -> tuple[Any, dict[str, Any]]:
    """Import it here only: without a readable slurm.conf libslurm ends the process."""
    try:
        import pyslurm  # noqa: PLC0415
    except ImportError as error:
        return None, {"missing": str(error)}
    return pyslurm, {}


def _answer(pyslurm: Any, request: dict[str, Any]) -> dict[str, Any]:
    if "read" in request:
        try:
            return {"jobs": _read(pyslurm, request["read"])}
        except pyslurm.RPCError as error:
            return _failure(error)
    return _write(pyslurm, request["write"])


def _read(pyslurm: Any, attributes: list[str]) -> list[list[Any]]:
    """Attributes of every job that slurmctld knows, those that are over included."""
    users: dict[int, str] = {}
    return [
        [
            _user_name(job, users) if attribute == "user_name" else _value(job, attribute)
            for attribute in attributes
        ]
        for job in pyslurm.Jobs.load().values()
    ]


def _user_name(job: Any, users: dict[int, str]) -> str:
    """A user's name, looked up once a call; the number where the system has no name for it."""
    user_id = job.user_id
    if user_id not in users:
        try:
            users[user_id] = job.user_name or str(user_id)
        except KeyError:
            users[user_id] = str(user_id)
    return users[user_id]


def _value(job: Any, attribute: str) -> Any:
    """One attribute; text that is no UTF-8 (a job's name may be anything) is not known."""
    try:
        return getattr(job, attribute)
    except UnicodeDecodeError:
        return None


def _write(pyslurm: Any, changes: list[tuple[int, int]]) -> dict[str, Any]:
    """Write factors as text: pyslurm takes a whole number 0 for "leave it as it is"."""
    refused = []
    for job_id, factor in changes:
        try:
            pyslurm.Job(job_id).modify(pyslurm.JobSubmitDescription(site_factor=str(factor)))
        except pyslurm.RPCError as error:
            if not _is_refusal(error):
                return _failure(error)
            refused.append([job_id, str(error)])
    return {"refused": refused}


def _failure(error: Any) -> dict[str, Any]:
    return {"failed": str(error), "reached": _is_refusal(error)}


def _is_refusal(error: Any) -> bool:
    return error.errno in REFUSALS and STANDBY not in str(error)


def _say(answers: Any, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
