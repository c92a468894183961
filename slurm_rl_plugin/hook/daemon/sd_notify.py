"""Tell systemd that the daemon is ready, alive or stopping; silent where systemd is not there."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping


def sd_notify(message: str, environment: Mapping[str, str]) -> None:
    """Send `READY=1`, `WATCHDOG=1` or `STOPPING=1` to the socket that systemd named.

    Args:
        message: the assignment to send.
        environment: where NOTIFY_SOCKET is looked up.
    """
    address = environment.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.sendto(message.encode(), address)
