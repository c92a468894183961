"""Several simulated sites side by side: a job goes to one of them when it is submitted.

The kernel is that of a single site. A site knows of a job only from the moment it is sent there, so
its columns fill up as jobs come; what lies behind them has a submit that never comes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.domain import JobTable, PendingJobs, QueueSnapshot, RunningJobs, StartedJobs
from slurm_rl_plugin.domain.jobs import empty_job_table
from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.cluster import (
    ENDED,
    IDLE,
    NOW,
    PENDING,
    PENDING_PROCESSORS,
    RUNNING,
    Cluster,
    empty_cluster,
    next_event,
)
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import OrderedQueue, QueueOrder, run_until
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.scoring.rules import current_usage
from slurm_rl_plugin.units import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteTerms:
    """In what one simulated site differs from others: shares, order and batch system.

    Attributes:
        name: as brokers call it.
        accounts: names, the same at every site.
        shares: of each account here, shape [accounts], sum 1.
        order: how its queue is ordered: a Q-network or a rule.
        settings: its batch system; it decides at every event (cycle 0) and limits no class.
    """

    name: str
    accounts: tuple[str, ...]
    shares: FloatArray
    order: QueueOrder
    settings: SimulationSettings


class RoutedSite:
    """A simulated site, one of several among which a broker sends jobs."""

    def __init__(self, terms: SiteTerms, offered: Workload) -> None:
        """A site with idle processors and no jobs, at time 0.

        Args:
            terms: what makes it itself.
            offered: every job that may ever be sent to it, in order of submission.

        Raises:
            SimulationError: a cycle, a limit on a class, or an order that is neither a Q-network
                nor a rule; or an order that looks at users of jobs that name none.
        """
        scorer = terms.order.network
        if terms.settings.cycle > 0.0 or terms.settings.class_limit is not None:
            raise SimulationError(
                "a routed site decides at every event and limits no class of jobs."
            )
        if not isinstance(scorer, QNetwork) and terms.order.rule is None:
            raise SimulationError("a routed site is ordered by a Q-network or a rule.")
        self.terms = terms
        self.offered = offered._replace(shares=terms.shares)
        places = len(offered.submit) + 1
        #: The order compiled for all offered jobs; that of the site knows those that came.
        self._all = terms.settings.ordered_queue(self.offered, terms.order, places)
        #: Number among the offered jobs of each job that came here, in the order of coming.
        self.came: list[int] = []
        self.workload = self.offered.rows(places)
        self.cluster = _idle(self.workload, terms.settings, float(offered.submit[0]))
        self._scored = scorer is not None
        network = self._all.network
        self.queue = self._all._replace(network=network.rows(places) if self._scored else network)
        self._users = tuple(map(str, range(len(offered.past.users))))
        self._holds = isinstance(scorer, QNetwork) and scorer.reserve_weights is not None

    @property
    def now(self) -> float:
        """Time that the site's simulation has come to, seconds."""
        return float(self.cluster.clock[NOW])

    @property
    def load(self) -> float:
        """Processors that jobs occupy or wait for, in parts of the capacity."""
        capacity = self.terms.settings.capacity
        busy = capacity - int(self.cluster.counts[IDLE])
        return (busy + int(self.cluster.counts[PENDING_PROCESSORS])) / capacity

    def fits(self, job: int) -> bool:
        """Whether the job is not wider than the site."""
        return bool(self.offered.processors[job] <= self.terms.settings.capacity)

    def run_until(self, time: float) -> None:
        """Let everything up to `time` happen."""
        run_until(self.workload, self.cluster, self.queue, time)

    def take(self, job: int) -> None:
        """Submit one of the offered jobs here, at its own time, and let the site decide.

        Raises:
            SimulationError: it is wider than the site.
        """
        if not self.fits(job):
            raise SimulationError("a job was sent to a site that is narrower than the job.")
        time = self.offered.submit[[job]]
        self._write(self.workload, self.queue, np.array([job]), time)
        self.came.append(job)
        self.run_until(float(time[0]))

    def _write(
        self, workload: Workload, queue: OrderedQueue, jobs: IntArray, submit: FloatArray
    ) -> None:
        """Write offered jobs behind those that came, to be submitted at these times."""
        places = slice(len(self.came), len(self.came) + len(jobs))
        workload.write(places, jobs, self.offered)
        workload.submit[places] = submit
        if self._scored:
            queue.network.write(places, jobs, self._all.network)

    def fork(
        self, jobs: IntArray, submit: FloatArray, *, as_estimated: bool = False
    ) -> tuple[Workload, Cluster, OrderedQueue]:
        """A copy of the site to which these jobs come; the site itself stays as it is.

        Rows behind the jobs that came are shared by the site and its fork, so that a fork has to
        be run before the next one is made and before the site takes another job.

        Args:
            jobs: numbers of offered jobs, shape [n].
            submit: when they come, ascending and not before now, seconds, shape [n].
            as_estimated: jobs run as long as they are estimated to.
        """
        cluster = _as_estimated(self.cluster) if as_estimated else _copy(self.cluster)
        workload = self.workload._replace(submit=self.workload.submit.copy())
        queue = self.queue.copy()
        self._write(workload, queue, jobs, submit)
        if as_estimated:
            workload = workload._replace(run_time=_expected_run_times(workload, cluster))
        return workload, cluster, queue

    def expected_start(self, job: int) -> float:
        """When the job would start if it came now and nobody came after it, seconds.

        As a batch system's own test of a job: run times are the estimates, the order is the
        site's. Inf for a job wider than the site.
        """
        if not self.fits(job):
            return np.inf
        if self.cluster.counts[IDLE] > 0 and self.cluster.counts[PENDING] == 0:
            idle = self.cluster.counts[IDLE] >= self.offered.processors[job]
            if idle and self.terms.settings.reserve == 0 and not self._holds:
                return self.now
        now = np.array([self.now])
        workload, cluster, queue = self.fork(np.array([job]), now, as_estimated=True)
        place = len(self.came)
        run_until(workload, cluster, queue, self.now)
        while np.isnan(cluster.start[place]):
            run_until(workload, cluster, queue, next_event(workload, cluster))
        return float(cluster.start[place])

    def snapshot(self) -> QueueSnapshot:
        """What a policy sees of the site now; started and ended jobs are not told."""
        counts, cluster = self.cluster.counts, self.cluster
        running = np.sort(cluster.end_job[: counts[RUNNING]])
        nothing = empty_job_table()
        return QueueSnapshot(
            now=self.now,
            pending=PendingJobs.untouched(self._table(cluster.pending[: counts[PENDING]])),
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
        """Start of each job in the order of coming, seconds; call it when everything has run.

        Raises:
            SimulationError: a job never started.
        """
        start = self.cluster.start[: len(self.came)]
        if np.isnan(start).any():
            raise SimulationError("a job sent to a site never started.")
        return start

    def _table(self, places: IntArray) -> JobTable:
        jobs = self.workload
        return JobTable(
            job_id=places + 1,
            submit=jobs.submit[places],
            eligible=jobs.submit[places],
            processors=jobs.processors[places],
            time_limit=jobs.time_limit[places],
            account=jobs.account[places],
            user=jobs.past.user[places] if self._users else np.full(len(places), -1, np.int64),
            partition=np.zeros(len(places), dtype=np.int64),
            interactive=jobs.interactive[places],
            weighed=jobs.size[places] if len(jobs.counted) else None,
        )


def _idle(workload: Workload, settings: SimulationSettings, since: float) -> Cluster:
    cluster = empty_cluster(workload, settings.capacity, settings.half_life)
    cluster.clock[NOW] = cluster.usage_time[0] = since
    return cluster


def _copy(cluster: Cluster) -> Cluster:
    """The same state in arrays of its own."""
    return cluster._replace(**{name: column.copy() for name, column in cluster._asdict().items()})


def _as_estimated(cluster: Cluster) -> Cluster:
    """A copy in which running jobs end when they are expected to, or now if they should have."""
    copied = _copy(cluster)
    running = cluster.counts[RUNNING]
    ends = np.maximum(cluster.expected_end[:running], cluster.clock[NOW])
    copied.end_time[:running], copied.end_job[:running] = ends, cluster.expected_job[:running]
    return copied


def _expected_run_times(workload: Workload, cluster: Cluster) -> FloatArray:
    """Estimates, but what a job that has ended ran, and a running one that has outrun its own."""
    run_time = workload.estimate.copy()
    ended = cluster.ended[: cluster.counts[ENDED]]
    run_time[ended] = workload.run_time[ended]
    running = cluster.end_job[: cluster.counts[RUNNING]]
    run_time[running] = np.maximum(run_time[running], cluster.clock[NOW] - cluster.start[running])
    return run_time
