"""The brokers of the experiment on site utilities, and how they see simulated sites."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.brokers.earliest_start import EarliestStartBroker
from slurm_rl_plugin.brokers.port import Broker, RankedSite, RoutedJob
from slurm_rl_plugin.brokers.site_utility import SiteUtilityBroker
from slurm_rl_plugin.domain.job_description import JobDescription
from slurm_rl_plugin.domain.published_utilities import PublishedUtilities
from slurm_rl_plugin.domain.site import JobRequest, Site, SiteOffer
from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.policies.q_network import QNetworkPolicy
from slurm_rl_plugin.policies.site_utilities import published_utilities
from slurm_rl_plugin.simulator.scoring.rules import current_usage
from slurm_rl_plugin.simulator.sites.routed_sites import RoutedSite
from slurm_rl_plugin.units import MINUTE

RANDOM, LEAST_LOADED, EARLIEST_START = "random", "least loaded", "earliest start"
SITE_UTILITIES = "site utilities"
#: The same with publications that are made so seldom, and the shares alone.
SELDOM, SHARE_DEFICIT = "site utilities, every 30 min", "share deficit alone"
BASELINES = (RANDOM, LEAST_LOADED, EARLIEST_START)
CONTENDERS = (*BASELINES, SITE_UTILITIES, SELDOM, SHARE_DEFICIT)
#: Seconds between two publications of a site.
_PERIODS = {SITE_UTILITIES: MINUTE, SELDOM: 30 * MINUTE}


class Arrival:
    """The job that is being routed; simulated sites know it by its number."""

    job: int = 0


@dataclass(frozen=True, slots=True)
class SimulatedSite:
    """A simulated site as a broker sees it.

    Attributes:
        site: where it is.
        arrival: which job is meant.
        tells_start: whether it works out the expected start; otherwise it gives the present.
        published: what the sites have published; None where they publish nothing.
    """

    site: RoutedSite
    arrival: Arrival
    tells_start: bool
    published: Publications | None = None

    @property
    def name(self) -> str:
        """Of the site."""
        return self.site.terms.name

    def offer(self, request: JobRequest) -> SiteOffer | None:
        """Its expected start and utility for the arriving job; None where that is too wide."""
        if not self.site.fits(self.arrival.job):
            return None
        start = self.site.expected_start(self.arrival.job) if self.tells_start else self.site.now
        return SiteOffer(
            site=self.name,
            expected_start=start,
            utility=0.0 if self.published is None else self._utility(self.published, request),
            price=0.0,
            processors=self.site.terms.settings.capacity,
            published=self.published is not None,
        )

    def _utility(self, published: Publications, request: JobRequest) -> float:
        found = published.of(self.name).of(request.job.qos, request.job.account)
        if found is None:
            raise SimulationError(f"site {self.name} publishes nothing of {request.job.account}.")
        return found


class IndexBroker:
    """Ranks sites by one number of each."""

    def __init__(self, index: Callable[[str, JobRequest], float], what: str) -> None:
        """With the index, higher first, and what it is."""
        self._index, self._what = index, what

    def rank(self, request: JobRequest, sites: Sequence[Site]) -> list[RankedSite]:
        """The sites that may run the job, the highest index first."""
        ranked = []
        for site in sites:
            offer = site.offer(request)
            if offer is not None:
                merit = self._index(site.name, request)
                reason = f"Its {self._what} is {merit:.3f}."
                ranked.append(RankedSite(site=site.name, merit=merit, reason=reason, offer=offer))
        return sorted(ranked, key=lambda each: -each.merit)

    def learn(self, job: RoutedJob) -> None:
        """Nothing."""


class Publications:
    """What the sites have published; each publishes anew when its period is over."""

    def __init__(
        self,
        sites: Sequence[RoutedSite],
        models: Mapping[str, QNetworkPolicy],
        period: float,
    ) -> None:
        """Before the first publication.

        Args:
            sites: that publish.
            models: the utility model of each, by its name.
            period: seconds between two publications.
        """
        self._sites = {site.terms.name: site for site in sites}
        self._models, self._period = models, period
        self._last: dict[str, PublishedUtilities] = {}

    def of(self, name: str) -> PublishedUtilities:
        """The last publication of a site."""
        last, site = self._last.get(name), self._sites[name]
        if last is None or site.now - last.time >= self._period:
            last = self._last[name] = published_utilities(
                self._models[name], site.snapshot(), site=name, valid_for=2 * self._period
            )
        return last


def broker_of(
    contender: str,
    sites: Sequence[RoutedSite],
    rng: np.random.Generator,
) -> Broker:
    """One of CONTENDERS.

    Args:
        contender: its name.
        sites: that it chooses among.
        rng: of the random one.
    """
    by_name = {site.terms.name: site for site in sites}

    def deficit(name: str, request: JobRequest) -> float:
        site = by_name[name]
        account = site.terms.accounts.index(request.job.account)
        return float(site.terms.shares[account] - current_usage(site.cluster)[account])

    if contender == EARLIEST_START:
        return EarliestStartBroker(larger_first=False)
    if contender in _PERIODS:
        return SiteUtilityBroker()
    if contender == LEAST_LOADED:
        return IndexBroker(lambda name, _: -by_name[name].load, "load with the sign changed")
    if contender == SHARE_DEFICIT:
        return IndexBroker(deficit, "unused share of the account")
    return IndexBroker(lambda *_: float(rng.random()), "lot")


def routed_by(
    contender: str,
    sites: Sequence[RoutedSite],
    models: Mapping[str, QNetworkPolicy],
    rng: np.random.Generator,
) -> Callable[[int], int]:
    """The route of `route_jobs` that a broker gives.

    Brokers are shown the less loaded sites first, which is where their ties go. Only the earliest
    start is told expected starts.

    Args:
        contender: the broker, one of CONTENDERS.
        sites: that it chooses among.
        models: the utility model of each site, by its name.
        rng: of the random broker.
    """
    arrival, broker = Arrival(), broker_of(contender, sites, rng)
    period = _PERIODS.get(contender)
    published = None if period is None else Publications(sites, models, period)
    tells_start = contender == EARLIEST_START
    seen = [SimulatedSite(site, arrival, tells_start, published) for site in sites]
    places = {site.terms.name: place for place, site in enumerate(sites)}

    def route(job: int) -> int:
        arrival.job = job
        shown = sorted(seen, key=lambda each: each.site.load)
        ranking = broker.rank(request_of(sites[0], job), shown)
        return places[ranking[0].site]

    return route


def request_of(site: RoutedSite, job: int) -> JobRequest:
    """What brokers are told: class, account and processors; the class as a user names it."""
    offered = site.offered
    quick = bool(offered.interactive[job])
    return JobRequest(
        job=JobDescription(
            partition="grid",
            qos="interactive" if quick else "batch",
            name="",
            time_limit=float("nan"),
            has_batch_script=True,
            account=site.terms.accounts[offered.account[job]],
            user="",
        ),
        processors=int(offered.processors[job]),
    )
