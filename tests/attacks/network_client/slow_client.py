"""A client that takes every place it can get; a process of its own, ended by who started it.

Arguments: port, number of connections, source address or `many` for another one each time, what it
does (a key of FIRST_WORDS), seconds between new connections.
"""

from __future__ import annotations

import random
import select
import socket
import sys
import time

LINE = b"X-Long: " + b"a" * 65000 + b"\r\n"
FIRST_WORDS = {
    "silent": b"",
    "bytes": b"GET /metrics HTTP/1.1\r\nX-",
    "untaken": b"GET /metrics HTTP/1.0\r\n\r\n",
    "head": b"GET /metrics HTTP/1.1\r\n",
    "body": b"POST /offer HTTP/1.1\r\nContent-Length: 8000\r\n\r\n",
    "chunk": b"POST /offer HTTP/1.1\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n",
    "negative": b"POST /offer HTTP/1.1\r\nContent-Length: -1\r\nContent_Length: 9\r\n\r\n",
}
#: What is sent again and again: `chunk` is the size of a chunk, a line without an end.
MORE = {"bytes": b"x", "head": LINE, "chunk": b"1" * 65000, "negative": LINE}


def opened(port: int, source: str, words: bytes) -> socket.socket | None:
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    connection.settimeout(2.0)
    try:
        octets = (random.randrange(1, 255) for _ in range(3))
        connection.bind((source if source != "many" else "127." + ".".join(map(str, octets)), 0))
        connection.connect(("127.0.0.1", port))
        connection.sendall(words)
    except OSError:
        connection.close()
        return None
    connection.setblocking(False)
    return connection


def is_gone(connection: socket.socket, kind: str) -> bool:
    """Whether the server has ended it; where asked for, a byte or a line more is sent."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    if poll.poll(0):
        return True
    more = MORE.get(kind, b"")
    try:
        return bool(more) and connection.send(more) == 0
    except BlockingIOError:
        return False
    except OSError:
        return True


def main() -> None:
    port, number, source, kind = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    pause = float(sys.argv[5])
    held: list[socket.socket] = []
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        for each in [each for each in held if is_gone(each, kind)]:
            held.remove(each)
            each.close()
        if len(held) < number:
            fresh = opened(port, source, FIRST_WORDS[kind])
            held += [] if fresh is None else [fresh]
        time.sleep(pause)


main()
