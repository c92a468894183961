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

#: User ids without an account on the machine.
DAEMON, STRANGER = 61001, 61002

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: acts as other users")


def as_user(uid: int, act: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Runs `act` in a child of that user, with umask 022; returns its result, through JSON.

    Raises:
        AssertionError: it failed, or took longer than `seconds`.
    """
    child, read = _begun(uid, act)
    try:
        ready, _, _ = select.select([read], [], [], seconds)
        assert ready, f"no end after {seconds:g} s"
        with os.fdopen(os.dup(read)) as answer:
            document = json.loads(answer.read() or '{"failed": "no answer"}')
    finally:
        _end(child, read)
    assert "failed" not in document, document["failed"]
    return document["result"]


@contextmanager
def meanwhile(uid: int, begin: Callable[[], Any]) -> Iterator[Any]:
    """Runs `begin` in a child of that user, which keeps its open files during the block."""
    child, read = _begun(uid, begin, signal.pause)
    try:
        ready, _, _ = select.select([read], [], [], 60.0)
        assert ready
        document = json.loads(os.read(read, 1_000_000))
        assert "failed" not in document, document["failed"]
        yield document["result"]
    finally:
        _end(child, read)


def _begun(
    uid: int, act: Callable[[], Any], then: Callable[[], Any] = lambda: None
) -> tuple[int, int]:
    read, write = os.pipe()
    child = os.fork()
    if child:
        os.close(write)
        return child, read
    try:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        os.umask(0o022)
        document: dict[str, Any] = {"result": act()}
    except BaseException:  # noqa: BLE001 - sent to the parent
        document = {"failed": traceback.format_exc()}
    os.write(write, json.dumps(document).encode())
    then()
    os._exit(0)


def _end(child: int, read: int) -> None:
    os.close(read)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
