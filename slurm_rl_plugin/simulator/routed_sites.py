"""Several simulated sites side by side: a job goes to one of them when it is submitted.

The kernel is that of a single site. A site knows of a job only from the moment it is sent there, so
its columns fill up as jobs come; what lies behind them has a submit that never comes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.domain import JobTable, PendingJobs, QueueSnapshot, RunningJobs, StartedJobs
from slurm_rl_plugin.domain.jobs import empty_job_table
from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.policies.waiting_rules import WAITING_RULES
from slurm_rl_plugin.simulator.cluster import (
    IDLE,
    NEXT_ARRIVAL,
    NOW,
    PENDING,
    PENDING_PROCESSORS,
    RUNNING,
    Cluster,
    Workload,
    advance,
    empty_cluster,
    next_event,
)
from slurm_rl_plugin.simulator.compilation import compiled
from slurm_rl_plugin.simulator.dispatch import BACKFILLING
from slurm_rl_plugin.simulator.hook_effects import HookEffects
from slurm_rl_plugin.simulator.network_scoring import (
    CompiledNetwork,
    compile_network,
    no_network,
)
from slurm_rl_plugin.simulator.partitions import QueueOrder
from slurm_rl_plugin.simulator.rule_scoring import current_usage
from slurm_rl_plugin.simulator.simulation import SimulationSettings, decide_scored
from slurm_rl_plugin.units import FloatArray, IntArray

#: The place in `home` of a job that a broker sends somewhere.
NOWHERE = -1
_NO_RANK: IntArray = np.empty(0, dtype=np.int64)
#: Columns of a workload with a row for each job.
_JOB_COLUMNS = (
    "submit",
    "run_time",
    "estimate",
    "time_limit",
    "processors",
    "account",
    "interactive",
)


@compiled
def run_until(
    workload: Workload,
    cluster: Cluster,
    network: CompiledNetwork,
    rule: int,
    backfilling: int,
    reserve: int,
    effects: HookEffects,
    scores: FloatArray,
    jobs: IntArray,
    until: float,
) -> None:
    """Let everything up to `until` happen, a decision at each event; the clock stops there.

    Args:
        workload: the jobs.
        cluster: changed in place.
        network: scores the queue where rule < 0.
        rule: index into WAITING_RULES.
        backfilling: code of BACKFILLING.
        reserve: processors kept free of batch work.
        effects: of the hook.
        scores: space for the scores of all jobs.
        jobs: space for their numbers.
        until: seconds; inf runs until nothing more happens by itself.
    """
    no_rank = np.empty(0, dtype=np.int64)
    while True:
        event = next_event(workload, cluster)
        if np.isinf(event) or event > until:
            break
        advance(workload, cluster, event, no_rank)
        decide_scored(workload, cluster, network, rule, backfilling, reserve, effects, scores, jobs)
    if not np.isinf(until) and until > cluster.clock[NOW]:
        advance(workload, cluster, until, no_rank)


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteTerms:
    """What makes a site itself.

    Attributes:
        name: as brokers call it.
        accounts: names, the same at every site.
        shares: of each account here, shape [accounts], sum 1.
        order: how its queue is ordered: a network or a rule.
        settings: its batch system; a decision at every event (cycle 0).
    """

    name: str
    accounts: tuple[str, ...]
    shares: FloatArray
    order: QueueOrder
    settings: SimulationSettings


class RoutedSite:
    """One simulated site among several."""

    def __init__(self, terms: SiteTerms, offered: Workload) -> None:
        """An idle site.

        Args:
            terms: what makes it itself.
            offered: every job that may ever be sent to it, in order of submission.

        Raises:
            SimulationError: a cycle, or a static order, which would need to know the future.
        """
        if terms.settings.cycle > 0.0 or terms.order.scores is not None:
            raise SimulationError("a routed site decides at every event, by a network or a rule.")
        self.terms = terms
        self._offered = offered._replace(shares=terms.shares)
        network = terms.order.network
        self._all = no_network() if network is None else compile_network(network, self._offered)
        self.rule = -1 if terms.order.rule is None else WAITING_RULES.index(terms.order.rule)
        #: Number among the offered jobs of each job that came here, in the order of coming.
        self.came: list[int] = []
        self.workload = _nothing_yet(self._offered)
        self.cluster = _idle(self.workload, terms.settings, float(offered.submit[0]))
        self.network = self._all._replace(
            static_hidden=self._all.static_hidden.copy(),
            static_score=self._all.static_score.copy(),
            arrived=self._all.arrived.copy(),
        )
        self._holds = network is not None and network.reserve_weights is not None
        self._effects = terms.settings.effects(len(self.workload.submit))
        self._space = np.empty(len(self.workload.submit) + 1), np.empty(
            len(self.workload.submit) + 1, dtype=np.int64
        )

    @property
    def now(self) -> float:
        """Seconds."""
        return float(self.cluster.clock[NOW])

    @property
    def load(self) -> float:
        """Processors that jobs occupy or wait for, in parts of the capacity."""
        capacity = self.terms.settings.capacity
        busy = capacity - int(self.cluster.counts[IDLE])
        return (busy + int(self.cluster.counts[PENDING_PROCESSORS])) / capacity

    def fits(self, job: int) -> bool:
        """Whether the job is not wider than the site."""
        return bool(self._offered.processors[job] <= self.terms.settings.capacity)

    def run_until(self, time: float) -> None:
        """Let everything up to `time` happen."""
        self.run_on(self.workload, self.cluster, self.network, time)

    def take(self, job: int) -> None:
        """Submit one of the offered jobs here, at its own time, and let the site decide.

        Raises:
            SimulationError: it is wider than the site.
        """
        if not self.fits(job):
            raise SimulationError("a job was sent to a site that is narrower than the job.")
        time = self._offered.submit[[job]]
        self._write(self.workload, self.network, np.array([job]), time)
        self.came.append(job)
        self.run_until(float(time[0]))

    def _write(
        self, workload: Workload, network: CompiledNetwork, jobs: IntArray, submit: FloatArray
    ) -> None:
        """Write offered jobs behind those that came, to be submitted at these times."""
        places = slice(len(self.came), len(self.came) + len(jobs))
        for name in _JOB_COLUMNS:
            getattr(workload, name)[places] = getattr(self._offered, name)[jobs]
        workload.submit[places] = submit
        if len(network.static_score):
            network.static_score[places] = self._all.static_score[jobs]
            network.static_hidden[places] = self._all.static_hidden[jobs]

    def fork(
        self, jobs: IntArray, submit: FloatArray, *, as_estimated: bool = False
    ) -> tuple[Workload, Cluster, CompiledNetwork]:
        """A copy of the site to which these jobs come; the site itself stays as it is.

        Args:
            jobs: numbers of offered jobs, shape [n].
            submit: when they come, ascending and not before now, seconds, shape [n].
            as_estimated: jobs run as long as they are estimated to.
        """
        cluster = _as_estimated(self.cluster) if as_estimated else _copy(self.cluster)
        workload = _copied_columns(self.workload)
        network = self.network._replace(
            static_hidden=self.network.static_hidden.copy(),
            static_score=self.network.static_score.copy(),
            arrived=self.network.arrived.copy(),
        )
        self._write(workload, network, jobs, submit)
        if as_estimated:
            workload = workload._replace(run_time=workload.estimate)
        return workload, cluster, network

    def run_on(
        self, workload: Workload, cluster: Cluster, network: CompiledNetwork, time: float
    ) -> None:
        """Run another state of this site on, by its own rules; everything is changed in place."""
        settings, (scores, jobs) = self.terms.settings, self._space
        run_until(
            workload,
            cluster,
            network,
            self.rule,
            BACKFILLING[settings.backfilling],
            settings.reserve,
            self._effects,
            scores,
            jobs,
            time,
        )

    def expected_start(self, job: int) -> float:
        """When the job would start if it came now and nobody came after it, seconds.

        As a batch system's own test of a job: run times are the estimates, the order is the
        site's. Inf for a job wider than the site.
        """
        if not self.fits(job):
            return np.inf
        if self.cluster.counts[IDLE] > 0 and self.cluster.counts[PENDING] == 0:
            idle = self.cluster.counts[IDLE] >= self._offered.processors[job]
            if idle and self.terms.settings.reserve == 0 and not self._holds:
                return self.now
        now = np.array([self.now])
        workload, cluster, network = self.fork(np.array([job]), now, as_estimated=True)
        place = len(self.came)
        self.run_on(workload, cluster, network, self.now)
        while np.isnan(cluster.start[place]):
            self.run_on(workload, cluster, network, next_event(workload, cluster))
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
            user=np.full(len(places), -1, dtype=np.int64),
            partition=np.zeros(len(places), dtype=np.int64),
            interactive=jobs.interactive[places],
        )


def _nothing_yet(offered: Workload) -> Workload:
    """Columns for all offered jobs and one more, of which none has come."""
    rows = len(offered.submit) + 1
    columns = {
        name: np.zeros(rows, dtype=getattr(offered, name).dtype) for name in _JOB_COLUMNS[1:]
    }
    columns["processors"] += 1
    return offered._replace(submit=np.full(rows, np.inf), **columns)


def _idle(workload: Workload, settings: SimulationSettings, since: float) -> Cluster:
    cluster = empty_cluster(workload, settings.capacity, settings.half_life)
    cluster.clock[NOW] = cluster.usage_time[0] = since
    return cluster


def _copy(cluster: Cluster) -> Cluster:
    """The same state in arrays of its own."""
    return Cluster(*(column.copy() for column in cluster))


def _copied_columns(workload: Workload) -> Workload:
    return workload._replace(**{name: getattr(workload, name).copy() for name in _JOB_COLUMNS})


def _as_estimated(cluster: Cluster) -> Cluster:
    """A copy in which running jobs end when they are expected to, or now if they should have."""
    copied = _copy(cluster)
    running = cluster.counts[RUNNING]
    ends = np.maximum(cluster.expected_end[:running], cluster.clock[NOW])
    copied.end_time[:running], copied.end_job[:running] = ends, cluster.expected_job[:running]
    return copied


#: Number of an offered job -> place of the site that it goes to.
Route = Callable[[int], int]


def route_jobs(
    sites: Sequence[RoutedSite],
    offered: Workload,
    home: IntArray,
    route: Route,
    after_job: Callable[[int], None] = lambda job: None,
) -> tuple[IntArray, FloatArray]:
    """Run all sites to the end.

    Jobs come one after another, those of the same second too: each site decides before the next
    job is routed, and a route is asked when all sites stand at the job's submission.

    Args:
        sites: idle ones, made for these jobs.
        offered: all jobs in order of submission.
        home: place of the site whose own users submit the job, NOWHERE for one to be routed,
            shape [n].
        route: chooses a site for each of the others.
        after_job: told the number of each job after it was sent.

    Returns:
        Place of each job's site and its start in seconds, both of shape [n].

    Raises:
        SimulationError: a job was sent to a site that is too narrow.
    """
    where = home.copy()
    for job, time in enumerate(offered.submit):
        if home[job] == NOWHERE:
            for site in sites:
                site.run_until(float(time))
            where[job] = route(job)
        sites[where[job]].take(job)
        after_job(job)
    start = np.empty(len(where))
    for site in sites:
        site.run_until(np.inf)
        start[site.came] = site.starts()
    return where, start
