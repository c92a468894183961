"""The program of the child process in which pyslurm runs; no other module imports pyslurm.

A script for one question, never imported: the question is JSON on standard input, the answer JSON
on standard output. It imports nothing else of this package, so that the child stays small.

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

#: Slurm's error numbers of a refused request: unknown job, finished job, no right. After any other
#: error slurmctld was not reached; a standby controller counts as not reached too.
REFUSALS = range(2000, 3000)
STANDBY = "in standby mode"


def main() -> None:
    """Answer the question on standard input."""
    for number in (signal.SIGTERM, signal.SIGINT):  # the daemon handles them, and ends its child
        signal.signal(number, signal.SIG_IGN)
    question = json.load(sys.stdin)
    # The kernel ends a child whose parent is gone. No thread and no handler of Python could, since
    # pyslurm keeps the interpreter's lock while it waits for slurmctld.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # it is inherited from a parent that ignores it
    signal.setitimer(signal.ITIMER_REAL, question["seconds"])
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)  # what libslurm prints must not mix with the answer
        json.dump(_answer(question), answers)


def _answer(question: dict[str, Any]) -> dict[str, Any]:
    try:
        import pyslurm  # noqa: PLC0415 - without a readable slurm.conf libslurm ends the process
    except ImportError as error:
        fix = 'repair it, or set adapter = "slurm_commands" under [batch_system]'
        return {"failed": f"it cannot be imported: {error}; {fix}", "reached": True}
    try:
        if "read" in question:
            return {"jobs": _read(pyslurm, question["read"])}
        return {"refused": _write(pyslurm, question["write"])}
    except pyslurm.RPCError as error:
        if _is_refusal(error):
            return {"failed": str(error), "reached": True}
        return {"failed": f"pyslurm cannot reach Slurm: {error}", "reached": False}


def _read(pyslurm: Any, attributes: list[str]) -> list[list[Any]]:
    users: dict[int, str] = {}
    return [
        [
            _user_name(job, users) if attribute == "user_name" else _value(job, attribute)
            for attribute in attributes
        ]
        for job in pyslurm.Jobs.load().values()
    ]


def _user_name(job: Any, users: dict[int, str]) -> str:
    """A user's name, or the number if the system has no name for it; looked up once a call."""
    user_id = job.user_id
    if user_id not in users:
        try:
            users[user_id] = job.user_name or str(user_id)
        except KeyError:
            users[user_id] = str(user_id)
    return users[user_id]


def _value(job: Any, attribute: str) -> Any:
    """One attribute; None for text that is no UTF-8, such as a job's name may be."""
    try:
        return getattr(job, attribute)
    except UnicodeDecodeError:
        return None


def _write(pyslurm: Any, changes: list[tuple[int, int]]) -> list[tuple[int, str]]:
    """Write factors as text, since pyslurm ignores the number 0."""
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
