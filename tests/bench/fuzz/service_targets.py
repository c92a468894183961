"""Targets for configuration files, models, and requests to the two HTTP services."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
from prometheus_client import CollectorRegistry

from slurm_rl_plugin.brokers.live.offer_pages import OfferDesk, OfferPages
from slurm_rl_plugin.brokers.live.offer_worth import OfferWorth
from slurm_rl_plugin.brokers.live.recent_starts import RecentStarts
from slurm_rl_plugin.configuration import read_configuration
from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.errors import ConfigurationError, PolicyError, SlurmRLError
from slurm_rl_plugin.hook.rails.guard_rails import FiniteScores
from slurm_rl_plugin.metrics.collector import CycleMetrics
from slurm_rl_plugin.metrics.pages import metrics_pages
from slurm_rl_plugin.policies.q_network import load_q_network
from slurm_rl_plugin.services.drawn_queue import random_snapshot
from slurm_rl_plugin.serving.clients import RequestRate, SharedToken
from slurm_rl_plugin.serving.page_server import Pages, PageServer, serve_pages

TOKEN = "fuzz" * 8
NOW = 1_800_000_000.0
#: Bytes of a request that a socket buffers without a reader.
_SENT = 100_000
#: Time-out of a client, seconds.
_UNANSWERED = 10.0
_ALLOWED = {200, 400, 401, 404, 405, 409, 411, 413, 414, 417, 429, 431, 501, 503, 505}


#: Takes an input and a folder for files; returns whether it accepted the input.
Target = Callable[[bytes, Path], bool]


def refuses_by(documented: type[SlurmRLError]) -> Callable[[Target], Target]:
    """A target that may refuse its input by this error, with a message."""

    def judged(target: Target) -> Target:
        def judge(content: bytes, folder: Path) -> bool:
            try:
                return target(content, folder)
            except documented as error:
                words = str(error)
            assert words.strip()
            assert "Traceback" not in words
            return False

        return judge

    return judged


def configure(content: bytes, folder: Path) -> bool:
    """A configuration file."""
    path = folder / "site.toml"
    path.write_bytes(content)
    try:
        read_configuration(path)
    except ConfigurationError as error:
        faults = error.faults
    else:
        return True
    assert faults
    assert all(fault.strip() for fault in faults)
    return False


@refuses_by(PolicyError)
def load_model(content: bytes, folder: Path) -> bool:
    """A model, and a decision by it if it loads."""
    path = folder / "any.onnx"
    path.write_bytes(content)
    snapshot = random_snapshot(5, np.random.default_rng(1))
    decision = load_q_network(path).decide(snapshot)
    decision = FiniteScores().check(decision, snapshot)
    assert np.isfinite(decision.scores).all()
    return True


def _answer(server: PageServer, content: bytes) -> bytes:
    """The response to a client that has closed its side."""
    ours, theirs = socket.socketpair()
    with theirs:
        connection = server.ConnectionClass(server, ours)
        connection.remote_addr = "127.0.0.1"
        server.places.begin(ours, "127.0.0.1", 0.0)
        theirs.sendall(content[:_SENT])
        theirs.shutdown(socket.SHUT_WR)
        connection.communicate()
        connection.close()
        return b"".join(iter(lambda: theirs.recv(1 << 16), b""))


class HttpTarget:
    """An HTTP service without a network."""

    def __init__(self, pages: Pages, *, json_only: bool) -> None:
        self._server = PageServer(("127.0.0.1", 0), pages)
        self._json_only = json_only

    def __call__(self, content: bytes, folder: Path) -> bool:
        """One request."""
        return _is_sound(_answer(self._server, content), json_only=self._json_only)


def _is_sound(answer: bytes, *, json_only: bool) -> bool:
    """Whether a response grants the request; fails for an undocumented response."""
    if not answer:  # no request
        return False
    head, _, body = answer.partition(b"\r\n\r\n")
    if head.startswith(b"HTTP/1.1 100 "):  # Expect: 100-continue; the answer itself follows
        head, _, body = body.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/"):  # HTTP/0.9, or a status line that is none: words only
        return False
    status = int(head.split(b" ", 2)[1])
    assert status in _ALLOWED, status
    if json_only and b"Content-Type: application/json" in head:
        document = json.loads(body)
        assert ("error" in document) == (status != 200)
    return status == 200


def heads_target(folder: Path) -> Target:
    """A page on a port of this host, which gets raw bytes from one client after another."""
    port = serve_pages(_offer_pages(folder), "127.0.0.1", 0, section="offer")

    def send(content: bytes, folder: Path) -> bool:
        with socket.create_connection(("127.0.0.1", port), timeout=_UNANSWERED) as client:
            with suppress(ConnectionError):  # the head was refused before its end
                client.sendall(content)
                client.shutdown(socket.SHUT_WR)
            answer = b""
            with suppress(ConnectionError):
                while got := client.recv(1 << 16):
                    answer += got
        return _is_sound(answer, json_only=True)

    return send


def offer_target(folder: Path) -> HttpTarget:
    """POST /offer without a network."""
    return HttpTarget(_offer_pages(folder), json_only=True)


def _offer_pages(folder: Path) -> OfferPages:
    """Offers of a batch system that always answers."""
    ticks = iter(range(10**12))
    monotonic = lambda: float(next(ticks))  # noqa: E731
    desk = OfferDesk(
        site=lambda: "fuzz",
        starts=RecentStarts(lambda _: NOW + 60.0, monotonic, busy_share=1.0, patience=1.0),
        worth=OfferWorth("processors * run_time / 3600", JobClassifier()),
        all_processors=lambda: 1000,
        clock=lambda: NOW,
    )
    rate = RequestRate(per_minute=10**9, at_once=10**9, monotonic=lambda: 0.0)
    token = folder / "token"
    token.write_text(TOKEN)
    return OfferPages(
        desk=desk,
        token=SharedToken(token),
        rate=rate,
        strangers=rate,
        monotonic=lambda: 0.0,
    )


def offer_body_target(folder: Path) -> Target:
    """POST /offer with a valid token and head: only the body is mutated."""
    target = offer_target(folder)

    def ask(body: bytes, folder: Path) -> bool:
        head = (
            f"POST /offer HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {len(body)}"
        )
        return target(f"{head}\r\n\r\n".encode() + body, folder)

    return ask


def metrics_target(folder: Path) -> HttpTarget:
    """The daemon's metrics."""
    del folder
    metrics = CycleMetrics(CollectorRegistry(), {"name": "fuzz"})
    return HttpTarget(metrics_pages(metrics), json_only=False)


class RaisesBroken(logging.Handler):
    """Raises a bug that a service would only log."""

    def emit(self, record: logging.LogRecord) -> None:
        """Raises the error."""
        if "=broken" in record.getMessage() and record.exc_info and record.exc_info[1]:
            raise record.exc_info[1]
