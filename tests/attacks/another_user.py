"""Runs a function in a child as another user, for real."""

from __future__ import annotations

import json
import os
import select
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

#: Numbers that no account of the machine has.
DAEMON, STRANGER = 61001, 61002

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: acts as other users")


def as_user(uid: int, act: Callable[[], Any], seconds: float = 60.0) -> Any:
    """What `act` returns, as JSON has it, in a child of that user; umask 022 as at a login.

    Raises:
        AssertionError: it failed, or took longer than `seconds`.
    """
    child, told = _begun(uid, act)
    try:
        ready, _, _ = select.select([told], [], [], seconds)
        assert ready, f"no end after {seconds:g} s"
        with os.fdopen(os.dup(told)) as answer:
            document = json.loads(answer.read() or '{"failed": "no answer"}')
    finally:
        _end(child, told)
    assert "failed" not in document, document["failed"]
    return document["result"]


@contextmanager
def meanwhile(uid: int, begin: Callable[[], Any]) -> Iterator[Any]:
    """What `begin` returns in a child of that user that then stays, and keeps what it has open."""

    child, told = _begun(uid, begin, signal.pause)
    try:
        ready, _, _ = select.select([told], [], [], 60.0)
        assert ready
        document = json.loads(os.read(told, 1_000_000))
        assert "failed" not in document, document["failed"]
        yield document["result"]
    finally:
        _end(child, told)


def _begun(
    uid: int, act: Callable[[], Any], then: Callable[[], Any] = lambda: None
) -> tuple[int, int]:
    told, tells = os.pipe()
    child = os.fork()
    if child:
        os.close(tells)
        return child, told
    try:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        os.umask(0o022)
        document: dict[str, Any] = {"result": act()}
    except BaseException:  # noqa: BLE001 - told to the parent
        document = {"failed": traceback.format_exc()}
    os.write(tells, json.dumps(document).encode())
    then()
    os._exit(0)


def _end(child: int, told: int) -> None:
    os.close(told)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
