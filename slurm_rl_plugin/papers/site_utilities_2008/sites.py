"""Three sites with shares and loads of their own, and jobs from segments of LPC-EGEE.

Each site has users of its own, who submit to it alone; a fourth stream of jobs is routed. Windows
of four segments give the four streams, stretched to one span and to the wanted loads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.brokers.port import Broker
from slurm_rl_plugin.brokers.registry import EarliestStartBroker, SiteUtilityBroker
from slurm_rl_plugin.domain.job_class import JobDescription
from slurm_rl_plugin.domain.site import JobRequest, PublishedUtilities, SiteOffer
from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.papers.study.trials import SEGMENT_JOBS, segment_of
from slurm_rl_plugin.policies.q_network import QNetworkPolicy
from slurm_rl_plugin.policies.site_utilities import published_utilities
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.scoring.rules import current_usage
from slurm_rl_plugin.simulator.sites.routed_sites import NOWHERE, RoutedSite, SiteTerms
from slurm_rl_plugin.units import DAY, MINUTE, SHORT_JOB_RUN_TIME, FloatArray, IntArray

ACCOUNTS = ("vo0", "vo1", "vo2", "vo3")
#: Part of the sessions that each account has.
ACCOUNT_MIX = (0.4, 0.3, 0.2, 0.1)
#: Segments to learn on and to show; those before are nearly idle or of one user.
TRAINING_SEGMENTS = (7, 9, 11, 13, 15, 17, 19, 21)
SHOWN_SEGMENTS = (8, 10, 12, 14, 16, 18, 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class GridSite:
    """A site of the experiment."""

    name: str
    capacity: int  #: processors
    shares: tuple[float, ...]  #: of ACCOUNTS; over all processors of the grid they make ACCOUNT_MIX
    local_load: float  #: work of its own users over its processors' time


SITES = (
    GridSite(name="north", capacity=16, shares=(0.6, 0.2, 0.1, 0.1), local_load=0.5),
    GridSite(name="east", capacity=12, shares=(0.2, 0.5, 0.2, 0.1), local_load=0.3),
    GridSite(name="south", capacity=8, shares=(0.3, 0.2, 0.4, 0.1), local_load=0.1),
)
#: Work of all jobs over all processors' time.
GRID_LOAD = 0.75


def site_terms(site: GridSite, order: QueueOrder) -> SiteTerms:
    """A site as the simulator wants it."""
    return SiteTerms(
        name=site.name,
        accounts=ACCOUNTS,
        shares=np.array(site.shares),
        order=order,
        settings=SimulationSettings(capacity=site.capacity, half_life=math.inf),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GridLoad:
    """The jobs of one seed."""

    offered: Workload  #: all of them in order of submission; its shares are of no site
    #: Place of the site whose users submit the job, NOWHERE for one to route, shape [n].
    home: IntArray


def draw_load(log: JobLog, segments: Sequence[int], jobs: int, seed: Sequence[int]) -> GridLoad:
    """Draw the four streams."""
    rng = np.random.default_rng(list(seed))
    drawn = rng.choice(np.array(segments), 1 + len(SITES), replace=False)
    capacity = sum(site.capacity for site in SITES)
    local = sum(site.capacity * site.local_load for site in SITES)
    streams = [_window(segment_of(log, int(drawn[0])), rng, jobs=jobs)]
    span = float(streams[0].run_time.sum()) / (GRID_LOAD * capacity - local)
    for site, number in zip(SITES, drawn[1:], strict=True):
        work = site.local_load * site.capacity * span
        streams.append(_window(segment_of(log, int(number)), rng, work=work))
    stretch = [span / max(float(each.submit[-1]), 1.0) for each in streams]
    stretched = zip(streams, stretch, strict=True)
    return _merged([each._replace(submit=each.submit * factor) for each, factor in stretched])


class _Stream(NamedTuple):
    """Jobs of one window, shape [n]; submit in seconds from its beginning."""

    submit: FloatArray
    run_time: FloatArray
    account: IntArray


def _window(
    segment: JobLog, rng: np.random.Generator, *, jobs: int = 0, work: float = 0.0
) -> _Stream:
    """Consecutive jobs from a random place on, around the end again: a number, or as much work."""
    first = int(rng.integers(SEGMENT_JOBS))
    order = (first + np.arange(SEGMENT_JOBS)) % SEGMENT_JOBS
    if not jobs:
        done = np.cumsum(segment.run_time[order])
        jobs = max(int(np.searchsorted(done, work)), 1)
    chosen = order[:jobs]
    submit = segment.submit[chosen] - segment.submit[first]
    # behind the end come the segment's first jobs, as if it went on
    span = segment.submit[-1] - segment.submit[0]
    submit = np.where(chosen < first, submit + span, submit)
    sessions = segment.user[chosen] * 100_000 + (submit // DAY).astype(np.int64)
    each, session = np.unique(sessions, return_inverse=True)
    account = rng.choice(len(ACCOUNTS), len(each), p=ACCOUNT_MIX)[session]
    return _Stream(submit, segment.run_time[chosen], account.astype(np.int64))


def _merged(streams: Sequence[_Stream]) -> GridLoad:
    home = np.repeat(
        [NOWHERE, *range(len(SITES))], [len(stream.submit) for stream in streams]
    ).astype(np.int64)
    columns: Mapping[str, FloatArray] = {
        name: np.concatenate([getattr(stream, name) for stream in streams])
        for name in ("submit", "run_time", "account")
    }
    order = np.argsort(columns["submit"], kind="stable")
    run_time = columns["run_time"][order]
    offered = Workload.of(
        submit=columns["submit"][order],
        run_time=run_time,
        estimate=run_time,
        time_limit=run_time,
        processors=np.ones(len(order), dtype=np.int64),
        account=columns["account"][order].astype(np.int64),
        interactive=run_time < SHORT_JOB_RUN_TIME,
        shares=np.array(ACCOUNT_MIX),
    )
    return GridLoad(offered=offered, home=home[order])


RANDOM, LEAST_LOADED, EARLIEST_START = "random", "least loaded", "earliest start"
SITE_UTILITIES = "site utilities"
#: The same with publications that are made so seldom, and the shares alone.
SELDOM, SHARE_DEFICIT = "site utilities, every 30 min", "share deficit alone"
BASELINES = (RANDOM, LEAST_LOADED, EARLIEST_START)
CONTENDERS = (*BASELINES, SITE_UTILITIES, SELDOM, SHARE_DEFICIT)
#: Seconds between two publications of a site.
_PERIODS = {SITE_UTILITIES: MINUTE, SELDOM: 30 * MINUTE}


#: The last publication of a site.
Published = Callable[[RoutedSite], PublishedUtilities]


class SimulatedSite(NamedTuple):
    """A simulated site as a broker sees it."""

    site: RoutedSite
    job: int  #: that is being routed
    published: Published | None  #: without it sites work out expected starts

    @property
    def name(self) -> str:
        """Of the site."""
        return self.site.terms.name

    def offer(self, request: JobRequest) -> SiteOffer | None:
        """Its expected start or utility for the job; None where that is too wide."""
        if not self.site.fits(self.job):
            return None
        start, utility = self.site.now, 0.0
        if self.published is None:
            start = self.site.expected_start(self.job)
        else:
            found = self.published(self.site).of(request.job.qos, request.job.account)
            if found is None:
                account = request.job.account
                raise SimulationError(f"site {self.name} publishes nothing of {account}.")
            utility = found
        return SiteOffer(
            site=self.name,
            expected_start=start,
            utility=utility,
            price=0.0,
            processors=self.site.terms.settings.capacity,
            published=self.published is not None,
        )


def _publications(models: Mapping[str, QNetworkPolicy], period: float) -> Published:
    """What sites publish by their models, each anew when so many seconds are over."""
    found: dict[str, PublishedUtilities] = {}

    def last(site: RoutedSite) -> PublishedUtilities:
        name, before = site.terms.name, found.get(site.terms.name)
        if before is None or site.now - before.time >= period:
            found[name] = published_utilities(
                models[name], site.snapshot(), site=name, valid_for=2 * period
            )
        return found[name]

    return last


def routed_by(
    contender: str,
    sites: Sequence[RoutedSite],
    models: Mapping[str, QNetworkPolicy],
    rng: np.random.Generator,
) -> Callable[[int], int]:
    """The route of `route_jobs` that one of CONTENDERS gives.

    Less loaded sites come first, which is where ties go. Only the earliest start is told expected
    starts.
    """
    places = {site.terms.name: place for place, site in enumerate(sites)}
    period = _PERIODS.get(contender)
    broker: Broker = SiteUtilityBroker() if period else EarliestStartBroker(larger_first=False)
    published = _publications(models, period) if period else None
    index: dict[str, Callable[[RoutedSite, int], float]] = {
        RANDOM: lambda *_: float(rng.random()),
        LEAST_LOADED: lambda site, _: -site.load,
        SHARE_DEFICIT: _share_deficit,
    }

    def route(job: int) -> int:
        shown = sorted(sites, key=lambda each: each.load)
        if contender in index:
            fits = [site for site in shown if site.fits(job)]
            return places[max(fits, key=lambda site: index[contender](site, job)).terms.name]
        seen = [SimulatedSite(site, job, published) for site in shown]
        return places[broker.rank(request_of(sites[0], job), seen)[0].site]

    return route


def _share_deficit(site: RoutedSite, job: int) -> float:
    """The unused share of a job's account."""
    account = site.offered.account[job]
    return float(site.terms.shares[account] - current_usage(site.cluster)[account])


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
