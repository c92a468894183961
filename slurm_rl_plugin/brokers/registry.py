"""Every broker by name: those that rank sites by their offers, and one that learns from jobs.

The learning agent uses the expected wait of `agents.rules` on real sites. Like the agents of the
2005 paper, it knows only the user's own jobs at a site: their waits so far, and whether the site
refused or failed them. Waits shared by other users replace missing experience. It keeps nothing
between two calls of `slurm-rl route`: it reads all jobs again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from slurm_rl_plugin.brokers.agents.rules import expected_wait, learned_wait
from slurm_rl_plugin.brokers.live.offer_worth import offer_value
from slurm_rl_plugin.brokers.market.formula import user_function
from slurm_rl_plugin.brokers.port import Broker, RankedSite, RoutedJob
from slurm_rl_plugin.domain.job_class import JobDescription
from slurm_rl_plugin.domain.site import JobRequest, Site, SiteOffer
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.units import DAY, HOUR, MINUTE

#: Those of `agents.simulation`, in seconds: on real sites queues change in hours.
WEIGHT, RECENT, FADING = 0.1, HOUR, 7 * DAY
#: Wait of a refused or failed job, seconds.
FAULT = DAY
#: Needs that only repeat the number of processors.
_SIZES = frozenset({"ntasks", "cpus-per-task"})


@dataclass(slots=True, kw_only=True)
class MetAtSite:
    """The experiences of one user's jobs at one site."""

    #: mean_wait, last_wait: seconds.
    mean_wait: float = 0.0
    last_wait: float = 0.0
    heard: float = -math.inf  #: end of the last wait, seconds since the epoch
    count: int = 0  #: started jobs
    failed: int = 0  #: jobs that the site failed
    refused: list[RoutedJob] = field(default_factory=list)
    waiting: float = 0.0  #: longest wait so far of a pending job, seconds


@dataclass(slots=True, kw_only=True)
class LearningAgentBroker(Broker):
    """Ranks sites by the expected wait, from the user's own jobs."""

    clock: Callable[[], float]  #: seconds since the epoch
    seed: int  #: of the random order of ties
    #: Site -> wait shared by other users, seconds.
    others: Mapping[str, float] = field(default_factory=dict)
    _rng: np.random.Generator = field(init=False)
    _met: dict[str, dict[str, MetAtSite]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)

    def rank(self, request: JobRequest, sites: Sequence[Site]) -> list[RankedSite]:
        """All sites, the shortest expected wait first, ties in random order, without any request.

        The merit is minus the expected wait in seconds. The expected wait at an unknown site is 0,
        so that every site is tried.
        """
        drawn = [sites[place].name for place in self._rng.permutation(len(sites))]
        known = self.met(request.job.user)
        found = {name: self._expected(request, name, known.get(name)) for name in drawn}
        return [
            RankedSite(site=name, merit=-wait, reason=reason)
            for name, (wait, reason) in sorted(found.items(), key=lambda each: each[1][0])
        ]

    def met(self, user: str) -> Mapping[str, MetAtSite]:
        """Site -> experiences of the user's jobs."""
        return self._met.get(user, {})

    def waiting(self, site: str, request: JobRequest, waited: float) -> None:
        """Learn the wait so far of a pending job, seconds; not part of the port."""
        met = self._at(request, site)
        met.waiting = max(met.waiting, waited)

    def learn(self, job: RoutedJob) -> None:
        """Learn a wait, a failure or a refusal; impossible times are ignored."""
        met = self._at(job.request, job.site)
        failed = job.outcome == "failed"
        # the wait and the run of a failed job were in vain
        wait = job.ended - job.submitted + FAULT if failed else job.started - job.submitted
        if not (math.isfinite(wait) and wait >= 0.0 and math.isfinite(job.ended)):
            return
        if job.outcome == "refused":
            met.refused.append(job)
            return
        met.mean_wait = learned_wait(met.mean_wait, met.count, wait, WEIGHT)
        heard = job.ended if failed else job.started
        if heard >= met.heard:
            met.last_wait, met.heard = wait, heard
        met.count += 1
        met.failed += failed

    def _at(self, request: JobRequest, site: str) -> MetAtSite:
        return self._met.setdefault(request.job.user, {}).setdefault(site, MetAtSite())

    def _expected(self, request: JobRequest, site: str, met: MetAtSite | None) -> tuple[float, str]:
        """Expected wait of the job at the site, seconds, and the reason."""
        now, others = self.clock(), self.others.get(site, 0.0)
        if met is None:
            return others, _heard(MetAtSite(), self.others.get(site))
        silence = max(now - met.heard, 0.0)
        wait = others
        if met.count:  # as the own experience fades, that of others counts again
            own = expected_wait(met.mean_wait, met.last_wait, silence, RECENT, FADING, 0.0)
            wait = own + (1.0 - math.exp(-silence / FADING)) * others
        wait = max(wait, met.waiting)
        refused = [now - job.ended for job in met.refused if _is_as_large(request, job.request)]
        if refused and (fault := FAULT * math.exp(-max(min(refused), 0.0) / FADING)) > wait:
            return fault, f"Refused such a job of this user {min(refused) / HOUR:.1f} h ago."
        return float(wait), _heard(met, self.others.get(site))


