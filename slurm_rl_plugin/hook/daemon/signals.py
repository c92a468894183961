"""Requests of signal handlers to the daemon, and messages to systemd."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass

#: Longest time until a signal is noticed, seconds.
_TICK = 0.2


@dataclass(slots=True)
class SignalRequest:
    """A request without a lock, which threading.Event could hold when a handler interrupts it."""

    sleep: Callable[[float], None]
    made: bool = False

    def set(self) -> None:
        """Make the request; called from a signal handler, so it takes no lock."""
        self.made = True

    def clear(self) -> None:
        """Forget the request, since it is being served."""
        self.made = False

    def is_set(self) -> bool:
        """Whether a signal has made the request, which is not yet served."""
        return self.made

    def wait(self, timeout: float) -> bool:
        """Wait for the request, at most `timeout` seconds; whether it was made."""
        left = timeout
        while left > 0.0 and not self.made:
            self.sleep(min(left, _TICK))
            left -= _TICK
        return self.made


def sd_notify(message: str, environment: Mapping[str, str]) -> None:
    """Send `READY=1`, `WATCHDOG=1` or `STOPPING=1` to systemd; nothing where it is not there."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.sendto(message.encode(), address)
