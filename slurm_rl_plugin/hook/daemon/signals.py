"""What signal handlers ask of the daemon: to stop, or to read its configuration again."""

from __future__ import annotations

from collections.abc import Callable
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
        """Wait for the request, at most so many seconds; whether it was made."""
        left = timeout
        while left > 0.0 and not self.made:
            self.sleep(min(left, _TICK))
            left -= _TICK
        return self.made
