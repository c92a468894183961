"""Sources of forecasts of a live queue: replays, past waits, the batch system itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from slurm_rl_plugin.domain.goals import AS_TRAINED, Goals
from slurm_rl_plugin.domain.resources import numbers_in
from slurm_rl_plugin.features.estimates import RequestedLimit
from slurm_rl_plugin.forecasts.forecast import LEVELS, Forecasts
from slurm_rl_plugin.forecasts.live.site_at import (
    SiteAt,
    fair_share_until,
    longest_wait_until,
)
from slurm_rl_plugin.forecasts.past_waits.wait_forest import (
    SeenJobs,
    WaitForest,
    features_of,
    fit_forest,
    polled_log,
    seen_now,
    training_rows,
)
from slurm_rl_plugin.forecasts.replays import OrderOf, QueueNow, ReplayedSite
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.policies.ordering_rules import STATIC_RULES
from slurm_rl_plugin.policies.waiting_rules import SITES_OWN, WAITING_RULES
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.scoring.site_priority import SitePriority
from slurm_rl_plugin.simulator.workloads.machine_load import node_machine
from slurm_rl_plugin.simulator.workloads.recorded_runs import RecordedPast
from slurm_rl_plugin.simulator.workloads.site_points import site_priority
from slurm_rl_plugin.units import FloatArray, IntArray

#: Names of the sources, in the order in which what they said is kept.
REPLAYS, PAST_WAITS, OWN = "replays", "past waits", "batch system"
SOURCES = (REPLAYS, PAST_WAITS, OWN)
#: Backfilling on nodes of queues with more waiting jobs than this: as slurmctld does it, one
#: replay of 10,000 jobs takes a minute.
EASY_ON_NODES, _DEEP = "easy", 1000
#: Part of the time since now for which an order is kept in replays.
KEPT = 0.05
#: Rows that a forest of waits is fitted to at least.
_FEWEST_ROWS = 50
#: The order of a site at an instant.
SiteOrder = Callable[[SiteAt], OrderOf]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySource:
    """Replays of a site's queue under one order."""

    order: Callable[[SiteAt], OrderOf]  #: of the queue of a site at an instant
    backfilling: str  #: of its scheduler on a pool of processors
    #: Of its scheduler where its nodes are known, and the queue is not too deep for it.
    on_nodes: str
    half_life: float  #: of past usage, seconds
    #: Hours of age that an order of the hook equals; see SimulationSettings.
    influence: float = np.inf
    site_points: bool = False  #: see SimulationSettings
    goals: Goals = AS_TRAINED  #: what the site wants of a network's order

    def waits(
        self,
        site: SiteAt,
        jobs: IntArray,
        draws: int,
        rng: np.random.Generator,
        goes_on: Callable[[int], bool] | None = None,
    ) -> FloatArray:
        """Waits left to some pending jobs, ascending, in replays, seconds, float64[m, draws]."""
        replayed, queue = self.at(site)
        return replayed.starts(queue, jobs, draws, rng, goes_on) - site.now

    def planned(self, site: SiteAt, jobs: IntArray) -> FloatArray:
        """Waits left to some pending jobs if all run as long as their limits, seconds, [m]."""
        replayed, queue = self.at(site)
        return replayed.planned(queue, jobs) - site.now

    def ranks(self, site: SiteAt) -> IntArray:
        """Place of each pending job in the order in force, 0 for the first, shape [p]."""
        replayed, queue = self.at(site)
        ranks = np.empty(len(site.pending), dtype=np.int64)
        ranks[np.searchsorted(site.pending, replayed.line(queue))] = np.arange(len(ranks))
        return ranks

    def run_times(self, site: SiteAt, job: int, draws: int) -> FloatArray:
        """How long one pending job may run, seconds, at even shares of its prediction, [draws]."""
        replayed, _ = self.at(site)
        return replayed.spreads(np.array([job])).evenly(draws)

    def at(self, site: SiteAt) -> tuple[ReplayedSite, QueueNow]:
        """The site ready to be played forward, and its queue."""
        log, machine = site.prepared.log, site.prepared.machine
        workload = site.prepared.workload(RequestedLimit())
        past = RecordedPast(site.prepared, quantiles=True)
        past.run(site.now)
        on_nodes = self.on_nodes if len(site.pending) <= _DEEP else EASY_ON_NODES
        settings = SimulationSettings(
            capacity=site.prepared.capacity,
            backfilling=self.backfilling if machine is None else on_nodes,
            half_life=self.half_life,
            influence=self.influence,
            site_points=self.site_points,
            goals=site.prepared.goals(self.goals),
        )
        replayed = ReplayedSite(
            jobs=workload.having(past=past.past),
            quantiles=past.quantiles_now,
            order=self.order(site),
            settings=settings,
            kept=KEPT,
            machine=None if machine is None else node_machine(log, machine),
        )
        queue = QueueNow(
            now=site.now,
            running=site.running,
            start=log.start[site.running],
            pending=site.pending,
            usage=site.usage,
            fair=fair_share_until(site.prepared, site.now, self.half_life),
            longest=longest_wait_until(log, site.now),
        )
        return replayed, queue


