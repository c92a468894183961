"""Serves pages over TCP, with or without TLS, or at a socket of this host.

cheroot reads heads and bodies, which it bounds, and has the threads. It does not bound how long a
head takes, nor how many connections one client holds: `OpenConnections` does, so that a client
that opens connections and sends nothing keeps no other client out.
"""

from __future__ import annotations

import errno
import io
import json
import logging
import math
import os
import select
import socket
import ssl
import stat
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cheroot import makefile, server, wsgi
from cheroot.errors import FatalSSLAlert
from cheroot.ssl import Adapter

from slurm_rl_plugin.errors import ConfigurationError, RequestRefused
from slurm_rl_plugin.serving.clients import LOCAL_USER, NAMELESS, NEWCOMERS, LocalUsers, client_of
from slurm_rl_plugin.serving.tls import ServedTls, TlsFiles

logger = logging.getLogger(__name__)


#: Bytes of the longest body of a request.
LONGEST_BODY = 8192
#: A WSGI application (PEP 3333).
Pages = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
#: Status for a client that asks too often.
TOO_OFTEN = "429 Too Many Requests"


@dataclass(frozen=True, slots=True)
class Page:
    """The body of an answer."""

    body: bytes
    kind: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()  #: further ones

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Page:
        """A document as JSON."""
        return cls(json.dumps(document).encode() + b"\n")


@dataclass(frozen=True, slots=True)
class JsonPages:
    """A WSGI application that answers with pages or with a refusal, by default in JSON."""

    service: str
    answer: Callable[[Mapping[str, Any]], Page]
    refused: Callable[[str], None] | None = None
    refusal: Callable[[Mapping[str, Any], RequestRefused], Page] = lambda _, error: Page.of(
        {"error": str(error)}
    )

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answer one request, whatever it is."""
        more: list[tuple[str, str]] = []
        try:
            status, page = "200 OK", self.answer(environ)
        except RequestRefused as error:
            status, page = error.status, self.refusal(environ, error)
            if self.refused is not None:
                self.refused(status)
            if error.retry_after is not None:
                more.append(("Retry-After", str(math.ceil(error.retry_after))))
            if status.startswith("401"):
                more.append(("WWW-Authenticate", "Bearer"))
        except Exception:  # our bug must show in the log, not end the thread without a word
            logger.exception("%s=broken", self.service)
            status = "500 Internal Server Error"
            page = Page.of({"error": "see the log of the service."})
        headers = [
            ("Content-Type", page.kind),
            ("Content-Length", str(len(page.body))),
            ("Cache-Control", "no-store"),
            *page.headers,
        ]
        start_response(status, [*headers, *more])
        return [page.body]


def body_of(environ: Mapping[str, Any]) -> bytes:
    """The body of a request, of at most LONGEST_BODY bytes."""
    length = length_of(str(environ.get("CONTENT_LENGTH") or ""))
    if length is None:
        raise RequestRefused("411 Length Required", "give Content-Length.")
    if length > LONGEST_BODY:
        words = f"the body is longer than {LONGEST_BODY} bytes."
        raise RequestRefused("413 Content Too Large", words)
    body: bytes = environ["wsgi.input"].read(length)
    if len(body) < length:
        raise RequestRefused("400 Bad Request", "the body ends too early.")
    return body


def length_of(text: str) -> int | None:
    """Bytes that a header `Content-Length` names; None where it names none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else None


#: Connections that are served at a time, and of them those of one client.
MOST_CONNECTIONS = 64
OF_ONE_CLIENT = MOST_CONNECTIONS // 2
#: Of all users of this host together that have no login name, and of all whose name is not known
#: yet: each is one of these for its first request.
OF_NAMELESS, OF_NEWCOMERS = 4, 8
_OF_MANY_USERS = {NAMELESS: OF_NAMELESS, NEWCOMERS: OF_NEWCOMERS}
#: Seconds that a client has to send its request, TLS included.
REQUEST_DEADLINE = 5.0
#: Seconds after which a client that has sent nothing is silent: on a busy host it needs some.
_BREATH = 0.5
#: Seconds for which it may leave an answer unread.
DEADLINE = 10.0
#: Seconds that all of it may take, the making of the answer included.
ANSWER_DEADLINE = 60.0


@dataclass(slots=True)
class _Connection:
    client: str
    since: float  #: when it was opened, seconds
    asked: bool = False  #: the whole request has come
    #: Since when the client leaves the answer unread, seconds; inf while it reads, or before.
    untaken: float = math.inf


