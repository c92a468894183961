"""Several simulated sites: a job goes to one of them when it is submitted.

The kernel is that of a single site. A site does not know a job before the job is sent there, so its
columns fill up as jobs come; the rows behind them have a submission that never comes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.domain import JobTable, PendingJobs, QueueSnapshot, RunningJobs, StartedJobs
from slurm_rl_plugin.domain.jobs import empty_job_table
from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.cluster import Cluster, advance, empty_cluster, next_event
from slurm_rl_plugin.simulator.kernel.compilation import compiled
from slurm_rl_plugin.simulator.kernel.compiled_features import fairness, paper_row, time_utility
from slurm_rl_plugin.simulator.kernel.workload import NO_PAST, Workload, copied
from slurm_rl_plugin.simulator.schedules.ordered_queue import (
    OrderedQueue,
    QueueOrder,
    decide_scored,
)
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings, run_up_to
from slurm_rl_plugin.simulator.scoring.rules import current_usage
from slurm_rl_plugin.units import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteTerms:
    """What differs between simulated sites: shares, order and batch system."""

    name: str  #: of brokers
    accounts: tuple[str, ...]  #: names, the same at every site
    shares: FloatArray  #: of each account here, shape [accounts], sum 1
    order: QueueOrder  #: how its queue is ordered: a Q-network or a rule
    settings: SimulationSettings  #: it decides at every event (cycle 0) and limits no class


class RoutedSite:
    """A simulated site, one of several among which a broker sends jobs."""

    def __init__(self, terms: SiteTerms, offered: Workload) -> None:
        """A site without jobs; `offered` are those that may be sent to it, by submission."""
        scorer = terms.order.network
        if terms.settings.cycle > 0.0 or terms.settings.class_limit is not None:
            raise SimulationError(
                "a routed site decides at every event and limits no class of jobs."
            )
        if not isinstance(scorer, QNetwork) and terms.order.rule is None:
            raise SimulationError("a routed site is ordered by a Q-network or a rule.")
        self.terms = terms
        self.offered = replace(offered, shares=terms.shares)
        places = len(offered.submit) + 1
        #: The order compiled for all offered jobs; `queue` knows those that came.
        self._all = terms.settings.ordered_queue(self.offered, terms.order, places)
        #: Number among the offered jobs of each job that came, in the order of coming.
        self.came: list[int] = []
        self.workload = self.offered.rows(places)
        self.cluster = empty_cluster(
            self.workload, terms.settings.capacity, terms.settings.half_life
        )
        self.cluster.state[0].now = self.cluster.usage_time[0] = float(offered.submit[0])
        self._scored = scorer is not None
        network = self._all.network
        self.queue = self._all._replace(network=network.rows(places) if self._scored else network)
        self._users = tuple(map(str, range(len(offered.past.users))))
        self._holds = isinstance(scorer, QNetwork) and scorer.reserve_weights is not None

    @property
    def now(self) -> float:
        """The clock, seconds."""
        return float(self.cluster.state[0].now)

    @property
    def load(self) -> float:
        """Processors that jobs occupy or wait for, over the capacity."""
        capacity = self.terms.settings.capacity
        busy = capacity - int(self.cluster.state[0].idle)
        return (busy + int(self.cluster.state[0].pending_processors)) / capacity

    def fits(self, job: int) -> bool:
        """Whether the job is not wider than the site."""
        return bool(self.offered.jobs[job].processors <= self.terms.settings.capacity)

    def run_until(self, time: float) -> None:
        """Let everything up to `time` happen."""
        run_up_to(self.cluster, self.queue, time)

    def take(self, job: int) -> None:
        """Submit one of the offered jobs here, at its own time, and let the site decide."""
        if not self.fits(job):
            raise SimulationError("a job was sent to a site that is narrower than the job.")
        time = self.offered.jobs.submit[[job]]
        self._write(self.workload, self.queue, np.array([job]), time)
        self.came.append(job)
        self.run_until(float(time[0]))

    def _write(
        self, workload: Workload, queue: OrderedQueue, jobs: IntArray, submit: FloatArray
    ) -> None:
        """Add offered jobs behind those that came, with these submissions."""
        places = slice(len(self.came), len(self.came) + len(jobs))
        workload.write(places, jobs, self.offered)
        workload.jobs.submit[places] = submit
        if self._scored:
            queue.network.write(places, jobs, self._all.network)

    def fork(
        self, jobs: IntArray, submit: FloatArray, *, as_estimated: bool = False
    ) -> tuple[Cluster, OrderedQueue]:
        """A copy of the site to which these offered jobs come; the site itself stays as it is.

        The site and its fork share rows of past runs, so run a fork before you make the next one
        and before the site takes another job. Submissions are ascending and not before now. With
        `as_estimated`, run times are the estimates.
        """
        workload, queue = self.workload.having(), copied(self.queue)
        # the workload has the jobs and their past; copies of these took most of the time of a fork
        cluster = copied(self.cluster._replace(jobs=workload.jobs[:0], past=NO_PAST))
        self._write(workload, queue, jobs, submit)
        if as_estimated:
            workload = workload.having(run_time=_run_as_estimated(workload, cluster))
        return cluster._replace(jobs=workload.jobs, past=workload.past), queue

    def expected_start(self, job: int) -> float:
        """When the job would start if it came now and no job came later, seconds.

        Like a batch system's own test of a job: run times are the estimates, the order is the
        site's. Inf for a job wider than the site.
        """
        if not self.fits(job):
            return np.inf
        if self.cluster.state[0].idle > 0 and self.cluster.state[0].pending == 0:
            idle = self.cluster.state[0].idle >= self.offered.jobs[job].processors
            if idle and self.terms.settings.reserve == 0 and not self._holds:
                return self.now
        now = np.array([self.now])
        cluster, queue = self.fork(np.array([job]), now, as_estimated=True)
        place = len(self.came)
        run_up_to(cluster, queue, self.now)
        while np.isnan(cluster.start[place]):
            run_up_to(cluster, queue, next_event(cluster))
        return float(cluster.start[place])

    def snapshot(self) -> QueueSnapshot:
        """What a policy sees of the site now, without started and ended jobs."""
        state, cluster = self.cluster.state[0], self.cluster
        running = np.sort(cluster.running.end_job[: state.running])
        nothing = empty_job_table()
        return QueueSnapshot(
            now=self.now,
            pending=PendingJobs.untouched(self._table(cluster.pending[: state.pending])),
            running=RunningJobs(jobs=self._table(running), start=cluster.start[running]),
            started=StartedJobs(jobs=nothing, start=nothing.submit),
            capacity=self.terms.settings.capacity,
            accounts=self.terms.accounts,
            partitions=("grid",),
            shares=self.terms.shares,
            usage=current_usage(cluster),
            users=self._users,
        )

    def starts(self) -> FloatArray:
        """Start of each job that came, in order, seconds; after all have run."""
        start = self.cluster.start[: len(self.came)]
        if np.isnan(start).any():
            raise SimulationError("a job sent to a site never started.")
        return start

    def _table(self, places: IntArray) -> JobTable:
        jobs = replace(self.workload, jobs=self.workload.jobs[places])
        users = self.workload.past.user
        return JobTable(
            job_id=places + 1,
            submit=jobs.submit,
            eligible=jobs.submit,
            processors=jobs.processors,
            time_limit=jobs.time_limit,
            account=jobs.account,
            user=users[places] if self._users else np.full(len(places), -1, np.int64),
            partition=np.zeros(len(places), dtype=np.int64),
            interactive=jobs.interactive,
            weighed=jobs.size,
        )


def _run_as_estimated(workload: Workload, cluster: Cluster) -> FloatArray:
    """Let running jobs end when expected, at least now; the run times of all jobs then, shape [n].

    They are the estimates, the real run time of ended jobs, and the time so far of running jobs
    that outran their estimate.
    """
    now, count = cluster.state[0].now, cluster.state[0].running
    cluster.running.end_time[:count] = np.maximum(cluster.running.expected_end[:count], now)
    running = cluster.running.expected_job[:count]
    cluster.running.end_job[:count] = running
    run_time, ended = workload.estimate, cluster.ended[: cluster.state[0].ended]
    run_time[ended] = workload.run_time[ended]
    run_time[running] = np.maximum(run_time[running], now - cluster.start[running])
    return run_time


#: In `home`: a job that a broker sends to a site.
NOWHERE = -1
#: Number of an offered job -> place of its site.
ChooseSite = Callable[[int], int]


def route_jobs(
    sites: Sequence[RoutedSite],
    offered: Workload,
    home: IntArray,
    route: ChooseSite,
) -> tuple[IntArray, FloatArray]:
    """Run all sites to the end; place of each job's site and its start in seconds, shape [n] each.

    Jobs come one after another, also within one second: each site decides before the next job is
    routed, and `route` is called when the clocks of all sites are at the job's submission. `home`
    is the site whose own users submit the job, NOWHERE for one to be routed.
    """
    where = home.copy()
    for job, time in enumerate(offered.submit):
        if home[job] == NOWHERE:
            for site in sites:
                site.run_until(float(time))
            where[job] = route(job)
        sites[where[job]].take(job)
    start = np.empty(len(where))
    for site in sites:
        site.run_until(np.inf)
        start[site.came] = site.starts()
    return where, start


class Outcome(NamedTuple):
    """Sums over the jobs that started, and over the waiting jobs as if they started at the end."""

    time_utility: float  #: of eq. 1-3 (2008).
    fairness: float  #: of eq. 4 at each start.


@compiled
def _utility_of_start(cluster: Cluster, job: int, start: float) -> float:
    turnaround = start - cluster.jobs[job].submit + cluster.jobs[job].run_time
    row = paper_row(cluster.jobs[job].interactive)
    return time_utility(turnaround, cluster.jobs[job].run_time, row)


@compiled
def _sums_until(cluster: Cluster, queue: OrderedQueue, until: float) -> tuple[float, float]:
    useful, fair = 0.0, 0.0
    while True:
        event = next_event(cluster)
        if event > until:
            break
        advance(cluster, event)
        before = cluster.state[0].started
        decide_scored(cluster, queue)
        started = cluster.state[0].started - before
        if started > 0:
            fair += started * fairness(cluster.shares, current_usage(cluster))
        for place in range(before, before + started):
            useful += _utility_of_start(cluster, cluster.started[place], cluster.state[0].now)
    advance(cluster, until)
    waiting = cluster.state[0].pending
    fair += waiting * fairness(cluster.shares, current_usage(cluster))
    for place in range(waiting):
        useful += _utility_of_start(cluster, cluster.pending[place], until)
    return useful, fair


def outcome(site: RoutedSite, jobs: IntArray, submit: FloatArray, until: float) -> Outcome:
    """The outcome of a site's queue and of the jobs that come; the site does not change.

    Offered `jobs` come at `submit`: ascending, not before now and not after `until`, which is later
    than now.
    """
    return Outcome(*_sums_until(*site.fork(jobs, submit), until))


def added_job_gains(
    site: RoutedSite,
    added: Sequence[int],
    jobs: IntArray,
    submit: FloatArray,
    horizon: float,
) -> FloatArray:
    """What each of some jobs that come now adds to the sums of `outcome`; shape [added, 2].

    A difference reward (Wolpert and Tumer 2002): the job's own time utility and fairness, less
    what it costs the other jobs at the site, plus what it gives them by a better balance of shares.
    Each of `added` is tried alone; `jobs` come anyway. `horizon`: seconds.
    """
    until = site.now + horizon
    coming = submit <= until
    jobs, submit = jobs[coming], submit[coming]
    without = np.array(outcome(site, jobs, submit, until))
    times = np.concatenate([[site.now], submit])
    found = [outcome(site, np.concatenate([[job], jobs]), times, until) for job in added]
    return np.array(found) - without
