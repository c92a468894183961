"""The pages of the offer service: who may ask, how often, and how much a request may say.

POST /offer answers a job with an offer, POST /accept binds it, GET /utilities tells what the site
publishes of itself.

A client without the token learns nothing but that, and takes no request from clients that have it,
even if they share its address.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from slurm_rl_plugin.brokers.live.own_utilities import PERIOD
from slurm_rl_plugin.brokers.live.recent_starts import BUSY
from slurm_rl_plugin.brokers.live.strict_json import strict_object
from slurm_rl_plugin.domain.site import PublishedUtilities
from slurm_rl_plugin.errors import RequestRefused
from slurm_rl_plugin.serving.clients import RequestRate, SharedToken
from slurm_rl_plugin.serving.json_pages import TOO_OFTEN, JsonPages, Page, body_of

logger = logging.getLogger(__name__)

#: Pages and their methods.
OFFER, ACCEPT, UTILITIES = "/offer", "/accept", "/utilities"
_METHODS = {OFFER: "POST", ACCEPT: "POST", UTILITIES: "GET"}
#: Seconds between lines of the log on refusals.
_LOG_EVERY = 60.0


@dataclass(slots=True)
class OfferPages:
    """The WSGI application of the offer service: checks token and rate, then asks the desk.

    Attributes:
        answer: `OfferDesk.answer`.
        token: who may ask.
        rate: how often a client that gives it may ask.
        strangers: how often a client that gives none hears so; counted apart from `rate`.
        monotonic: seconds.
        utilities: what the site publishes now, None where nothing is fresh; no page where None.
        accept: `OfferDesk.accept`; no page where None.
    """

    answer: Callable[[Mapping[str, Any]], dict[str, Any]]
    token: SharedToken
    rate: RequestRate
    strangers: RequestRate
    monotonic: Callable[[], float]
    utilities: Callable[[], PublishedUtilities | None] | None = None
    accept: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
    _refused: Counter[str] = field(default_factory=Counter)
    _logged: float = -math.inf
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answer one request, whatever it is."""
        return JsonPages("offer", self._answered, self._note)(environ, start_response)

    def _answered(self, environ: Mapping[str, Any]) -> Page:
        self._let_in(environ)
        if (page := _page(environ)) != UTILITIES:
            asked = strict_object(body_of(environ))
            if page == ACCEPT and self.accept is not None:
                return Page.of(self.accept(asked))
            return Page.of(self.answer(asked))
        published = None if self.utilities is None else self.utilities()
        if published is None:
            raise RequestRefused(BUSY, "nothing fresh is published: ask again.", retry_after=PERIOD)
        return Page.of(published.document())

    def _let_in(self, environ: Mapping[str, Any]) -> None:
        known = self.token.is_in(str(environ.get("HTTP_AUTHORIZATION", "")))
        rate = self.rate if known else self.strangers
        pause = rate.pause(str(environ.get("REMOTE_ADDR", "")))
        if pause > 0.0:
            words = f"too many requests: ask again in {math.ceil(pause)} s."
            raise RequestRefused(TOO_OFTEN, words, retry_after=pause)
        if not known:
            raise RequestRefused("401 Unauthorized", "give the site's token.")
        page = _page(environ)
        if page not in _METHODS:
            raise RequestRefused("404 Not Found", "ask /offer.")
        if page == UTILITIES and self.utilities is None:
            raise RequestRefused("404 Not Found", "the site publishes no utilities: ask /offer.")
        if page == ACCEPT and self.accept is None:
            raise RequestRefused("404 Not Found", "no offer of this site binds: ask /offer.")
        if environ["REQUEST_METHOD"] != _METHODS[page]:
            raise RequestRefused("405 Method Not Allowed", f"use {_METHODS[page]}.")

    def _note(self, status: str) -> None:
        """Count a refusal; the log tells of all of them once in a while."""
        with self._lock:
            self._refused[status[:3]] += 1
            now = self.monotonic()
            if now - self._logged < _LOG_EVERY:
                return
            counts = " ".join(f"{each}:{count}" for each, count in sorted(self._refused.items()))
            self._logged = now
            self._refused.clear()
        logger.info("refused %s", counts)


def _page(environ: Mapping[str, Any]) -> str:
    return str(environ.get("PATH_INFO") or "/")