@dataclass(slots=True)
class OpenConnections:
    """The connections that are served now, oldest first; safe for threads.

    Where places are short, the newcomer is served and the connection ends that has kept us waiting
    longest; never one whose request has come, while its answer is made.
    """

    _served: dict[socket.socket, _Connection] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def has_room(self, address: str) -> bool:
        """Whether a connection of this address may be served in addition to all others."""
        with self._lock:
            return not self._in_the_way(address)

    def make_room(self, address: str, now: float) -> bool:
        """End one so that one of this address may be served; False if each is being answered."""
        with self._lock:
            clients = self._in_the_way(address)
            return not clients or self._put_out(clients, now)

    def _in_the_way(self, address: str) -> set[str]:
        """Clients that must lose a connection; empty if there is room."""
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
        """Note that the request has come whole, and its client; whether it keeps its place."""
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

    def _put_out(self, clients: set[str], now: float) -> bool:
        """End the oldest connection of these clients that waits for its client, if there is one."""
        theirs = [item for item in self._served.items() if item[1].client in clients]
        asking = [item for item in theirs if not item[1].asked]
        # one that has just come may not have spoken yet; bytes that lie unread came just now
        silent = [
            connection
            for connection, each in asking
            if now - each.since > _BREATH and not _ready(connection, select.POLLIN) & select.POLLIN
        ]
        untaken = [connection for connection, each in theirs if each.asked and _is_full(connection)]
        for connection in [*silent, *untaken, *(connection for connection, _ in asking)]:
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


#: Bytes of the longest head of a request.
LONGEST_HEAD = 16384
#: Bytes of a body that are read and thrown away, so that its sender hears why it is refused.
_SWALLOWED = 1 << 20
_CHUNK = 1 << 16
#: Seconds between two newcomers while all places are taken; the others wait in the backlog. A
#: client that comes in a flood of connections has OF_ONE_CLIENT times as long for its request.
_PACE = 0.01
#: Paces for which a newcomer waits at most until threads have taken those before it.
_PATIENCE = 50
#: What accept(2) says while no descriptor or memory is left.
_NOTHING_LEFT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
#: Seconds between looks for connections past their deadline.
LOOK = 0.5


class _Joined(dict[bytes, bytes]):
    """Headers; a repeated one has all its values, since the last one alone must not count."""

    def __setitem__(self, name: bytes, value: bytes) -> None:
        first = self.get(name)
        if first is not None and not value.startswith(first + b", "):  # else cheroot has joined it
            value = first + b", " + value
        super().__setitem__(name, value)


class _Head(server.HeaderReader):
    """Refuses heads that cheroot cannot read, and takes no length from a body in chunks.

    A header with an underscore is dropped: for WSGI it has the name of one with a hyphen, so a
    client could speak for the proxy that sets the latter.
    """

    def __call__(self, rfile: Any, hdict: dict[bytes, bytes] | None = None) -> dict[bytes, bytes]:
        found = _Joined()
        try:
            super().__call__(rfile, found)
        except UnboundLocalError:  # the first line continues the one before it
            raise ValueError("Illegal header line.") from None
        # A malformed chunk would be our error 500. Without a length the pages ask for one: 411.
        if found.pop(b"Transfer-Encoding", None) is not None:
            found.pop(b"Content-Length", None)
        given = {} if hdict is None else hdict
        given.update(found)
        return given

    def _allow_header(self, key_name: bytes) -> bool:
        return b"_" not in key_name  # cheroot's own reader that drops these fails on bytes


class _Request(server.HTTPRequest):
    """One request; see `_Head`."""

    header_reader = _Head()

    def read_request_line(self) -> bool:
        """Read the first line; an address that urllib cannot split is a client's fault, too."""
        try:
            return bool(super().read_request_line())  # type: ignore[no-untyped-call]
        except ValueError:
            self.simple_response("400 Bad Request", "Malformed Request-URI")
            return False


