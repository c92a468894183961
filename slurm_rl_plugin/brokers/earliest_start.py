"""The broker that sends each job where it would start first."""

from __future__ import annotations

from collections.abc import Sequence

from slurm_rl_plugin.brokers.port import RankedSite, RoutedJob
from slurm_rl_plugin.domain.site import JobRequest, Site, SiteOffer
from slurm_rl_plugin.units import HOUR, MINUTE


class EarliestStartBroker:
    """Asks every site and ranks by the expected start; see `Broker`.

    Merit is the expected start with its sign turned, in seconds.

    Args:
        larger_first: of two sites that promise the same second the one with more processors comes
            first, as it has more room for an error; else the one that is given first.
    """

    def __init__(self, *, larger_first: bool = True) -> None:
        self._larger_first = larger_first

    def rank(self, request: JobRequest, sites: Sequence[Site]) -> list[RankedSite]:
        """Sites that make an offer, the earliest expected start first."""
        offers = [offer for site in sites if (offer := site.offer(request)) is not None]
        if self._larger_first:
            offers.sort(key=lambda offer: (-offer.processors, offer.site))
        return ranked_by_start(offers)

    def learn(self, job: RoutedJob) -> None:
        """Learn nothing: what the sites say is all that counts."""


def ranked_by_start(offers: Sequence[SiteOffer]) -> list[RankedSite]:
    """Sites by their expected start, the earliest first; ties in the order given.

    Args:
        offers: of the sites.
    """
    ordered = sorted(offers, key=lambda offer: offer.expected_start)
    return [
        RankedSite(
            site=offer.site,
            merit=-offer.expected_start,
            reason=_reason(offer.expected_start - ordered[0].expected_start),
            offer=offer,
        )
        for offer in ordered
    ]


def _reason(later: float) -> str:
    """Why a site has its rank: how many seconds after the first it would start the job."""
    if later < 1.0:
        return "would start it first"
    if later < 2 * HOUR:
        return f"would start it {later / MINUTE:.0f} min later"
    return f"would start it {later / HOUR:.0f} h later"