@dataclass(frozen=True, slots=True, kw_only=True)
class PastWaits:
    """A forest that has learned from the waits of a site's past.

    It outlives the log that it learned from: another one may number accounts and partitions
    otherwise, since one more of them moves those behind it.
    """

    seen: SeenJobs  #: jobs of the past as they were seen waiting
    forest: WaitForest | None  #: fitted to them; None where they are too few
    accounts: tuple[str, ...]  #: names, as `seen` and the forest number them
    partitions: tuple[str, ...]  #: the same

    @classmethod
    def of_site(cls, site: SiteAt, rng: np.random.Generator) -> PastWaits:
        """Learned from what is known at an instant."""
        seen, log, forest = polled_log(site.prepared, site.now), site.prepared.log, None
        if len(seen) > 0:
            rows = training_rows(seen, site.now, 1, rng)[0]
            if len(rows.rows) >= _FEWEST_ROWS:
                table = features_of(seen).values[rows.rows]
                forest = fit_forest(table, rows.log_wait, rows.weight, rng)
        return cls(seen=seen, forest=forest, accounts=log.accounts, partitions=log.partitions)

    def forecasts(self, site: SiteAt) -> Forecasts | None:
        """Of all pending jobs; None where too little is known."""
        if self.forest is None or len(site.pending) == 0:
            return None
        log = site.prepared.log
        now = seen_now(site.prepared, site.now, site.pending)
        now = replace(
            now,
            account=numbers_in(list(self.accounts), log.accounts, now.account),
            partition=numbers_in(list(self.partitions), log.partitions, now.partition),
        )
        known = self.seen.as_known_at(site.now)
        table = features_of(known.joined(now), at=site.now)
        draws = self.forest.draws(table.values[-len(now) :])
        return Forecasts.of_logs(np.quantile(draws, LEVELS, axis=1).T)


def own_waits(site: SiteAt) -> FloatArray:
    """Waits that the batch system itself expects, seconds, nan where it says nothing, [p]."""
    return np.where(site.expected >= site.now, site.expected - site.now, np.nan)


def learned_order(network: QNetwork) -> SiteOrder:
    """The order of a network."""

    def of_site(site: SiteAt) -> OrderOf:
        order = QueueOrder(network=network, site=_own_priority(site))
        return lambda _, jobs: order.of_jobs(jobs)

    return of_site


def rule_order(name: str) -> SiteOrder:
    """The order of a rule; of one that orders no live queue, first come, first served."""
    static = STATIC_RULES.get(name)

    def of_site(site: SiteAt) -> OrderOf:
        table, priority = site.prepared.jobs(), _own_priority(site)

        def of_jobs(workload: Workload, jobs: IntArray) -> QueueOrder:
            own = QueueOrder(site=priority).of_jobs(jobs)
            if name in WAITING_RULES:
                return replace(own, rule=name)
            if static is None or name == "fifo":
                return replace(own, scores=-workload.submit)
            return replace(own, scores=static(table.select(jobs), workload.estimate))

        return of_jobs

    return of_site


def present_order(site: SiteAt) -> OrderOf:
    """The priorities that the pending jobs have now."""
    priority = np.zeros(len(site.prepared.log))
    priority[site.pending] = site.priority
    return lambda _, jobs: replace(QueueOrder().of_jobs(jobs), scores=priority[jobs])


def own_order(site: SiteAt) -> OrderOf:
    """What the site's own settings give: multifactor priority with its weights, where known."""
    return rule_order(SITES_OWN)(site)


def _own_priority(site: SiteAt) -> SitePriority | None:
    if site.prepared.machine is None:
        return None
    return site_priority(site.prepared, site.prepared.machine)
