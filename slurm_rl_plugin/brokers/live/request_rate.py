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

    def pause(self, client: str, cost: float = 1.0) -> float:
        """Take one request of this client; seconds after which he may ask, 0 where he may now.

        Args:
            client: his address.
            cost: requests that it counts as, at most as many as he may make at once.
        """
        with self._lock:
            left = self._left_of(client)
            granted = left >= cost
            self._keep(client, left - cost * granted)
        return 0.0 if granted else (cost - left) / self._per_second

    def give_back(self, client: str, requests: float) -> None:
        """Count fewer requests of this client than were taken, or more where it is negative."""
        with self._lock:
            self._keep(client, min(self._at_once, self._left_of(client) + requests))

    def _left_of(self, client: str) -> float:
        """Requests that he may make now; below 0 where he owes some."""
        now = self._monotonic()
        left, since = self._left.get(client_of(client), (self._at_once, now))
        return min(self._at_once, left + (now - since) * self._per_second)

    def _keep(self, client: str, left: float) -> None:
        who = client_of(client)
        self._left[who] = (left, self._monotonic())
        self._left.move_to_end(who)
        while len(self._left) > MOST_CLIENTS:
            self._left.popitem(last=False)