class _TimedConnection(server.HTTPConnection):
    """One connection; TLS begins in its own thread, never in the one that accepts."""

    RequestHandlerClass = _Request

    def communicate(self) -> bool:
        """Serve one request; False, because no connection is kept for a second one."""
        if isinstance(self.socket, ssl.SSLSocket):
            try:
                self.socket.do_handshake()
            except OSError:
                return False
        return bool(super().communicate())  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """Free its place; throw away what came and was not read, or the answer would be lost."""
        self.server.places.ended(self.socket)  # its client waits for nothing any more
        left = _SWALLOWED
        with suppress(OSError):  # not SSLSocket's own recv, which would decrypt
            self.socket.settimeout(0.0)  # with one, recv would wait for a client that says no more
            while left > 0 and (got := socket.socket.recv(self.socket, _CHUNK)):
                left -= len(got)
        try:
            super().close()
        except (OSError, ValueError):  # a fault here would end the thread, and then all others
            logger.debug("http=unclosed", exc_info=True)
            socket.socket.close(self.socket)


class _WholeRequest(wsgi.Gateway_10):
    """Reads the body before the pages are called: from then on the client waits for us."""

    def respond(self) -> None:
        connection, served = self.req.conn, self.req.server
        # not cheroot's own readers: they bound neither a chunk's line nor a length below 0
        named = b"" if self.req.chunked_read else self.req.inheaders.get(b"Content-Length", b"")
        length = length_of(named.decode("latin-1"))
        self.env["CONTENT_LENGTH"] = "" if length is None else str(length)
        left = length or 0
        body = connection.rfile.read(min(left, LONGEST_BODY))
        left -= len(body)
        while left > 0 and (more := connection.rfile.read(min(left, _CHUNK))):
            left -= len(more)
        self.env["wsgi.input"] = io.BytesIO(body)
        client, number = str(connection.remote_addr), None
        if client.startswith(LOCAL_USER):
            number = int(client.removeprefix(LOCAL_USER))
            client = served.users.client(number)
        if not served.places.asked(connection.socket, client):
            raise BrokenPipeError(errno.EPIPE, "another connection has its place")
        if number is not None:  # it keeps its place while the name service is slow, as its thread
            self.env["REMOTE_USER"] = served.users.name(number)
            served.places.asked(connection.socket, served.users.client(number))
        super().respond()


class _Tls(Adapter):
    """TLS of renewed files, whose handshake is left to the connection's thread."""

    def __init__(self, served: ServedTls) -> None:
        self._served = served

    def bind(self, sock: socket.socket) -> socket.socket:
        return sock

    def wrap(self, sock: socket.socket) -> tuple[ssl.SSLSocket, dict[str, Any]]:
        """A connection that has still to shake hands."""
        context = self._served.renewed()
        try:
            wrapped = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        except (OSError, ValueError) as error:  # the client has gone already
            sock.close()
            raise FatalSSLAlert(*error.args) from None
        return wrapped, {"wsgi.url_scheme": "https"}

    def get_environ(self) -> dict[str, Any]:
        """No more than `wrap` says."""
        return {}

    def makefile(self, sock: socket.socket, mode: str = "r", bufsize: int = -1) -> Any:
        return makefile.MakeFile(sock, mode, bufsize)


