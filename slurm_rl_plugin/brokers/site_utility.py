"""The broker of 2008, section II.C: the site whose own Q-network expects most of such a job."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slurm_rl_plugin.brokers.port import RankedSite, RoutedJob
from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.domain.published_utilities import PublishedUtilities
from slurm_rl_plugin.domain.site import JobRequest, Site, SiteOffer

#: What a site has published last; None where nothing is known of it.
Publications = Callable[[str], PublishedUtilities | None]


def _ranked_by_start(offers: Sequence[SiteOffer], now: float, remark: str) -> list[RankedSite]:
    """Sites by their expected start, the earliest first; ties by the order given.

    Args:
        offers: of the sites.
        now: seconds since the epoch.
        remark: behind each reason; a clause without a full stop.
    """
    ordered = sorted(offers, key=lambda offer: offer.expected_start)
    return [
        RankedSite(
            site=offer.site,
            merit=-offer.expected_start,
            reason=f"It would start there in {max(offer.expected_start - now, 0.0):.0f} s{remark}.",
            offer=offer,
        )
        for offer in ordered
    ]


class SiteUtilityBroker:
    """Ranks sites by the utility that they publish for the job's class and account.

    Equal utilities go by the earlier expected start. A site whose publication is missing, too old
    or silent on such jobs comes behind those that speak, by its expected start: its utility is
    unknown, not low, but there is nothing to compare it by.
    """

    def __init__(
        self,
        publications: Publications,
        clock: Callable[[], float],
        classifier: JobClassifier | None = None,
    ) -> None:
        """Without memory of its own.

        Args:
            publications: asked for each site by its name.
            clock: seconds since the epoch.
            classifier: finds a job's class; the default rules where None.
        """
        self._publications = publications
        self._clock = clock
        self._classifier = classifier or JobClassifier()

    def rank(self, request: JobRequest, sites: Sequence[Site]) -> list[RankedSite]:
        """The sites that may run the job, best first; empty where none may."""
        now = self._clock()
        job_class = "interactive" if self._classifier.is_interactive(request.job) else "batch"
        account = request.job.account
        known: list[tuple[float, SiteOffer]] = []
        unknown: list[SiteOffer] = []
        for offer in _offers(request, sites):
            published = self._publications(offer.site)
            utility = None
            if published is not None and published.fresh_at(now):
                utility = published.of(job_class, account)
            if utility is None:
                unknown.append(offer)
            else:
                known.append((utility, offer))
        known.sort(key=lambda each: (-each[0], each[1].expected_start))
        ranked = [
            RankedSite(
                site=offer.site,
                merit=utility,
                reason=f"It expects a utility of {utility:.3f} of {job_class} jobs of {account}.",
                offer=offer,
            )
            for utility, offer in known
        ]
        remark = f", and it has published nothing fresh of {job_class} jobs of {account}"
        return ranked + _ranked_by_start(unknown, now, remark)

    def learn(self, job: RoutedJob) -> None:
        """Nothing: sites learn, and publish what they have learned."""


def _offers(request: JobRequest, sites: Sequence[Site]) -> list[SiteOffer]:
    answers = [site.offer(request) for site in sites]
    return [offer for offer in answers if offer is not None]
