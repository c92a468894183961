"""The broker that goes by the utility that each site offers (2008, section II.C), live."""

from __future__ import annotations

from collections.abc import Sequence

from slurm_rl_plugin.brokers.port import RankedSite, RoutedJob
from slurm_rl_plugin.domain.site import JobRequest, Site


class OfferedUtilityBroker:
    """Ranks by the utility in the offers; equal ones by the expected start. See `Broker`.

    A site offers its long-term utility where it publishes one, else the time utility of the wait
    that it expects.
    """

    def rank(self, request: JobRequest, sites: Sequence[Site]) -> list[RankedSite]:
        """See `Broker.rank`."""
        offers = [offer for site in sites if (offer := site.offer(request)) is not None]
        offers.sort(key=lambda offer: (-offer.utility, offer.expected_start, offer.site))
        return [
            RankedSite(
                site=offer.site,
                merit=offer.utility,
                reason=f"expects a utility of {offer.utility:.3f} from it",
                offer=offer,
            )
            for offer in offers
        ]

    def learn(self, job: RoutedJob) -> None:
        """Nothing: the sites learn, and offer what they have learned."""
