"""The connections that are served at a time: how many, how long, and which one makes room.

If all places are taken, or all that one client may have, the newcomer is served and the connection
that has kept us waiting longest is ended: a client that opens connections and says little puts out
its own. A connection whose request has come is never ended to make room while its answer is made.
An answer may take longer to make than a client may take to ask for it or to read it.
"""

from __future__ import annotations

import math
import select
import socket
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

from slurm_rl_plugin.serving.clients import NAMELESS, NEWCOMERS, client_of

#: Connections that are served at a time, and of them those of one client.
MOST_CONNECTIONS = 64
OF_ONE_CLIENT = MOST_CONNECTIONS // 2
#: Of all users of this host together that have no login name, and of all whose name is not known
#: yet: each is one of these for its first request.
OF_NAMELESS, OF_NEWCOMERS = 4, 8
_OF_MANY_USERS = {NAMELESS: OF_NAMELESS, NEWCOMERS: OF_NEWCOMERS}
#: Seconds that a client has to send its request, TLS included.
REQUEST_DEADLINE = 5.0
#: Seconds for which it may leave an answer unread.
DEADLINE = 10.0
#: Seconds that all of it may take, the making of the answer included.
ANSWER_DEADLINE = 60.0


@dataclass(slots=True)
class _Connection:
    """A connection that is being served.

    Attributes:
        client: its client.
        since: when it was opened, seconds.
        asked: whether the whole request has come.
        untaken: since when the client has left the answer unread, seconds; inf if it reads, or if
            there is no answer yet.
    """

    client: str
    since: float
    asked: bool = False
    untaken: float = math.inf


@dataclass(slots=True)
class OpenConnections:
    """The connections that are served now, oldest first; safe for threads."""

    _served: dict[socket.socket, _Connection] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def has_room(self, address: str) -> bool:
        """Whether a connection of this address may be served in addition to all others."""
        with self._lock:
            return not self._in_the_way(address)

    def make_room(self, address: str) -> bool:
        """End one so that one of this address may be served; False if each is being answered."""
        with self._lock:
            clients = self._in_the_way(address)
            return not clients or self._put_out(clients)

    def _in_the_way(self, address: str) -> set[str]:
        """Clients of which one connection has to go; empty if there is room."""
        client = client_of(address)
        places = Counter(each.client for each in self._served.values())
        if places[client] >= _OF_MANY_USERS.get(client, OF_ONE_CLIENT):
            return {client}
        if len(self._served) < MOST_CONNECTIONS:
            return set()
        most = max(places.values())
        return {who for who, count in places.items() if count == most}

    def begin(self, connection: socket.socket, address: str, now: float) -> None:
        """Count a connection as served from now on, seconds of the server's clock."""
        with self._lock:
            self._served[connection] = _Connection(client_of(address), now)

    def asked(self, connection: socket.socket, address: str) -> bool:
        """Note that the connection's whole request has come, and from which client it is.

        Returns:
            Whether it still has its place.
        """
        with self._lock:
            if connection not in self._served:
                return False
            self._served[connection].asked = True
            self._served[connection].client = client_of(address)
            return True

    def ended(self, connection: socket.socket) -> None:
        """Count a connection as served no longer."""
        with self._lock:
            self._served.pop(connection, None)

    def end_late(self, now: float) -> None:
        """End those past their deadline; their threads then see a broken connection.

        A client that is waiting for its answer times out only after ANSWER_DEADLINE.
        """
        with self._lock:
            late = [item[0] for item in self._served.items() if _is_late(*item, now)]
            for connection in late:
                self._end(connection)

    def _put_out(self, clients: set[str]) -> bool:
        """End the oldest connection of these clients that waits for its client, if there is one."""
        theirs = [item for item in self._served.items() if item[1].client in clients]
        silent = [connection for connection, each in theirs if not each.asked]
        untaken = [connection for connection, each in theirs if each.asked and _is_full(connection)]
        # bytes that lie unread came just now, so their sender does not keep us waiting
        unread = {connection for connection in silent if _says_something(connection)}
        for connection in [*(each for each in silent if each not in unread), *untaken, *silent]:
            self._end(connection)
            return True
        return False

    def _end(self, connection: socket.socket) -> None:
        self._served.pop(connection, None)
        with suppress(OSError):  # not SSLSocket's own, which is not for other threads
            socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _is_late(connection: socket.socket, each: _Connection, now: float) -> bool:
    if not each.asked:
        return now - each.since > REQUEST_DEADLINE
    each.untaken = min(each.untaken, now) if _is_full(connection) else math.inf
    return now - each.untaken > DEADLINE or now - each.since > ANSWER_DEADLINE


def _says_something(connection: socket.socket) -> bool:
    return bool(_ready(connection, select.POLLIN) & select.POLLIN)


def _is_full(connection: socket.socket) -> bool:
    """Whether the client leaves what we send untaken."""
    return not _ready(connection, select.POLLOUT)


def _ready(connection: socket.socket, what: int) -> int:
    poll = select.poll()
    try:
        poll.register(connection, what)
    except (OSError, ValueError):  # closed meanwhile
        return what
    return sum(event for _, event in poll.poll(0))
