"""Serves pages: few threads, each with a deadline, and the process waits for none of them.

The metrics are served so, and the offers to brokers.

A scanner that opens connections and says nothing must cost the head node next to nothing: so many
connections are served at a time, each for so many seconds, and further ones are closed at once. TLS
begins in the connection's own thread, never in the one that accepts.
"""

from __future__ import annotations

import io
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, TextIO
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.metrics.pages import Pages, metrics_pages
from slurm_rl_plugin.metrics.tls import ServedTls, TlsFiles

logger = logging.getLogger(__name__)

#: Connections that are served at a time.
MOST_CONNECTIONS = 16
#: Seconds that a client has for its whole request and to take the answer.
DEADLINE = 10.0
#: Seconds between looks for connections past their deadline.
_LOOK = 0.5


class _QuietHandler(WSGIRequestHandler):
    """One request; what a client does wrong is no news."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is inherited
        """Log nothing."""

    def get_stderr(self) -> TextIO:
        """Where wsgiref writes of broken connections."""
        return io.StringIO()


class PageServer(ThreadingMixIn, WSGIServer):
    """Serves pages in threads of bounded number and life.

    Args:
        address: host and port.
        tls: for HTTPS.
        monotonic: clock of the deadline, seconds.
        of_one_client: connections of one address that are served at a time; None for any number,
            so that one client can keep out the others.

    Raises:
        OSError: the address cannot be listened on.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    allow_reuse_address = True

    def __init__(
        self,
        address: tuple[str, int],
        tls: ServedTls | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        of_one_client: int | None = None,
    ) -> None:
        self._tls, self._monotonic = tls, monotonic
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._of_one_client = MOST_CONNECTIONS if of_one_client is None else of_one_client
        self._since: dict[socket.socket, float] = {}
        self._clients: dict[socket.socket, str] = {}
        host, port = address
        found = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        self.address_family = found[0][0]
        super().__init__(found[0][4][:2], _QuietHandler)  # type: ignore[arg-type] # a host, a port

    def server_bind(self) -> None:
        """Bind without asking DNS for the host's name, which may take long."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]
        self.setup_environ()

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept; nothing is read here, so nobody can hold up the others."""
        connection, client = super().get_request()
        if self._is_full(client):  # before TLS makes it dear
            connection.close()
            raise ConnectionRefusedError
        connection.settimeout(DEADLINE)
        if self._tls is not None:
            try:
                connection = self._tls.renewed().wrap_socket(
                    connection, server_side=True, do_handshake_on_connect=False
                )
            except OSError:
                connection.close()
                raise
        return connection, client

    def _is_full(self, client: Any) -> bool:
        """Whether all places are taken, or those that this client may have."""
        served = list(self._clients.values())
        return len(served) >= MOST_CONNECTIONS or served.count(client[0]) >= self._of_one_client

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give the connection a thread of its own, or close it where all are taken."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        self._since[request] = self._monotonic()
        self._clients[request] = str(client_address[0])
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no further thread can be started
            self._done(request)
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection, and make room for another."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._done(request)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Begin TLS, then answer."""
        if isinstance(request, ssl.SSLSocket):
            request.do_handshake()
        super().finish_request(request, client_address)

    def _done(self, request: socket.socket) -> None:
        self._since.pop(request, None)
        self._clients.pop(request, None)
        self._free.release()

    def service_actions(self) -> None:
        """End connections past their deadline; their threads then see a broken connection."""
        now = self._monotonic()
        for connection, since in list(self._since.items()):
            if now - since > DEADLINE:
                with suppress(OSError):  # not SSLSocket's own, which is not for other threads
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that breaks off, or does not speak TLS, is no news."""
        del request, client_address
        logger.debug("http=broken_connection", exc_info=True)


def serve_metrics(
    registry: CollectorRegistry, address: str, port: int, tls: TlsFiles | None = None
) -> int:
    """Serve a registry over HTTP, or HTTPS, in threads that end with the process.

    Args:
        registry: what to serve.
        address: to listen on; 127.0.0.1 unless the site decides otherwise.
        port: 0 takes any free one.
        tls: files for HTTPS.

    Returns:
        The port in use.

    Raises:
        ConfigurationError: the address cannot be listened on, or a file of TLS cannot be used.
    """
    return serve_pages(metrics_pages(registry), address, port, tls, section="metrics")


def serve_pages(
    pages: Pages,
    address: str,
    port: int,
    tls: TlsFiles | None = None,
    *,
    section: str,
    of_one_client: int | None = None,
) -> int:
    """Serve pages over HTTP, or HTTPS, in threads that end with the process.

    Args:
        pages: the WSGI application.
        address: to listen on.
        port: 0 takes any free one.
        tls: files for HTTPS.
        section: of the configuration, for messages.
        of_one_client: see `PageServer`.

    Returns:
        The port in use.

    Raises:
        ConfigurationError: the address cannot be listened on, or a file of TLS cannot be used.
    """
    served_tls = None if tls is None else ServedTls(tls)
    try:
        server = PageServer((address, port), served_tls, of_one_client=of_one_client)
    except (OSError, OverflowError) as error:
        what = "metrics cannot listen" if section == "metrics" else "cannot listen"
        raise ConfigurationError(
            f"{what} on {address}:{port} ({error}): set [{section}] port to a free one."
        ) from None
    server.set_app(pages)
    thread = threading.Thread(target=server.serve_forever, args=(_LOOK,), name=section, daemon=True)
    thread.start()
    return int(server.server_port)
