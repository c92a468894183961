"""Run a workload under an order of the queue and get back when every job started."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from slurm_rl_plugin.domain.goals import AS_TRAINED, Goals
from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.policies.echo_state import EchoStateNetwork
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.class_limit import (
    ClassLimit,
    limit_class,
    order_by_rail,
    rail_orders,
    reserve_in_force,
)
from slurm_rl_plugin.simulator.kernel.cluster import (
    Cluster,
    advance,
    decision_time,
    empty_cluster,
    next_event,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.simulator.kernel.dispatch import BACKFILLING, anything_fits, dispatch_in_order
from slurm_rl_plugin.simulator.kernel.workload import Records, Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import OrderedQueue, QueueOrder, run_until
from slurm_rl_plugin.simulator.scoring.echo_state import CompiledEchoState, compile_echo_state
from slurm_rl_plugin.simulator.scoring.hook_effects import hook_effects
from slurm_rl_plugin.simulator.scoring.network import CompiledNetwork, compile_network
from slurm_rl_plugin.simulator.scoring.rules import FixedScores, RuleScores, rule_code
from slurm_rl_plugin.units import DAY, FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSettings:
    """The batch system that is simulated: its size, backfilling, cycle and reserve."""

    capacity: int  #: processors
    backfilling: str = "none"  #: "none", "easy" or, on nodes, "slurm"
    cycle: float = 0.0  #: seconds between scheduling decisions; 0 decides at every event
    reserve: int = 0  #: processors kept from batch work; a network may ask for more
    #: Seconds after which past usage counts half, in the site's own priority and in the features;
    #: inf for never. By default Slurm's.
    half_life: float = 7 * DAY
    #: Hours of age that the best place in the order adds to the site's own priority of a job; inf
    #: if the order alone counts.
    influence: float = math.inf
    #: Seconds between two cycles of the hook that writes the scores; 0 where every decision sees
    #: scores of its own instant.
    refresh: float = 0.0
    #: Seconds of waiting after which a job goes first of its account; inf for never.
    starvation: float = math.inf
    #: How a live batch system keeps the reserve; None keeps processors free.
    class_limit: ClassLimit | None = None
    #: Where the order alone counts, what partition, QOS and association add to the site's own
    #: priority keeps counting next to it.
    site_points: bool = False
    goals: Goals = AS_TRAINED  #: what the site wants of a network's order

    @property
    def has_hook(self) -> bool:
        """Whether the hook changes what scores alone would do."""
        bounded = math.isfinite(min(self.influence, self.starvation))
        return self.refresh > 0.0 or bounded or self.site_points

    @property
    def without_hook(self) -> SimulationSettings:
        """The same batch system left to itself: nothing is written and nothing kept free."""
        return replace(
            self,
            influence=math.inf,
            refresh=0.0,
            starvation=math.inf,
            reserve=0,
            class_limit=None,
            site_points=False,
        )

    def ordered_queue(
        self, workload: Workload, order: QueueOrder, places: int | None = None
    ) -> OrderedQueue:
        """A queue that is scored at each decision, compiled for these jobs.

        Args:
            places: how many jobs there may ever be; by default those of the workload.

        Raises:
            SimulationError: a network of another schema, a rule that is not compiled, or an order
                that looks at users of jobs that name none.
        """
        reader = order.reads_users
        if reader is not None and not workload.knows_users:
            raise SimulationError(f"{reader} needs to know the user of each job.")
        places = len(workload.submit) if places is None else places
        site = order.site_or_example.before(workload)
        return OrderedQueue(
            network=site if order.is_sites_own else _compile(order, workload, self.goals),
            backfilling=BACKFILLING[self.backfilling],
            cycle=self.cycle,
            reserve=self.reserve,
            effects=hook_effects(
                places,
                site,
                math.inf if order.is_sites_own else self.influence,
                self.refresh,
                self.starvation,
                site_points=self.site_points and not order.is_sites_own,
            ),
            scores=np.empty(places + 1),
            jobs=np.empty(places + 1, dtype=np.int64),
        )

    def empty_cluster(self, workload: Workload, beside: Cluster | None = None) -> Cluster:
        """The cluster before the first submission; `beside` as of `cluster.empty_cluster`."""
        cluster = empty_cluster(workload, self.capacity, self.half_life, beside)
        limit_class(cluster, self.class_limit)
        return cluster


def _compile(
    order: QueueOrder, workload: Workload, goals: Goals
) -> CompiledNetwork | CompiledEchoState | FixedScores | RuleScores:
    if order.scores is not None:
        return FixedScores(scores=order.scores)
    if isinstance(order.network, EchoStateNetwork):
        return compile_echo_state(order.network, workload)
    if order.network is not None:
        return compile_network(order.network, workload, goals)
    return RuleScores(rule_code(str(order.rule)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedSchedule:
    """When each job of a workload started, and how much work the ordering took."""

    start: FloatArray  #: start of each job, seconds, shape [n]
    decisions: int  #: how often the queue was ordered


@compiled_borrowing
def decide_static(jobs: Records, cluster: Cluster, backfilling: int, reserve: int) -> None:
    """One decision of a static order, in which `pending` is kept."""
    state = cluster.state[0]
    if state.limited > 0.0 and not anything_fits(jobs, cluster):
        return  # the limit is left as it is, as under scores made now
    if state.pending == 0 or state.idle == 0:
        return
    state.decisions += 1
    reserve = reserve_in_force(jobs, cluster, reserve)
    order, count = cluster.pending, state.pending
    if rail_orders(cluster):
        order_by_rail(jobs, cluster, order, count, cluster.ordered)
        order = cluster.ordered
    dispatch_in_order(jobs, cluster, order, count, backfilling, reserve)


@compiled_borrowing
def run_in_order(
    jobs: Records,
    cluster: Cluster,
    rank: IntArray,
    backfilling: int,
    cycle: float,
    reserve: int,
    until: float,
) -> None:
    """Let everything up to `until`, seconds, happen, and every decision of a static order."""
    while True:
        event = next_event(jobs, cluster)
        time = decision_time(event, cycle)
        if np.isinf(event) or time > until:
            return
        advance(jobs, cluster, time, rank)
        decide_static(jobs, cluster, backfilling, reserve)


def finished_schedule(cluster: Cluster) -> SimulatedSchedule:
    """The schedule of a cluster on which everything has run.

    Raises:
        SimulationError: a job never started.
    """
    if np.isnan(cluster.start).any():
        raise SimulationError("a simulated job never started.")
    return SimulatedSchedule(
        start=cluster.start,
        decisions=int(cluster.state[0].decisions),
    )


def rank_of(scores: FloatArray) -> IntArray:
    """Place of each job in the order of its score; ties by submission; shape [n]."""
    jobs = len(scores)
    rank = np.empty(jobs, dtype=np.int64)
    rank[np.lexsort((np.arange(jobs), -scores))] = np.arange(jobs)
    return rank


def simulate_scores(
    workload: Workload, scores: FloatArray, settings: SimulationSettings
) -> SimulatedSchedule:
    """Simulate a static order: higher scores, shape [n], first, ties by submission."""
    rank = rank_of(scores)
    cluster = settings.empty_cluster(workload)
    backfilling = BACKFILLING[settings.backfilling]
    cycle, reserve = settings.cycle, settings.reserve
    run_in_order(workload.jobs, cluster, rank, backfilling, cycle, reserve, np.inf)
    return finished_schedule(cluster)


def simulate_network(
    workload: Workload, network: QNetwork | EchoStateNetwork, settings: SimulationSettings
) -> SimulatedSchedule:
    """Simulate a network that scores the whole queue afresh at every decision.

    An echo state network begins with an empty memory; the state of the best job is its memory of
    the next decision, or of the next one at which the hook writes.

    Args:
        network: of the `site` schema or one of the papers' (reactive-grid).
    """
    return simulate_order(workload, QueueOrder(network=network), settings)


def is_static(order: QueueOrder, settings: SimulationSettings) -> bool:
    """Whether nothing changes the order while jobs wait, so that each has its rank once for all."""
    return order.scores is not None and not settings.has_hook


def simulate_order(
    workload: Workload, order: QueueOrder, settings: SimulationSettings
) -> SimulatedSchedule:
    """Simulate any order: a static one that nothing changes ranks the jobs once.

    Args:
        settings: the batch system; `half_life` decays the usage that multifactor sees.

    Raises:
        SimulationError: a job wider than the machine, or one that never started.
    """
    if order.scores is not None and is_static(order, settings):
        return simulate_scores(workload, order.scores, settings)
    queue = settings.ordered_queue(workload, order)
    cluster = settings.empty_cluster(workload)
    run_until(workload, cluster, queue, np.inf)
    return finished_schedule(cluster)
