"""The pages of the offer service: who may ask, how often, and how much he may say.

POST /offer answers a job with an offer, GET /utilities tells what the site publishes of itself.

Whoever has no token learns nothing but that, and takes no request from those who have it, although
he may have their address; the body is read after that, and not beyond its bound.
"""

from __future__ import annotations

import json
import logging
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from slurm_rl_plugin.brokers.live.own_utilities import PERIOD
from slurm_rl_plugin.brokers.live.recent_starts import BUSY
from slurm_rl_plugin.brokers.live.request_rate import RequestRate
from slurm_rl_plugin.brokers.live.shared_token import SharedToken
from slurm_rl_plugin.brokers.live.strict_json import BAD, strict_object
from slurm_rl_plugin.domain.published_utilities import PublishedUtilities
from slurm_rl_plugin.errors import OfferRefused

logger = logging.getLogger(__name__)

#: Bytes of the longest body.
LONGEST_BODY = 8192
#: Bytes of a longer one that are read and thrown away, so that its sender hears why.
_SWALLOWED = 1 << 20
_CHUNK = 1 << 16
#: Pages and their methods.
OFFER, UTILITIES = "/offer", "/utilities"
_METHODS = {OFFER: "POST", UTILITIES: "GET"}
#: Seconds between lines of the log on refusals.
_LOG_EVERY = 60.0


@dataclass(slots=True)
class OfferPages:
    """The WSGI application of the offer service: checks token and rate, then asks the desk.

    Attributes:
        answer: `OfferDesk.answer`.
        token: who may ask.
        rate: how often who gives it.
        strangers: how often who gives none, or a wrong one, hears so; counted apart from `rate`.
        monotonic: seconds.
        utilities: what the site publishes now, None where nothing is fresh; no page where None.
    """

    answer: Callable[[Mapping[str, Any]], dict[str, Any]]
    token: SharedToken
    rate: RequestRate
    strangers: RequestRate
    monotonic: Callable[[], float]
    utilities: Callable[[], PublishedUtilities | None] | None = None
    _refused: Counter[str] = field(default_factory=Counter)
    _logged: float = -math.inf
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answer one request, whatever it is."""
        more: list[tuple[str, str]] = []
        try:
            status, document = "200 OK", self._answered(environ)
        except OfferRefused as error:
            status, document = error.status, {"error": str(error)}
            self._note(status)
            if error.retry_after is not None:
                more.append(("Retry-After", str(math.ceil(error.retry_after))))
            if status.startswith("401"):
                more.append(("WWW-Authenticate", "Bearer"))
        except Exception:  # our bug must show in the log, not end the thread without a word
            logger.exception("offer=broken")
            status, document = "500 Internal Server Error", {"error": "see the log of the site."}
        body = json.dumps(document).encode() + b"\n"
        headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
        ]
        start_response(status, [*headers, *more])
        return [body]

    def _answered(self, environ: dict[str, Any]) -> dict[str, Any]:
        body = self._body(environ)
        if _page(environ) == OFFER:
            return self.answer(strict_object(body))
        published = None if self.utilities is None else self.utilities()
        if published is None:
            raise OfferRefused(BUSY, "nothing fresh is published: ask again.", retry_after=PERIOD)
        return published.document()

    def _body(self, environ: dict[str, Any]) -> bytes:
        """The body of a request that may be made; of GET there is none."""
        stream = environ["wsgi.input"]
        length = _length(environ)
        try:
            self._let_in(environ)
            if _METHODS[_page(environ)] == "GET":
                _swallow(stream, length or 0)
                return b""
            if length is None:
                raise OfferRefused("411 Length Required", "give Content-Length.")
            if length > LONGEST_BODY:
                words = f"the body is longer than {LONGEST_BODY} bytes."
                raise OfferRefused("413 Content Too Large", words)
        except OfferRefused:
            _swallow(stream, length or 0)
            raise
        body: bytes = stream.read(length)
        if len(body) < length:
            raise OfferRefused(BAD, "the body ends too early.")
        return body

    def _let_in(self, environ: dict[str, Any]) -> None:
        known = self.token.is_in(str(environ.get("HTTP_AUTHORIZATION", "")))
        rate = self.rate if known else self.strangers
        pause = rate.pause(str(environ.get("REMOTE_ADDR", "")))
        if pause > 0.0:
            words = f"too many requests: ask again in {math.ceil(pause)} s."
            raise OfferRefused("429 Too Many Requests", words, retry_after=pause)
        if not known:
            raise OfferRefused("401 Unauthorized", "give the site's token.")
        page = _page(environ)
        if page not in _METHODS:
            raise OfferRefused("404 Not Found", "ask /offer.")
        if page == UTILITIES and self.utilities is None:
            raise OfferRefused("404 Not Found", "the site publishes no utilities: ask /offer.")
        if environ["REQUEST_METHOD"] != _METHODS[page]:
            raise OfferRefused("405 Method Not Allowed", f"use {_METHODS[page]}.")

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


def _length(environ: Mapping[str, Any]) -> int | None:
    text = str(environ.get("CONTENT_LENGTH") or "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else None


def _swallow(stream: Any, length: int) -> None:
    """Read some of a body that is refused; a socket that is closed on unread data hides why."""
    left = min(length, _SWALLOWED)
    while left > 0 and (read := stream.read(min(left, _CHUNK))):
        left -= len(read)
