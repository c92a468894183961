"""The broker that sends each job where it would start first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from slurm_rl_plugin.brokers.port import RankedSite, RoutedJob
from slurm_rl_plugin.domain.site import JobRequest, Site, SiteOffer


class EarliestStartBroker:
    """Asks every site and ranks by the expected start; see `Broker`.

    Merit is the expected start with its sign turned, in seconds. Of two sites that promise the
    same second the one with more processors comes first, as it has more room for an error.
    """

    def rank(self, request: JobRequest, sites: Sequence[Site]) -> list[RankedSite]:
        """See `Broker.rank`."""
        offers = [offer for site in sites if (offer := site.offer(request)) is not None]
        offers.sort(key=lambda offer: (offer.expected_start, -offer.processors, offer.site))
        return [_ranked(offer) for offer in offers]

    def learn(self, job: RoutedJob) -> None:
        """Nothing: what the sites say is all that counts."""


def _ranked(offer: SiteOffer) -> RankedSite:
    when = datetime.fromtimestamp(offer.expected_start).isoformat(timespec="seconds")
    return RankedSite(
        site=offer.site,
        merit=-offer.expected_start,
        reason=f"would start it at {when}",
        offer=offer,
    )
