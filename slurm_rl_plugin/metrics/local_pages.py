"""Serves pages at a socket of this host, where the kernel tells who asks."""

from __future__ import annotations

import socket
import stat
import struct
import threading
import time
from contextlib import suppress
from pathlib import Path
from socketserver import TCPServer
from typing import Any
from wsgiref.simple_server import WSGIServer

from slurm_rl_plugin.domain.client_address import LOCAL_USER
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.metrics.http import LOOK, PageServer, QuietHandler
from slurm_rl_plugin.metrics.open_connections import DEADLINE, MOST_CONNECTIONS, OpenConnections
from slurm_rl_plugin.metrics.pages import Pages

#: What the kernel tells of the other end of a local socket: process, user and group.
_PEER = struct.Struct("3i")


class LocalPageServer(PageServer):
    """Serves pages at a socket of this host; the kernel tells who asks.

    Args:
        path: of the socket; one that a killed service left is replaced.

    Raises:
        OSError: the path cannot be listened on, or somebody listens there.
    """

    address_family = socket.AF_UNIX
    allow_reuse_address = False

    def __init__(self, path: Path) -> None:
        self._tls, self._monotonic = None, time.monotonic
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self.connections = OpenConnections()
        _remove_dead_socket(path)
        WSGIServer.__init__(self, str(path), QuietHandler)  # type: ignore[arg-type] # a path
        path.chmod(0o666)  # whoever reaches the folder may ask; who he is decides what he hears

    def server_bind(self) -> None:
        """Bind to the path."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "localhost", 0
        self.setup_environ()

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept; the client's address is the number of his user."""
        connection, _ = TCPServer.get_request(self)
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        client = f"{LOCAL_USER}{_PEER.unpack(peer)[1]}"
        if not self.connections.has_room(client) and not self.connections.make_room(client):
            connection.close()
            raise ConnectionRefusedError
        connection.settimeout(DEADLINE)
        return connection, (client, 0)


def _remove_dead_socket(path: Path) -> None:
    """Remove a socket at which nobody listens any more; anything else is left."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return
        with socket.socket(socket.AF_UNIX) as tried:
            try:
                tried.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()


def serve_pages_locally(pages: Pages, path: Path, *, section: str) -> None:
    """Serve pages at a socket of this host, in threads that end with the process.

    Each request's REMOTE_ADDR is `uid:` and the number of the user who asks.

    Args:
        pages: the WSGI application.
        path: of the socket.
        section: of the configuration, for messages.

    Raises:
        ConfigurationError: the path cannot be listened on.
    """
    try:
        server = LocalPageServer(path)
    except OSError as error:
        raise ConfigurationError(
            f"cannot listen on {path} ({error.strerror or error}): let this user write its folder, "
            f"or set [{section}] socket to another path."
        ) from None
    server.set_app(pages)
    thread = threading.Thread(target=server.serve_forever, args=(LOOK,), name=section, daemon=True)
    thread.start()
