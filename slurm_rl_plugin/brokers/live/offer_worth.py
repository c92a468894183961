"""What an offer is worth: the site's utility and price for a job, and a formula over them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from slurm_rl_plugin.brokers.market.formula import parse_formula
from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.domain.site import JobRequest, SiteOffer
from slurm_rl_plugin.units import HOUR
from slurm_rl_plugin.utility.time_utility import time_utility

#: Seconds that a job is taken to run where it asks for no time.
UNKNOWN_RUN_TIME = HOUR
#: What the site's price formula may name.
PRICE_VARIABLES = ("processors", "run_time", "wait", "interactive", "all_processors")
#: What the formula of a request may name besides.
VALUE_VARIABLES = (*PRICE_VARIABLES, "price", "utility")
#: Long-term utility that a site expects for a job of a class and account; None where it knows none.
PublishedUtility = Callable[[JobRequest, bool], float | None]


@dataclass(frozen=True, slots=True)
class OfferWorth:
    """Utility and price of one site.

    Attributes:
        price: formula over PRICE_VARIABLES; times in seconds, `interactive` is 1 or 0.
        classifier: the site's rules for job classes, and their time utilities.
        published: the site's long-term utilities; None where it publishes none.

    Raises:
        FormulaError: the formula is refused.
    """

    price: str
    classifier: JobClassifier
    published: PublishedUtility | None = None

    def __post_init__(self) -> None:
        parse_formula(self.price, PRICE_VARIABLES)

    def offer(
        self, site: str, request: JobRequest, *, now: float, start: float, all_processors: int
    ) -> SiteOffer:
        """The offer for a job that would start at `start`, both times in seconds since the epoch.

        Utility is the published one, else the time utility of the job's class after the expected
        wait (2008, eq. 1-3).

        Raises:
            FormulaError: the price has no finite value for this job.
        """
        quick = self._is_quick(request)
        known = _variables(request, quick, start - now, all_processors)
        published = None if self.published is None else self.published(request, quick)
        waited, row = known["wait"] + known["run_time"], self.classifier.utility_of(request.job).row
        return SiteOffer(
            site=site,
            expected_start=start,
            utility=float(time_utility(waited, known["run_time"], row))
            if published is None
            else published,
            published=published is not None,
            price=parse_formula(self.price, PRICE_VARIABLES).value(known),
            processors=all_processors,
        )

    def value(self, formula: str, request: JobRequest, offer: SiteOffer, now: float) -> float:
        """The formula's value for this offer; the site's rules say which class the job is of."""
        return offer_value(formula, request, offer, now, interactive=self._is_quick(request))

    def _is_quick(self, request: JobRequest) -> bool:
        return self.classifier.is_interactive(request.job)


def offer_value(
    formula: str, request: JobRequest, offer: SiteOffer, now: float, *, interactive: bool
) -> float:
    """What a user's formula over VALUE_VARIABLES says of an offer; higher is better.

    Raises:
        FormulaError: the formula is refused, or has no finite value.
    """
    known = _variables(request, interactive, offer.expected_start - now, offer.processors)
    known |= {"price": offer.price, "utility": offer.utility}
    return parse_formula(formula, VALUE_VARIABLES).value(known)


def _variables(
    request: JobRequest, interactive: bool, wait: float, all_processors: int
) -> dict[str, float]:
    return {
        "processors": float(request.processors),
        "run_time": _run_time(request),
        "wait": max(wait, 0.0),
        "interactive": float(interactive),
        "all_processors": float(all_processors),
    }


def _run_time(request: JobRequest) -> float:
    limit = request.job.time_limit
    return UNKNOWN_RUN_TIME if math.isnan(limit) else limit
