"""The broker of 2008, section II.C: the site whose own Q-network expects most of such a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slurm_rl_plugin.brokers.earliest_start import ranked_by_start
from slurm_rl_plugin.brokers.port import RankedSite, RoutedJob
from slurm_rl_plugin.domain.site import JobRequest, Site


class SiteUtilityBroker:
    """Ranks sites by the utility that they publish for the job's class and account.

    Of equal utilities the earlier expected start comes first, then the order given. A site that has
    published nothing fresh of such jobs comes behind those that speak, by its expected start: its
    utility is unknown, not low, but there is nothing to compare it by. See `Broker`.
    """

    def rank(self, request: JobRequest, sites: Sequence[Site]) -> list[RankedSite]:
        """The sites that may run the job, best first; empty where none may."""
        offers = [offer for site in sites if (offer := site.offer(request)) is not None]
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
        silent = ranked_by_start([offer for offer in offers if not offer.published])
        return ranked + [
            replace(each, reason=f"publishes no utility of such jobs; {each.reason}")
            for each in silent
        ]

    def learn(self, job: RoutedJob) -> None:
        """Learn nothing: sites learn, and publish what they have learned."""
