"""Clients that mean no good, at one offer service: each kind in a thread, until it is stopped."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.real.offer_under_test import OfferService

MANY = 1000
BOMBS = (
    "9**9**9**9",
    "(" * 5000 + "1" + ")" * 5000,
    "-" * 300 + "1",
    "1+" * 3000 + "1",
    "exp(exp(exp(exp(wait + 9))))",
    "__import__('os').system('id')",
    "wait.__class__",
    "lambda: 0",
    "10**1000000000",
    "1/(processors-processors)",
)
DEEP = ("[" * 4000 + "]" * 4000, '{"needs":' * 900 + "1" + "}" * 900, '{"a":[[[[[[1]]]]]]}')
STRANGE = (
    "",
    "null",
    "[]",
    "{}",
    '{"processors": 1e999}',
    '{"processors": true}',
    '{"processors": 1, "processors": 1}',
    '{"processors": -1}',
    '{"processors": ' + "9" * 7000 + "}",
    '{"processors": 1, "time_limit": NaN}',
    '{"processors": 1, "partition": "a\\nb"}',
    '{"processors": 1, "partition": "' + "x" * 6000 + '"}',
    '{"processors": 1, "needs": {"uid": "0"}}',
    '{"processors": 1, "needs": {"nodes": "--uid=0"}}',
)


class HostileLoad:
    """Attacks a service while the block runs; `statuses` counts what was answered.

    `nice` is that of the clients, which in life take nothing of this machine, and `tasks` the
    group of processes that they join.
    """

    def __init__(self, service: OfferService, nice: int = 0, tasks: Path | None = None) -> None:
        self.service = service
        self._nice = nice
        self._tasks = tasks
        self.statuses: Counter[int] = Counter()
        self.faults: list[str] = []
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._forever, args=(kind,), daemon=True)
            for kind in (self._bodies, self._tokens, self._slow, self._crowd)
        ]
        self._context = ssl.create_default_context(cafile=service.certificate)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=60)

    def run_all(self) -> None:
        """Every body and token once, by itself, however often it was sent before."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=60)
        for body in self._all_bodies():
            status = self._answered(body)
            if status is None or not 400 <= status < 500:
                self.faults.append(f"{status}: {body[:60]!r}")
        for token in ("", "x", self.service.token[:-1], self.service.token + "0"):
            if self._answered("{}", token) != 401:
                self.faults.append(f"token {token!r}")

    def _answered(self, body: str, token: str | None = None) -> int | None:
        """The status; asked again while the attack's own connections still have all places."""
        end = time.monotonic() + 30.0
        while (status := self.post(body, token)) is None and time.monotonic() < end:
            time.sleep(0.2)
        return status

    def post(self, body: str, token: str | None = None) -> int | None:
        """The status of one answer; None for a connection that was closed."""
        connection = HTTPSConnection(
            "localhost", self.service.port, timeout=20, context=self._context
        )
        bearer = self.service.token if token is None else token
        with contextlib.closing(connection), contextlib.suppress(OSError, HTTPException):
            headers = {"Authorization": f"Bearer {bearer}"}
            connection.request("POST", "/offer", body=body.encode(), headers=headers)
            answer = connection.getresponse()
            answer.read()
            self.statuses[answer.status] += 1
            return answer.status
        return None

    def _forever(self, kind: Callable[[], Iterator[None]]) -> None:
        os.setpriority(os.PRIO_PROCESS, 0, self._nice)  # with Linux that of this thread alone
        if self._tasks:
            self._tasks.write_text(str(threading.get_native_id()))
        while not self._stop.is_set():
            for _ in kind():
                if self._stop.is_set():
                    return

    def _all_bodies(self) -> Iterator[str]:
        for bomb in BOMBS:
            yield json.dumps({"processors": 1, "formula": bomb})
        yield from (*DEEP, *STRANGE, "x" * 9000, "[" * 500_000)

    def _bodies(self) -> Iterator[None]:
        for body in self._all_bodies():
            self.post(body)
            yield

    def _tokens(self) -> Iterator[None]:
        for token in ("", "x", "é", self.service.token[:-1]):
            with contextlib.suppress(ValueError):  # no header may hold it
                self.post("{}", token)
            yield

    def _slow(self) -> Iterator[None]:
        """A request that comes byte by byte, and never to its end."""
        with contextlib.suppress(OSError), self._raw() as channel:
            for byte in itertools.cycle(b"POST /offer HTTP/1.1\r\nX-A: b\r\n"):
                channel.send(bytes([byte]))
                self._stop.wait(0.2)
                yield
        yield

    def _crowd(self) -> Iterator[None]:
        """A thousand connections that say nothing."""
        crowd = []
        try:
            for _ in range(MANY):
                with contextlib.suppress(OSError):
                    crowd.append(socket.create_connection(("localhost", self.service.port), 2))
                yield
        finally:
            for each in crowd:
                each.close()

    def _raw(self) -> ssl.SSLSocket:
        plain = socket.create_connection(("localhost", self.service.port), 5)
        return self._context.wrap_socket(plain, server_hostname="localhost")
