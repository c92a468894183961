"""How often each client may ask: so many requests a minute, a few of them at once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from slurm_rl_plugin.domain.client_address import client_of

#: Clients that are remembered; whoever asked longest ago is forgotten first.
MOST_CLIENTS = 4096


class RequestRate:
    """A leaky bucket for each client; safe for threads.

    Args:
        per_minute: requests of one client in the long run.
        at_once: that he may make without a pause.
        monotonic: seconds.
    """

    def __init__(
        self, *, per_minute: float, at_once: float, monotonic: Callable[[], float]
    ) -> None:
        self._per_second = per_minute / 60.0
        self._at_once = max(at_once, 1.0)
        self._monotonic = monotonic
        self._lock = threading.Lock()
        #: client -> (requests that he may still make, when that was so).
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def pause(self, client: str) -> float:
        """Take one request of this client; seconds after which he may ask, 0 where he may now."""
        who, now = client_of(client), self._monotonic()
        with self._lock:
            left, since = self._left.pop(who, (self._at_once, now))
            left = min(self._at_once, left + (now - since) * self._per_second)
            granted = left >= 1.0
            self._left[who] = (left - granted, now)
            while len(self._left) > MOST_CLIENTS:
                self._left.popitem(last=False)
        return 0.0 if granted else (1.0 - left) / self._per_second
