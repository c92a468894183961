"""The program of the child process that talks to pbs_server through libpbs.

A script, never imported: the question is a JSON document on standard input, the answer one on
standard output. It imports nothing else of this package, so that it starts at once. Its parent
kills it after the time-out, since a call into the library can hang.

    {"library": PATH, "read": [ATTRIBUTE, ...], "newer": [those that not every release knows]}
      -> {"Jobs": {JOB: {ATTRIBUTE: TEXT, or {RESOURCE: TEXT}}}}    as in qstat, except for times,
                                                    which are seconds since the epoch
    {"library": PATH, "resource": NAME, "writes": [[JOB, TEXT], ...], "seconds": S}
      -> {"jobs": {JOB: [STATE, TEXT or null]}, "sent": N, "words": {JOB: WORDS}}
                                                    the jobs of the first N writes afterwards, and
                                                    maybe others; PBS's refusals, if it reports them
      -> {"failed": WORDS, "reached": BOOL}         some changes may have been written

Values are sent by pbs_asyalterjob over one connection, which reports nothing about single jobs, so
they are read back. PBS before 20.0 has only pbs_alterjob, which waits for each answer.
pbs_server answers the requests of a connection in their order, and commits each change to its
database. A sent change cannot be recalled, and many may take a minute. So changes are sent in
bursts; the program waits after each burst, and sends no burst after S seconds.
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
#: At most this number of jobs is read back by name; otherwise the whole queue is.
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
    for number in (signal.SIGTERM, signal.SIGINT):  # the daemon handles them, and ends its child
        signal.signal(number, signal.SIG_IGN)
    question = json.load(sys.stdin)
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)  # what the library prints must not mix with the answer
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
    waits = not hasattr(library, _ASYNCHRONOUS)
    alter = library.pbs_alterjob if waits else getattr(library, _ASYNCHRONOUS)
    words: dict[str, str] = {}
    until = time.monotonic() + question["seconds"]
    sent = 0
    while sent < len(writes) and (not sent or time.monotonic() < until):
        for job, value in writes[sent : sent + _BURST]:
            change = _Attribute(None, b"Resource_List", resource.encode(), value.encode(), 0)
            if alter(connection, job.encode(), ctypes.byref(change), None):
                failed = _failed(library, connection)
                if not waits:
                    return failed
                words[job] = failed["failed"]
        sent = min(sent + _BURST, len(writes))
        if not _reached(library, connection):
            return _failed(library, connection)
    names = [job for job, _ in writes[:sent]] if sent <= _FEW else []
    jobs = dict(_jobs(library, connection, resource, names))
    # after one missing name PBS may not report the others
    if names and len(jobs) < len(names):
        jobs = dict(_jobs(library, connection, resource, []))
    if writes and not jobs and _error(library) not in (0, _UNKNOWN_JOB):
        return _failed(library, connection)
    return {"jobs": jobs, "sent": sent, "words": words}


def _reached(library: ctypes.CDLL, connection: int) -> bool:
    """Whether the server answers, and so has made all changes sent before."""
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
    # an empty queue and a lost server both return nothing
    if not jobs and newer and _error(library) == _UNKNOWN_ATTRIBUTE:
        known = [name for name in attributes if name not in newer]
        return _read(library, connection, known, [])
    if not jobs and _error(library):
        return _failed(library, connection)
    return {"Jobs": jobs}


def _jobs(
    library: ctypes.CDLL, connection: int, resource: str, names: list[str]
) -> Iterator[tuple[str, tuple[str, str | None]]]:
    """State and score of the named jobs, or of every job without names."""
    asked = ["job_state", "Resource_List"]
    for name, found in _statuses(library, connection, asked, ",".join(names)):
        values = {each if of is None else of: value for each, of, value in found}
        yield name, (values.get("job_state", ""), values.get(resource))


def _statuses(
    library: ctypes.CDLL, connection: int, attributes: list[str], names: str = ""
) -> Iterator[tuple[str, list[tuple[str, str | None, str]]]]:
    """Name, and attribute, resource and value of each attribute, of the named or of all jobs."""
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
