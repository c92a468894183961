"""The pages of the offer service: authentication, request rates and limits of requests.

POST /offer returns an offer for a job, POST /accept binds it, GET /utilities returns the site's
published utilities. RequestRefused has the reason for a refusal.

A client without the token learns only that, and does not use up the rate of clients that have it,
even at the same address.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from slurm_rl_plugin.brokers.live.bound_offers import BoundOffers
from slurm_rl_plugin.brokers.live.job_document import (
    BAD,
    FORMULA,
    MOST_FORWARDED,
    Forwarding,
    forwarding_of,
    job_request,
    strict_object,
)
from slurm_rl_plugin.brokers.live.offer_worth import OfferWorth
from slurm_rl_plugin.brokers.live.recent_starts import BUSY, PERIOD, RecentStarts
from slurm_rl_plugin.brokers.market.formula import user_function
from slurm_rl_plugin.domain.site import JobRequest, PublishedUtilities, SiteOffer
from slurm_rl_plugin.errors import (
    BatchSystemError,
    ConfigurationError,
    JobNotAccepted,
    RequestRefused,
)
from slurm_rl_plugin.serving.clients import RequestRate, SharedToken
from slurm_rl_plugin.serving.page_server import TOO_OFTEN, JsonPages, Page, body_of

#: Part of the time to live for the responses of other sites; the rest is for its own.
_WAITS = 0.8
#: Number of remembered requests, each answered once.
_MOST_SEEN = 4096
_SEEN = "409 Conflict"
#: Requests offers from other sites: the offers, and the reasons of sites without one, by name.
AskOthers = Callable[[JobRequest, Forwarding], tuple[Sequence[SiteOffer], Mapping[str, str]]]
CANNOT_RUN = "409 Conflict"
logger = logging.getLogger(__name__)

#: Pages and their methods.
OFFER, ACCEPT, UTILITIES = "/offer", "/accept", "/utilities"
_METHODS = {OFFER: "POST", ACCEPT: "POST", UTILITIES: "GET"}
#: Seconds between lines of the log on refusals.
_LOG_EVERY = 60.0


@dataclass(slots=True)
class Forwarder:
    """Forwards requests to the sites of its list, as a MetaManager (2002, section 4); thread-safe.

    A site forwards a request that it gets for the first time, while the request has hops and time
    to live. Only offers are requested; nothing is submitted.
    """

    ask: AskOthers  #: requests offers within `time_to_live`
    most_hops: int  #: upper bound of the hops of a request
    _seen: OrderedDict[str, None] = field(default_factory=OrderedDict)
    _complaints: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, request: JobRequest, forwarding: Forwarding) -> Callable[[], list[SiteOffer]]:
        """Begin to ask; the result waits for the offers, for a part of the time to live."""
        with self._lock:
            if forwarding.request_id in self._seen:
                raise RequestRefused(_SEEN, "this request was here before.")
            self._seen[forwarding.request_id] = None
            while len(self._seen) > _MOST_SEEN:
                self._seen.popitem(last=False)
        hops = min(forwarding.hops, self.most_hops)
        if hops == 0:
            return list
        left = forwarding.time_to_live * _WAITS
        onward = replace(forwarding, hops=hops - 1, time_to_live=left)
        found: list[SiteOffer] = []

        def ask() -> None:
            offers, silent = self.ask(request, onward)
            found.extend(offers)
            self._complain(silent)

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()

        def collect() -> list[SiteOffer]:
            asking.join(left)
            return [*found]

        return collect

    def _complain(self, silent: Mapping[str, str]) -> None:
        """Log why a site makes no offer, once for each new reason."""
        for site, why in silent.items():
            with self._lock:
                news = self._complaints.get(site) != why
                self._complaints[site] = why
            if news:
                logger.info("forward=none site=%s reason=%s", site, why)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferDesk:
    """Makes offers: when this site would start a job, at what utility and price."""

    site: Callable[[], str]  #: the name of the cluster
    starts: RecentStarts  #: expected starts
    worth: OfferWorth  #: utility and price
    all_processors: Callable[[], int]  #: number of processors of the site
    clock: Callable[[], float]  #: seconds since the epoch
    forwarder: Forwarder | None = None  #: None without other sites
    bound: BoundOffers | None = None  #: None without binding offers

    def accept(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Bind the offer for the job of an object: a reservation and its times."""
        if self.bound is None:
            raise RequestRefused(CANNOT_RUN, "no offer of this site binds.")
        request = job_request(document)
        offer = self._own(request, None)
        bound = self.bound.accept(request, offer["expected_start"], offer["processors"])
        return {**offer, "reservation": bound.name, "until": bound.until}

    def answer(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """The offer for the job of an object, with the `value` of its formula.

        For a forwarded request `forwarded` has the offers of other sites, and `error` the reason if
        this site makes none.
        """
        formula, request, far = _formula(document), job_request(document), forwarding_of(document)
        if self.forwarder is None or far is None:
            return self._own(request, formula)
        collect = self.forwarder.begin(request, far)
        try:
            return self._own(request, formula) | _forwarded(collect())
        except RequestRefused as error:
            if not (others := _forwarded(collect()))["forwarded"]:
                raise
            return {"error": str(error), **others}

    def _own(self, request: JobRequest, formula: str | None) -> dict[str, Any]:
        now = self.clock()
        try:
            start = self.starts.expected_start(request)
            site, processors = self.site(), self.all_processors()
            if start is None:
                raise RequestRefused(CANNOT_RUN, "the batch system knows no time to start it.")
            offer = self.worth.offer(
                site, request, now=now, start=max(start, now), all_processors=processors
            )
        except JobNotAccepted as error:
            raise RequestRefused(CANNOT_RUN, f"{error}.") from None
        except BatchSystemError as error:
            logger.warning("offer=none reason=%s", error)
            raise RequestRefused(
                BUSY, "the batch system does not answer.", retry_after=10
            ) from None
        except ConfigurationError as error:
            logger.warning("price=none reason=%s", error)
            raise RequestRefused(
                CANNOT_RUN, "the site's price has no value for this job."
            ) from None
        document = asdict(offer)
        if formula is not None:
            try:
                document["value"] = self.worth.value(formula, request, offer, now)
            except ConfigurationError as error:
                raise RequestRefused(BAD, str(error)) from None
        return document


def _forwarded(offers: Sequence[SiteOffer]) -> dict[str, Any]:
    return {"forwarded": [asdict(each) for each in offers[:MOST_FORWARDED]]}


def _formula(document: Mapping[str, Any]) -> str | None:
    """The formula of a request, checked before the batch system is asked."""
    formula = document.get(FORMULA)
    if formula is None:
        return None
    if not isinstance(formula, str) or not formula.isprintable():
        raise RequestRefused(BAD, f"{FORMULA} is no text.")
    try:
        user_function(formula)
    except ConfigurationError as error:
        raise RequestRefused(BAD, str(error)) from None
    return formula


@dataclass(slots=True)
class OfferPages:
    """The WSGI application of the offer service: checks token and rate, then calls the desk."""

    desk: OfferDesk
    token: SharedToken
    rate: RequestRate  #: of a client with the token
    strangers: RequestRate  #: of refusals for a client without it, counted separately
    monotonic: Callable[[], float]  #: seconds
    #: The current publication, None without a fresh one; the page exists if this is not None.
    utilities: Callable[[], PublishedUtilities | None] | None = None
    _refused: Counter[str] = field(default_factory=Counter)
    _logged: float = -math.inf
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answer one request."""
        return JsonPages("offer", self._answered, self._note)(environ, start_response)

    def _answered(self, environ: Mapping[str, Any]) -> Page:
        page = str(environ.get("PATH_INFO") or "/")
        self._let_in(environ, page)
        if page != UTILITIES:
            answer = self.desk.accept if page == ACCEPT else self.desk.answer
            return Page.of(answer(strict_object(body_of(environ))))
        published = None if self.utilities is None else self.utilities()
        if published is None:
            raise RequestRefused(BUSY, "nothing fresh is published: ask again.", retry_after=PERIOD)
        return Page.of(published.document())

    def _let_in(self, environ: Mapping[str, Any], page: str) -> None:
        known = self.token.is_in(str(environ.get("HTTP_AUTHORIZATION", "")))
        rate = self.rate if known else self.strangers
        pause = rate.pause(str(environ.get("REMOTE_ADDR", "")))
        if pause > 0.0:
            words = f"too many requests: ask again in {math.ceil(pause)} s."
            raise RequestRefused(TOO_OFTEN, words, retry_after=pause)
        if not known:
            raise RequestRefused("401 Unauthorized", "give the site's token.")
        if page not in _METHODS or (page == UTILITIES and self.utilities is None):
            raise RequestRefused("404 Not Found", "this site has no such page: ask /offer.")
        if environ["REQUEST_METHOD"] != _METHODS[page]:
            raise RequestRefused("405 Method Not Allowed", f"use {_METHODS[page]}.")

    def _note(self, status: str) -> None:
        """Count a refusal; the counts are logged at intervals."""
        with self._lock:
            self._refused[status[:3]] += 1
            now = self.monotonic()
            if now - self._logged < _LOG_EVERY:
                return
            counts = " ".join(f"{each}:{count}" for each, count in sorted(self._refused.items()))
            self._logged = now
            self._refused.clear()
        logger.info("refused %s", counts)