def _heard(met: MetAtSite, others: float | None) -> str:
    """The experience at a site in one sentence for the user."""
    if met.count == 0:
        return "No job of this user has run there yet" + (
            "." if others is None else f"; other users wait {others:.0f} s."
        )
    jobs = "1 job" if met.count == 1 else f"{met.count} jobs"
    failed = f"; the site failed {met.failed} of them" if met.failed else ""
    return f"Mean wait of {jobs} of this user there: {met.mean_wait:.0f} s{failed}."


def _is_as_large(request: JobRequest, refused: JobRequest) -> bool:
    """Whether a job requests at least as much as a refused one, and will be refused as well."""
    mine, theirs = request.job, refused.job
    return (
        (mine.partition, mine.qos, mine.account) == (theirs.partition, theirs.qos, theirs.account)
        and request.processors >= refused.processors
        and (math.isnan(theirs.time_limit) or mine.time_limit >= theirs.time_limit)
        and {each for each in refused.needs if each[0] not in _SIZES} <= set(request.needs)
    )


@dataclass(frozen=True, slots=True)
class EarliestStartBroker(Broker):
    """Ranks sites by their expected start; the merit is minus the expected start in seconds."""

    #: Whether the site with more processors wins a tie, as it has more room for an error; otherwise
    #: the first one given wins.
    larger_first: bool = True

    def rank(self, request: JobRequest, sites: Sequence[Site]) -> list[RankedSite]:
        """Sites that make an offer, the earliest expected start first."""
        offers = _offers(request, sites)
        if self.larger_first:
            offers.sort(key=lambda offer: (-offer.processors, offer.site))
        return _by_start(offers)


def _offers(request: JobRequest, sites: Sequence[Site]) -> list[SiteOffer]:
    return [offer for site in sites if (offer := site.offer(request)) is not None]


def _by_start(offers: Sequence[SiteOffer]) -> list[RankedSite]:
    """Sites by their expected start, the earliest first; ties in the order given."""
    ordered = sorted(offers, key=lambda offer: offer.expected_start)
    first = ordered[0].expected_start if ordered else 0.0
    return [
        _ranked(offer, -offer.expected_start, _later(offer.expected_start - first))
        for offer in ordered
    ]


def _ranked(offer: SiteOffer, merit: float, reason: str) -> RankedSite:
    return RankedSite(site=offer.site, merit=merit, reason=reason, offer=offer)


def _later(seconds: float) -> str:
    """Expected start relative to the first site, as the end of a sentence."""
    if seconds < 1.0:
        return "would start it first"
    if seconds < 2 * HOUR:
        return f"would start it {seconds / MINUTE:.0f} min later"
    return f"would start it {seconds / HOUR:.0f} h later"


class SiteUtilityBroker(Broker):
    """Ranks sites by the utility that they publish for the job's class and account (2008, II.C).

    The earlier expected start wins a tie, then the order given. Sites without a fresh publication
    for such jobs follow, by their expected start: their utility is unknown, not low.
    """

    def rank(self, request: JobRequest, sites: Sequence[Site]) -> list[RankedSite]:
        """The sites that may run the job, best first; empty where none may."""
        offers = _offers(request, sites)
        known = [offer for offer in offers if offer.published]
        known.sort(key=lambda offer: (-offer.utility, offer.expected_start))
        ranked = [
            _ranked(each, each.utility, f"expects a utility of {each.utility:.3f} from it")
            for each in known
        ]
        silent = _by_start([offer for offer in offers if not offer.published])
        return ranked + [
            replace(each, reason=f"publishes no utility of such jobs; {each.reason}")
            for each in silent
        ]


@dataclass(frozen=True, slots=True)
class OfferedValueBroker(Broker):
    """Ranks live offers by the user's own formula (2002, user functions)."""

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
        return [_ranked(offer, value, f"has value {value:.6g} for you") for value, offer in valued]


BROKERS = ("earliest", "learning", "market", "utility")
#: Brokers that learn from the user's jobs: they query accounting, and no site.
LEARNERS = frozenset({"learning"})


def broker_named(
    name: str,
    *,
    clock: Callable[[], float],
    seed: int,
    formula: str,
    is_interactive: Callable[[JobDescription], bool],
) -> Broker:
    """One of BROKERS, without experience; FormulaError for a refused formula."""
    if name == "learning":
        return LearningAgentBroker(clock=clock, seed=seed)
    if name == "market":
        return OfferedValueBroker(formula, is_interactive, clock)
    return EarliestStartBroker() if name == "earliest" else SiteUtilityBroker()
