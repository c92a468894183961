"""Tell systemd that the daemon is ready, alive or stopping; silent where systemd is not there."""

from __future__ import annotations

import socket
from collections.abc import Mapping


def sd_notify(message: str, environment: Mapping[str, str]) -> bool:
    """Send `READY=1`, `WATCHDOG=1` or `STOPPING=1` to the socket that systemd named.

    Args:
        message: the assignment to send.
        environment: where NOTIFY_SOCKET is looked up.

    Returns:
        Whether it was sent.
    """
    address = environment.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.sendto(message.encode(), address)
    except OSError:
        return False
    return True