class PageServer(wsgi.Server):
    """Serves pages in a bounded number of threads, each with a deadline."""

    ConnectionClass = _TimedConnection
    max_request_header_size = LONGEST_HEAD
    max_request_body_size = _SWALLOWED
    keep_alive_conn_limit = 0

    def __init__(
        self,
        bind_addr: tuple[str, int] | str,
        pages: Pages,
        tls: ServedTls | None = None,
        users: LocalUsers | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(
            bind_addr,
            pages,
            numthreads=MOST_CONNECTIONS,
            max=MOST_CONNECTIONS,
            server_name="slurm-rl",
            request_queue_size=1024,
            timeout=int(DEADLINE),
            peercreds_enabled=isinstance(bind_addr, str),
        )
        self.gateway = _WholeRequest
        self.ssl_adapter = None if tls is None else _Tls(tls)
        self.places = OpenConnections()
        self.users = LocalUsers() if users is None else users
        self._monotonic = monotonic
        self._refused: OSError | None = None

    def process_conn(self, conn: server.HTTPConnection) -> None:
        """Give a new connection a place, or close it if each of its client's is being answered."""
        if isinstance(self.bind_addr, str):
            number = conn.peer_uid
            conn.remote_addr, client = f"{LOCAL_USER}{number}", self.users.client(number)
        else:
            client = conn.remote_addr
        if not self.places.has_room(client):
            has_waited = self._catch_up()
            if not self.places.make_room(client, self._monotonic()):
                conn.close()  # at once: those behind it in the backlog may have a place
                return
            time.sleep(0.0 if has_waited else _PACE)
        self.places.begin(conn.socket, client, self._monotonic())
        super().process_conn(conn)

    def _catch_up(self) -> bool:
        """Wait for the threads: no connection is ended because none has read it; whether it did."""
        paces = 0
        while self.requests.qsize and paces < _PATIENCE:
            time.sleep(_PACE)
            paces += 1
        return paces > 0

    def prepare(self) -> None:
        """Listen on the configured address, never on a socket that systemd gave a parent."""
        os.environ.pop("LISTEN_PID", None)  # cheroot would serve descriptor 3, whatever that is
        super().prepare()

    def bind(self, family: int, type: int, proto: int = 0) -> socket.socket:  # noqa: A002 - inherited
        """Bind, and remember why it failed: cheroot's own message quotes it in Python's words."""
        try:
            return super().bind(family, type, proto)  # type: ignore[no-any-return]
        except OSError as error:
            self._refused = error
            raise

    def bind_unix_socket(self, bind_addr: str) -> socket.socket:
        """Bind to a path that any user who reaches its folder may connect to."""
        path = Path(bind_addr)
        try:
            _remove_dead_socket(path)
            before = os.umask(0o111)
            try:
                found: socket.socket = super().bind_unix_socket(bind_addr)  # type: ignore[no-untyped-call]
                return found
            finally:
                os.umask(before)
        except OSError as error:
            self._refused = error
            raise

    def error_log(self, msg: str = "", level: int = logging.INFO, traceback: bool = False) -> None:
        """Log nothing of a client that breaks off; a line for each would fill the journal."""
        del level
        logger.debug("http=%s", msg, exc_info=traceback)
        if getattr(sys.exc_info()[1], "errno", None) in _NOTHING_LEFT:  # accept less often
            time.sleep(LOOK)

    def run(self, ready: Future[None]) -> None:
        """Serve for ever."""
        try:
            self.prepare()
        except (OSError, OverflowError) as error:
            ready.set_exception(self._refused or error)
            return
        ready.set_result(None)
        threading.Thread(target=self._end_late, name="deadlines", daemon=True).start()
        self.serve()

    def _end_late(self) -> None:
        while self.ready:
            self.places.end_late(self._monotonic())
            time.sleep(LOOK)


def _remove_dead_socket(path: Path) -> None:
    with suppress(FileNotFoundError):
        if stat.S_ISSOCK(path.lstat().st_mode):
            with socket.socket(socket.AF_UNIX) as tried:
                try:
                    tried.connect(str(path))
                except ConnectionRefusedError:
                    path.unlink()
                    return
        raise FileExistsError(17, "Address already in use")


def serve_pages(
    pages: Pages, address: str, port: int, tls: TlsFiles | None = None, *, section: str
) -> int:
    """Serve pages over HTTP, or HTTPS, in threads that end with the process.

    `address` is "" for every one, `port` 0 for any free one; messages name `section` of the
    configuration. The result is the port in use.
    """
    served_tls = None if tls is None else ServedTls(tls)
    found = PageServer((address or "0.0.0.0", port), pages, served_tls)  # noqa: S104
    try:
        _start(found, section)
    except (OSError, OverflowError) as error:
        what = "metrics cannot listen" if section == "metrics" else "cannot listen"
        raise ConfigurationError(
            f"{what} on {address}:{port} ({error}): set [{section}] port to a free one."
        ) from None
    return int(found.bind_addr[1])


def serve_pages_locally(
    pages: Pages, path: Path, *, section: str, users: LocalUsers | None = None
) -> None:
    """Serve pages at a socket of this host, in threads that end with the process.

    Each request's REMOTE_ADDR is `uid:` and the number of the user, for which the kernel vouches;
    REMOTE_USER is the user's login name, "" for none.
    """
    try:
        _start(PageServer(str(path), pages, users=users), section)
    except OSError as error:
        raise ConfigurationError(
            f"cannot listen on {path} ({error.strerror or error}): let this user write its folder, "
            f"or set [{section}] socket to another path."
        ) from None


def _start(found: PageServer, name: str) -> None:
    """Serve in a daemon thread; cheroot's threads inherit that, so none outlives the process."""
    ready: Future[None] = Future()
    threading.Thread(target=found.run, args=(ready,), name=name, daemon=True).start()
    ready.result()
