"""Forwards a request to the sites that this one knows, as a MetaManager does (2002, section 4).

A site that gets a request for the first time asks the sites of its own list, while the request has
hops left and its time to live lasts. Only offers are asked for: nothing is submitted anywhere.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from slurm_rl_plugin.brokers.live.job_document import Forwarding
from slurm_rl_plugin.domain.site import JobRequest, SiteOffer
from slurm_rl_plugin.errors import RequestRefused

logger = logging.getLogger(__name__)

#: Part of the time to live for which a site waits for others; the rest is for its own answer.
_WAITS = 0.8
#: Requests that are remembered, so that each is answered once.
_MOST_SEEN = 4096
_SEEN = "409 Conflict"


#: Asks sites about a job within so many seconds: their offers, and why others made none, by name.
AskOthers = Callable[[JobRequest, Forwarding], tuple[Sequence[SiteOffer], Mapping[str, str]]]


class Forwarder:
    """Asks the sites that this one knows; safe for threads.

    Args:
        ask: asks all of them, within `time_to_live`.
        most_hops: that a request may be forwarded from here on, whatever it says.
    """

    def __init__(self, ask: AskOthers, most_hops: int) -> None:
        self._ask, self._most_hops = ask, most_hops
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._complaints: dict[str, str] = {}
        self._lock = threading.Lock()

    def begin(self, request: JobRequest, forwarding: Forwarding) -> Callable[[], list[SiteOffer]]:
        """Begin to ask; what is returned waits for the offers, for a part of the time to live.

        Raises:
            RequestRefused: the request was here before.
        """
        with self._lock:
            if forwarding.request_id in self._seen:
                raise RequestRefused(_SEEN, "this request was here before.")
            self._seen[forwarding.request_id] = None
            while len(self._seen) > _MOST_SEEN:
                self._seen.popitem(last=False)
        hops = min(forwarding.hops, self._most_hops)
        if hops == 0:
            return list
        left = forwarding.time_to_live * _WAITS
        onward = replace(forwarding, hops=hops - 1, time_to_live=left)
        found: list[SiteOffer] = []

        def ask() -> None:
            offers, silent = self._ask(request, onward)
            found.extend(offers)
            self._complain(silent)

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()

        def collect() -> list[SiteOffer]:
            asking.join(left)
            return [*found]

        return collect

    def _complain(self, silent: Mapping[str, str]) -> None:
        """Log why a site makes no offer, where that is news."""
        for site, why in silent.items():
            with self._lock:
                news = self._complaints.get(site) != why
                self._complaints[site] = why
            if news:
                logger.info("forward=none site=%s reason=%s", site, why)
