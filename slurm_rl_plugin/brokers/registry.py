"""Every broker by name, and those that rank sites by nothing but their offers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from slurm_rl_plugin.brokers.learning_agent import LearningAgentBroker
from slurm_rl_plugin.brokers.live.offer_worth import offer_value
from slurm_rl_plugin.brokers.market.formula import user_function
from slurm_rl_plugin.brokers.port import Broker, RankedSite
from slurm_rl_plugin.domain.job_class import JobDescription
from slurm_rl_plugin.domain.site import JobRequest, Site, SiteOffer
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.units import HOUR, MINUTE


class EarliestStartBroker(Broker):
    """Sends each job where it would start first; merit is minus the expected start, in seconds.

    Args:
        larger_first: of two sites that promise the same second the one with more processors comes
            first, as it has more room for an error; else the one that is given first.
    """

    def __init__(self, *, larger_first: bool = True) -> None:
        self._larger_first = larger_first

    def rank(self, request: JobRequest, sites: Sequence[Site]) -> list[RankedSite]:
        """Sites that make an offer, the earliest expected start first."""
        offers = _offers(request, sites)
        if self._larger_first:
            offers.sort(key=lambda offer: (-offer.processors, offer.site))
        return _by_start(offers)


def _offers(request: JobRequest, sites: Sequence[Site]) -> list[SiteOffer]:
    return [offer for site in sites if (offer := site.offer(request)) is not None]


def _by_start(offers: Sequence[SiteOffer]) -> list[RankedSite]:
    """Sites by their expected start, the earliest first; ties in the order given."""
    ordered = sorted(offers, key=lambda offer: offer.expected_start)
    return [
        RankedSite(
            site=offer.site,
            merit=-offer.expected_start,
            reason=_later(offer.expected_start - ordered[0].expected_start),
            offer=offer,
        )
        for offer in ordered
    ]


def _later(seconds: float) -> str:
    """How long after the first site another one would start the job."""
    if seconds < 1.0:
        return "would start it first"
    if seconds < 2 * HOUR:
        return f"would start it {seconds / MINUTE:.0f} min later"
    return f"would start it {seconds / HOUR:.0f} h later"


class SiteUtilityBroker(Broker):
    """Ranks sites by the utility that they publish for the job's class and account (2008, II.C).

    Of equal utilities the earlier expected start comes first, then the order given. A site that has
    published nothing fresh of such jobs comes behind those that speak, by its expected start: its
    utility is unknown, not low, but there is nothing to compare it by.
    """

    def rank(self, request: JobRequest, sites: Sequence[Site]) -> list[RankedSite]:
        """The sites that may run the job, best first; empty where none may."""
        offers = _offers(request, sites)
        known = [offer for offer in offers if offer.published]
        known.sort(key=lambda offer: (-offer.utility, offer.expected_start))
        ranked = [
            RankedSite(
                site=offer.site,
                merit=offer.utility,
                reason=f"expects a utility of {offer.utility:.3f} from it",
                offer=offer,
            )
            for offer in known
        ]
        silent = _by_start([offer for offer in offers if not offer.published])
        return ranked + [
            replace(each, reason=f"publishes no utility of such jobs; {each.reason}")
            for each in silent
        ]


@dataclass(frozen=True, slots=True)
class OfferedValueBroker(Broker):
    """The market's user, live: ranks the offers by a formula of his own (2002, user functions)."""

    formula: str  #: over USER_VARIABLES; higher is better. FormulaError where it is refused.
    is_interactive: Callable[[JobDescription], bool]  #: rules for job classes
    clock: Callable[[], float]  #: seconds since the epoch

    def __post_init__(self) -> None:
        user_function(self.formula)

    def rank(self, request: JobRequest, sites: Sequence[Site]) -> list[RankedSite]:
        """Sites by the formula's value of their offers, highest first; no value, no rank."""
        now, quick = self.clock(), self.is_interactive(request.job)
        valued: list[tuple[float, SiteOffer]] = []
        for offer in _offers(request, sites):
            try:
                value = offer_value(self.formula, request, offer, now, interactive=quick)
            except ConfigurationError:
                continue
            valued.append((value, offer))
        valued.sort(key=lambda each: (-each[0], each[1].expected_start, each[1].site))
        return [
            RankedSite(
                site=offer.site, merit=value, reason=f"is worth {value:.6g} to you", offer=offer
            )
            for value, offer in valued
        ]


BROKERS = ("earliest", "learning", "market", "utility")
#: Those that learn from what became of the user's jobs: they ask accounting, and no site.
LEARNERS = frozenset({"learning"})


def broker_named(
    name: str,
    *,
    clock: Callable[[], float],
    seed: int,
    formula: str,
    is_interactive: Callable[[JobDescription], bool],
) -> Broker:
    """One of BROKERS, which has learned nothing yet; FormulaError for a refused formula."""
    if name == "learning":
        return LearningAgentBroker(clock=clock, seed=seed)
    if name == "market":
        return OfferedValueBroker(formula, is_interactive, clock)
    return EarliestStartBroker() if name == "earliest" else SiteUtilityBroker()
