"""The market as a broker: sites make offers, the user's own function ranks them (2002)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slurm_rl_plugin.brokers.market.domains import (
    MetaManager,
    UtilityRequest,
    ValuedOffer,
    best_first,
)
from slurm_rl_plugin.brokers.market.formula import Formula
from slurm_rl_plugin.brokers.market.functions import USER_FUNCTIONS
from slurm_rl_plugin.brokers.port import RankedSite, RoutedJob
from slurm_rl_plugin.domain.site import JobRequest, Site


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketBroker:
    """Ranks sites by what their offers are worth to the user; has no memory.

    Attributes:
        clock: gives seconds since the epoch.
        utility: of USER_VARIABLES; by default the earliest start (UF1).
    """

    clock: Callable[[], float]
    utility: Formula = USER_FUNCTIONS["UF1"]

    def rank(self, request: JobRequest, sites: Sequence[Site]) -> list[RankedSite]:
        """The sites with an offer that the user's function gives a value, best first."""
        asked = UtilityRequest(request, self.utility, self.clock(), 0, math.inf)
        found = []
        for site in sites:  # each a domain of its own: none drops out of a first selection
            found += MetaManager(site.name, [site], self.clock).negotiate(asked)
        return [self._ranked(each, asked.made_at) for each in best_first(found)]

    def learn(self, job: RoutedJob) -> None:
        """Offers tell all that it goes by."""

    def _ranked(self, each: ValuedOffer, now: float) -> RankedSite:
        offer = each.offer
        wait = max(offer.expected_start - now, 0.0)
        return RankedSite(
            site=offer.site,
            merit=each.value,
            reason=f"offers a start in {wait:.0f} s at price {offer.price:g}: "
            f"{self.utility.text} is {each.value:.6g}.",
            offer=offer,
        )
