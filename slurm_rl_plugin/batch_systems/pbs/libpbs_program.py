"""The program of the child that talks to pbs_server through libpbs; nothing else loads it.

Run as a script, never imported: one JSON document on standard input asks, one on standard output
answers. It imports nothing else of this package, so that it starts at once. Whoever started it
kills it when its time is over: a call into the library can hang.

    {"library": PATH, "read": [ATTRIBUTE, ...], "newer": [those that not every release knows]}
      -> {"Jobs": {JOB: {ATTRIBUTE: TEXT, or {RESOURCE: TEXT}}}}      as qstat writes them, but for
                                                    times, which are seconds since the epoch here
    {"library": PATH, "resource": NAME, "writes": [[JOB, TEXT], ...], "seconds": S}
      -> {"jobs": {JOB: [STATE, TEXT or null]}, "sent": N, "words": {JOB: WORDS}}
                                                    what the server says of the jobs of the first N
                                                    writes afterwards, and maybe others; where PBS
                                                    tells them, its words on those it refused
      -> {"failed": WORDS, "reached": BOOL}         some changes may have been written

Values are sent by pbs_asyalterjob over one connection, which tells nothing of single jobs; so they
are read back. PBS older than 20.0 has pbs_alterjob alone, which waits for each answer and tells it.
pbs_server answers the questions of a connection in their order, and commits each change to its
database: what has been sent cannot be recalled and may take it a minute. So they are sent in
bursts, each waited for, and none begins after S seconds.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

#: Changes sent before an answer is waited for.
_BURST = 200
#: So many jobs are read back by name; for more the whole queue is.
_FEW = 500
#: Not in PBS 18.1 and 19.1.
_ASYNCHRONOUS = "pbs_asyalterjob"
#: PBSE_UNKJOBID, PBSE_NOATTR
_UNKNOWN_JOB, _UNKNOWN_ATTRIBUTE = 15001, 15002


class _Attribute(ctypes.Structure):
    """`struct attrl` of pbs_ifl.h: one attribute of a job, in a linked list."""


_Attribute._fields_ = [
    ("next", ctypes.POINTER(_Attribute)),
    ("name", ctypes.c_char_p),
    ("resource", ctypes.c_char_p),
    ("value", ctypes.c_char_p),
    ("op", ctypes.c_int),
]


class _Status(ctypes.Structure):
    """`struct batch_status` of pbs_ifl.h: a job with its attributes, in a linked list."""


_Status._fields_ = [
    ("next", ctypes.POINTER(_Status)),
    ("name", ctypes.c_char_p),
    ("attribs", ctypes.POINTER(_Attribute)),
    ("text", ctypes.c_char_p),
]


def main() -> None:
    """Read one question from standard input, as JSON, and write its answer to standard output."""
    for number in (signal.SIGTERM, signal.SIGINT):  # they are for the daemon, which takes its time
        signal.signal(number, signal.SIG_IGN)
    question = json.load(sys.stdin)
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)  # the library may print; what it prints must not stand beside the answer
        json.dump(_answer(question), answers)


def _answer(question: dict[str, Any]) -> dict[str, Any]:
    try:
        library = _load(question["library"])
    except (OSError, AttributeError) as error:
        return {"failed": f"libpbs cannot be used: {error}", "reached": True}
    connection = library.pbs_connect(None)
    if connection < 0:
        return {"failed": "libpbs cannot connect to pbs_server", "reached": False}
    try:
        if "read" in question:
            return _read(library, connection, question["read"], question["newer"])
        return _write_and_read(library, connection, question)
    finally:
        library.pbs_disconnect(connection)


def _load(path: str) -> ctypes.CDLL:
    library = ctypes.CDLL(path)
    attributes, status = ctypes.POINTER(_Attribute), ctypes.POINTER(_Status)
    text, number = ctypes.c_char_p, ctypes.c_int
    for name, result, arguments in (
        ("pbs_connect", number, [text]),
        ("pbs_disconnect", number, [number]),
        (_ASYNCHRONOUS, number, [number, text, attributes, text]),
        ("pbs_alterjob", number, [number, text, attributes, text]),
        ("pbs_statjob", status, [number, text, attributes, text]),
        ("pbs_statserver", status, [number, attributes, text]),
        ("pbs_statfree", None, [status]),
        ("pbs_geterrmsg", text, [number]),
        ("__pbs_errno_location", ctypes.POINTER(number), []),
    ):
        if name == _ASYNCHRONOUS and not hasattr(library, name):
            continue
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _write_and_read(
    library: ctypes.CDLL, connection: int, question: dict[str, Any]
) -> dict[str, Any]:
    resource, writes = question["resource"], question["writes"]
    told = not hasattr(library, _ASYNCHRONOUS)
    alter = library.pbs_alterjob if told else getattr(library, _ASYNCHRONOUS)
    words: dict[str, str] = {}
    until = time.monotonic() + question["seconds"]
    sent = 0
    while sent < len(writes) and (not sent or time.monotonic() < until):
        for job, value in writes[sent : sent + _BURST]:
            change = _Attribute(None, b"Resource_List", resource.encode(), value.encode(), 0)
            if alter(connection, job.encode(), ctypes.byref(change), None):
                failed = _failed(library, connection)
                if not told:
                    return failed
                words[job] = failed["failed"]
        sent = min(sent + _BURST, len(writes))
        if not _reached(library, connection):
            return _failed(library, connection)
    names = [job for job, _ in writes[:sent]] if sent <= _FEW else []
    jobs = dict(_jobs(library, connection, resource, names))
    # one name that is gone may leave the others without an answer
    if names and len(jobs) < len(names):
        jobs = dict(_jobs(library, connection, resource, []))
    if writes and not jobs and _error(library) not in (0, _UNKNOWN_JOB):
        return _failed(library, connection)
    return {"jobs": jobs, "sent": sent, "words": words}


def _reached(library: ctypes.CDLL, connection: int) -> bool:
    """Whether the server answers; all that was sent before has then been done."""
    wanted = _Attribute(None, b"server_state", None, b"", 0)
    answer = library.pbs_statserver(connection, ctypes.byref(wanted), None)
    if answer:
        library.pbs_statfree(answer)
    return bool(answer)


def _error(library: ctypes.CDLL) -> int:
    """The error number of the last call of this thread, `pbs_errno`."""
    return int(getattr(library, "__pbs_errno_location")()[0])


def _failed(library: ctypes.CDLL, connection: int) -> dict[str, Any]:
    words = library.pbs_geterrmsg(connection)
    return {"failed": _text(words) or f"error {_error(library)}", "reached": bool(words)}


def _read(
    library: ctypes.CDLL, connection: int, attributes: list[str], newer: list[str]
) -> dict[str, Any]:
    jobs: dict[str, dict[str, Any]] = {}
    for name, found in _statuses(library, connection, attributes):
        values = jobs[name] = {}
        for attribute, resource, value in found:
            if resource is None:
                values[attribute] = value
            else:
                values.setdefault(attribute, {})[resource] = value
    # an empty queue and a server that is gone both give nothing
    if not jobs and newer and _error(library) == _UNKNOWN_ATTRIBUTE:
        known = [name for name in attributes if name not in newer]
        return _read(library, connection, known, [])
    if not jobs and _error(library):
        return _failed(library, connection)
    return {"Jobs": jobs}


def _jobs(
    library: ctypes.CDLL, connection: int, resource: str, names: list[str]
) -> Iterator[tuple[str, tuple[str, str | None]]]:
    """State and score of the jobs named; without names of every job."""
    asked = ["job_state", "Resource_List"]
    for name, found in _statuses(library, connection, asked, ",".join(names)):
        values = {each if of is None else of: value for each, of, value in found}
        yield name, (values.get("job_state", ""), values.get(resource))


def _statuses(
    library: ctypes.CDLL, connection: int, attributes: list[str], names: str = ""
) -> Iterator[tuple[str, list[tuple[str, str | None, str]]]]:
    """Name of every job or of some, and attribute, resource and value of what was asked for."""
    wanted: Any = None
    for name in reversed(attributes):
        wanted = ctypes.pointer(_Attribute(wanted, name.encode(), None, b"", 0))
    first = library.pbs_statjob(connection, names.encode() or None, wanted, None)
    try:
        place = first
        while place:
            job = place.contents
            yield _text(job.name), list(_values(job.attribs))
            place = job.next
    finally:
        if first:
            library.pbs_statfree(first)


def _values(attribute: Any) -> Iterator[tuple[str, str | None, str]]:
    while attribute:
        each = attribute.contents
        resource = each.resource
        yield _text(each.name), None if resource is None else _text(resource), _text(each.value)
        attribute = each.next


def _text(words: bytes | None) -> str:
    return (words or b"").decode(errors="replace")


if __name__ == "__main__":
    main()
