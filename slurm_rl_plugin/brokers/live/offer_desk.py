"""Makes one site's offers: asks for the expected start, and says what it is worth."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slurm_rl_plugin.brokers.live.bound_offers import BoundOffers
from slurm_rl_plugin.brokers.live.forwarding import Forwarder, forwarding_of
from slurm_rl_plugin.brokers.live.job_document import FORMULA, job_request
from slurm_rl_plugin.brokers.live.offer_document import MOST_FORWARDED, offer_document
from slurm_rl_plugin.brokers.live.offer_worth import OfferWorth
from slurm_rl_plugin.brokers.live.recent_starts import BUSY, RecentStarts
from slurm_rl_plugin.brokers.live.strict_json import BAD
from slurm_rl_plugin.brokers.market.formula import user_function
from slurm_rl_plugin.domain.site import JobRequest, SiteOffer
from slurm_rl_plugin.errors import (
    BatchSystemError,
    ConfigurationError,
    JobNotAccepted,
    RequestRefused,
)

logger = logging.getLogger(__name__)

CANNOT_RUN = "409 Conflict"


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferDesk:
    """Answers requests for offers: when this site would start a job, at what utility and price.

    Attributes:
        site: tells the name of the cluster.
        starts: tells expected starts.
        worth: utility and price.
        all_processors: how many the site has.
        clock: seconds since the epoch.
        forwarder: asks the sites that this one knows; None for none.
        bound: binds offers; None where none binds.
    """

    site: Callable[[], str]
    starts: RecentStarts
    worth: OfferWorth
    all_processors: Callable[[], int]
    clock: Callable[[], float]
    forwarder: Forwarder | None = None
    bound: BoundOffers | None = None

    def accept(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Bind the offer for the job that an object describes: a reservation and its times.

        Raises:
            RequestRefused: as `answer`, or it cannot be bound.
        """
        request = job_request(document)
        offer = self._own(request, None)
        if self.bound is None:
            raise RequestRefused(CANNOT_RUN, "no offer of this site binds.")
        bound = self.bound.accept(request, offer["expected_start"], offer["processors"])
        return {**offer, "reservation": bound.name, "until": bound.until}

    def answer(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """The offer for the job that an object describes; with `value` where it has a formula.

        Where the request may be forwarded, `forwarded` has the offers of other sites, and `error`
        says why this one makes none.

        Raises:
            RequestRefused: the object is faulty, or there is no offer for the job now.
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
        return self._document(request, offer, formula, now)

    def _document(
        self, request: JobRequest, offer: SiteOffer, formula: str | None, now: float
    ) -> dict[str, Any]:
        document = offer_document(offer)
        if formula is not None:
            try:
                document["value"] = self.worth.value(formula, request, offer, now)
            except ConfigurationError as error:
                raise RequestRefused(BAD, str(error)) from None
        return document


def _forwarded(offers: Sequence[SiteOffer]) -> dict[str, Any]:
    return {"forwarded": [offer_document(each) for each in offers[:MOST_FORWARDED]]}


def _formula(document: Mapping[str, Any]) -> str | None:
    """The formula of a request, refused before anything is asked for it."""
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
