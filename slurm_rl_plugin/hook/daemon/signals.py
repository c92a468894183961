"""What signal handlers ask of the daemon."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

#: Longest time until a signal is noticed, seconds.
_TICK = 0.2


class Wish(Protocol):
    """What a signal handler asks for; threading.Event has this form too."""

    def set(self) -> None:
        """Wish it."""

    def clear(self) -> None:
        """Take the wish back."""

    def is_set(self) -> bool:
        """Whether it is wished."""
        ...

    def wait(self, timeout: float) -> bool:
        """Wait so many seconds, less if it is wished; whether it is."""
        ...


@dataclass(slots=True)
class SignalWish:
    """A wish without a lock: threading.Event's can be held when a handler interrupts its wait."""

    sleep: Callable[[float], None]
    wished: bool = False

    def set(self) -> None:
        """Wish it; called from a signal handler."""
        self.wished = True

    def clear(self) -> None:
        """Take the wish back."""
        self.wished = False

    def is_set(self) -> bool:
        """Whether it is wished."""
        return self.wished

    def wait(self, timeout: float) -> bool:
        """Wait so many seconds, less if it is wished; whether it is."""
        left = timeout
        while left > 0.0 and not self.wished:
            self.sleep(min(left, _TICK))
            left -= _TICK
        return self.wished
