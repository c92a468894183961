"""The program of the child in which pyslurm runs; the only module that imports it.

Run as a script for one question, never imported: JSON on standard input asks, JSON on standard
output answers. It imports nothing else of this package, so that a child stays small.

    {"seconds": S, "read": [ATTRIBUTE, ...]}   -> {"jobs": [[VALUE, ...], ...]}
    {"seconds": S, "write": [[JOB, FACTOR], ...]} -> {"refused": [[JOB, WORDS], ...]}
      -> {"failed": WORDS, "reached": BOOL}    pyslurm cannot be imported, or slurmctld refused to
                                               list jobs or was not reached; changes may be written
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

#: Slurm's numbers for what slurmctld has against one request: unknown job, job over, no right.
#: All others tell that it was not reached, and so does a controller that is not in charge.
REFUSALS = range(2000, 3000)
STANDBY = "in standby mode"


def main() -> None:
    """Answer the question on standard input."""
    for number in (signal.SIGTERM, signal.SIGINT):  # they are for the daemon, which takes its time
        signal.signal(number, signal.SIG_IGN)
    question = json.load(sys.stdin)
    # The kernel ends a child whose parent is gone: pyslurm keeps the interpreter's lock while it
    # waits for slurmctld, so that no thread and no handler of Python could.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # a parent that ignores it hands that on
    signal.setitimer(signal.ITIMER_REAL, question["seconds"])
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)  # libslurm may print; what it prints must not stand beside the answer
        json.dump(_answer(question), answers)


def _answer(question: dict[str, Any]) -> dict[str, Any]:
    try:
        import pyslurm  # noqa: PLC0415 - without a readable slurm.conf libslurm ends the process
    except ImportError as error:
        mend = 'mend it, or set adapter = "slurm_commands" under [batch_system]'
        return {"failed": f"it cannot be imported: {error}; {mend}", "reached": True}
    try:
        if "read" in question:
            return {"jobs": _read(pyslurm, question["read"])}
        return {"refused": _write(pyslurm, question["write"])}
    except pyslurm.RPCError as error:
        if _is_refusal(error):
            return {"failed": str(error), "reached": True}
        return {"failed": f"pyslurm cannot reach Slurm: {error}", "reached": False}


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


def _write(pyslurm: Any, changes: list[tuple[int, int]]) -> list[tuple[int, str]]:
    """Write factors as text: pyslurm takes a whole number 0 for "leave it as it is"."""
    refused = []
    for job_id, factor in changes:
        try:
            pyslurm.Job(job_id).modify(pyslurm.JobSubmitDescription(site_factor=str(factor)))
        except pyslurm.RPCError as error:
            if not _is_refusal(error):
                raise
            refused.append((job_id, str(error)))
    return refused


def _is_refusal(error: Any) -> bool:
    return error.errno in REFUSALS and STANDBY not in str(error)


if __name__ == "__main__":
    main()
