"""Serves pages: few threads, each with a deadline, and the process waits for none of them.

The metrics are served so, and the offers to brokers.

A client that opens connections and says nothing must cost the head node next to nothing and keep
nobody out: see `open_connections`. TLS begins in the connection's own thread, never in the one that
accepts.
"""

from __future__ import annotations

import io
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, TextIO
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.metrics.open_connections import DEADLINE, MOST_CONNECTIONS, OpenConnections
from slurm_rl_plugin.metrics.pages import Pages, metrics_pages
from slurm_rl_plugin.metrics.tls import ServedTls, TlsFiles

logger = logging.getLogger(__name__)

#: Bytes of a body that is waited for before its request is answered; a longer one is refused.
_SHORT_BODY = 65536
#: Seconds that a connection which was put out may take to give its place to the next.
_PLACE = 1.0
#: Seconds between two newcomers while all places are taken: OF_ONE_CLIENT times as long has who
#: comes in a flood of connections to say what he wants. Meanwhile the others wait in the backlog.
_PACE = 0.002
#: Seconds between looks for connections past their deadline.
LOOK = 0.5


class QuietHandler(WSGIRequestHandler):
    """Serves one request; what a client does wrong is not logged."""

    server: PageServer

    def parse_request(self) -> bool:
        """Read head and body: only then does an answer wait for us and no more for the client."""
        if not super().parse_request():
            return False
        length = str(self.headers.get("Content-Length", "0"))
        if not (length.isascii() and length.isdigit() and len(length) < 6):
            return True
        if int(length) <= _SHORT_BODY:
            body = self.rfile.read(int(length))
            self.rfile.close()
            self.rfile = io.BytesIO(body)
            self.server.connections.asked(self.request)
        return True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is inherited
        """Log nothing: a line for each scrape would fill the journal."""

    def get_stderr(self) -> TextIO:
        """A buffer that nobody reads: wsgiref reports each broken connection to it."""
        return io.StringIO()


class PageServer(ThreadingMixIn, WSGIServer):
    """Serves pages in threads of bounded number and life.

    Args:
        address: host and port.
        tls: for HTTPS.
        monotonic: clock of the deadlines, seconds.

    Raises:
        OSError: the address cannot be listened on.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024
    allow_reuse_address = True

    def __init__(
        self,
        address: tuple[str, int],
        tls: ServedTls | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tls, self._monotonic = tls, monotonic
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self.connections = OpenConnections()
        host, port = address
        found = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        self.address_family = found[0][0]
        super().__init__(found[0][4][:2], QuietHandler)  # type: ignore[arg-type] # a host, a port

    def server_bind(self) -> None:
        """Bind without asking DNS for the host's name, which may take long."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]
        self.setup_environ()

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept; nothing is read here, so nobody can hold up the others."""
        connection, client = super().get_request()
        if not self.connections.has_room(client[0]):  # before TLS, which costs time
            time.sleep(_PACE)
            if not self.connections.make_room(client[0]):
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

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give the connection a thread of its own, or close it where all are taken."""
        if not self._free.acquire(timeout=_PLACE):
            self.shutdown_request(request)
            return
        self.connections.begin(request, client_address[0], self._monotonic())
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
        """Finish the TLS handshake, in the thread of the request, then answer."""
        if isinstance(request, ssl.SSLSocket):
            request.do_handshake()
        super().finish_request(request, client_address)

    def _done(self, request: socket.socket) -> None:
        self.connections.ended(request)
        self._free.release()

    def service_actions(self) -> None:
        """End connections past their deadline."""
        self.connections.end_late(self._monotonic())

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing of a client that breaks off, or does not speak TLS."""
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
) -> int:
    """Serve pages over HTTP, or HTTPS, in threads that end with the process.

    Args:
        pages: the WSGI application.
        address: to listen on.
        port: 0 takes any free one.
        tls: files for HTTPS.
        section: of the configuration, for messages.

    Returns:
        The port in use.

    Raises:
        ConfigurationError: the address cannot be listened on, or a file of TLS cannot be used.
    """
    served_tls = None if tls is None else ServedTls(tls)
    try:
        server = PageServer((address, port), served_tls)
    except (OSError, OverflowError) as error:
        what = "metrics cannot listen" if section == "metrics" else "cannot listen"
        raise ConfigurationError(
            f"{what} on {address}:{port} ({error}): set [{section}] port to a free one."
        ) from None
    server.set_app(pages)
    thread = threading.Thread(target=server.serve_forever, args=(LOOK,), name=section, daemon=True)
    thread.start()
    return int(server.server_port)
