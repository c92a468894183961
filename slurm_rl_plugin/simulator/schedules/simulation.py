"""The event loop, and simulations of a whole workload under an order of the queue.

How a queue is looked at is its type: by rank or by score on a pool of processors, on nodes, or on
nodes as slurmctld does. The loop is compiled for each.

Every simulation raises SimulationError for a job that is wider than the machine or never starts,
for a network of another schema, and an order that looks at users of jobs that name none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slurm_rl_plugin.domain.goals import AS_TRAINED, Goals
from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.policies.echo_state import EchoStateNetwork
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit, limit_class
from slurm_rl_plugin.simulator.kernel.cluster import (
    NO_RANK,
    Cluster,
    advance,
    decision_time,
    empty_cluster,
    next_event,
)
from slurm_rl_plugin.simulator.kernel.compilation import chosen_by_type, compiled
from slurm_rl_plugin.simulator.kernel.dispatch import BACKFILLING
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.on_nodes import (
    NodeLooks,
    SlurmPasses,
    decide_on_nodes,
    look_as_slurm,
    next_look,
)
from slurm_rl_plugin.simulator.schedules.ordered_queue import (
    OrderedQueue,
    QueueOrder,
    StaticQueue,
    decide_scored,
    decide_static,
    rank_of,
)
from slurm_rl_plugin.simulator.scoring.echo_state import CompiledEchoState, compile_echo_state
from slurm_rl_plugin.simulator.scoring.hook_effects import hook_effects
from slurm_rl_plugin.simulator.scoring.network import CompiledNetwork, compile_network
from slurm_rl_plugin.simulator.scoring.rules import RULE_CODES, FixedScores, RuleScores
from slurm_rl_plugin.units import DAY, FloatArray, IntArray


@chosen_by_type("queue", {SlurmPasses: next_look})
def _next_decision(cluster: Cluster, queue: Any) -> float:
    """When the queue is looked at next; inf when nothing more will happen."""
    return decision_time(next_event(cluster), queue.cycle)


@chosen_by_type(
    "queue",
    {StaticQueue: decide_static, NodeLooks: decide_on_nodes, SlurmPasses: look_as_slurm},
)
def decide(cluster: Cluster, queue: Any) -> None:
    """Make one decision on a queue now."""
    decide_scored(cluster, queue)


@compiled
def run_until(cluster: Cluster, queue: Any, until: float) -> None:
    """Let everything up to `until` happen, and every decision.

    `queue` is an OrderedQueue, StaticQueue, NodeLooks or SlurmPasses; its memory changes.
    """
    while True:
        time = _next_decision(cluster, queue)
        if np.isinf(time) or time > until:
            return
        advance(cluster, time)
        decide(cluster, queue)


@compiled
def run_up_to(cluster: Cluster, queue: Any, until: float) -> None:
    """`run_until`; the clock stops at `until`, unless an event before waits for its decision."""
    run_until(cluster, queue, until)
    if not np.isinf(until) and cluster.state[0].now < until < next_event(cluster):
        advance(cluster, until)


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

    def empty_cluster(
        self, workload: Workload, neighbour: Cluster | None = None, rank: IntArray = NO_RANK
    ) -> Cluster:
        """The cluster before the first submission; arguments as of `cluster.empty_cluster`."""
        cluster = empty_cluster(workload, self.capacity, self.half_life, neighbour, rank)
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
    return RuleScores(RULE_CODES[str(order.rule)])


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedSchedule:
    """When each job of a workload started, and how much work the ordering took."""

    start: FloatArray  #: start of each job, seconds, shape [n]
    decisions: int  #: how often the queue was ordered


def finished_schedule(cluster: Cluster) -> SimulatedSchedule:
    """The schedule of a cluster on which everything has run."""
    if np.isnan(cluster.start).any():
        raise SimulationError("a simulated job never started.")
    return SimulatedSchedule(
        start=cluster.start,
        decisions=int(cluster.state[0].decisions),
    )


def simulate_scores(
    workload: Workload, scores: FloatArray, settings: SimulationSettings
) -> SimulatedSchedule:
    """Simulate a static order: higher scores, shape [n], first, ties by submission."""
    return simulate_order(workload, QueueOrder(scores=scores), settings)


def simulate_network(
    workload: Workload, network: QNetwork | EchoStateNetwork, settings: SimulationSettings
) -> SimulatedSchedule:
    """Simulate a network that scores the whole queue at every decision.

    An echo state network begins with an empty memory; the state of the best job is its memory at
    the next decision, or at the next one at which the hook writes.
    """
    return simulate_order(workload, QueueOrder(network=network), settings)


def is_static(order: QueueOrder, settings: SimulationSettings) -> bool:
    """Whether nothing changes the order while jobs wait, so that each has its rank once for all."""
    return order.scores is not None and not settings.has_hook


def simulate_order(
    workload: Workload, order: QueueOrder, settings: SimulationSettings
) -> SimulatedSchedule:
    """Simulate any order: a static one that nothing changes ranks the jobs once."""
    queue: OrderedQueue | StaticQueue
    if order.scores is not None and is_static(order, settings):
        rank = rank_of(order.scores, np.zeros(len(order.scores), dtype=np.int64))
        backfilling = BACKFILLING[settings.backfilling]
        queue = StaticQueue(backfilling, settings.cycle, settings.reserve)
    else:
        rank, queue = NO_RANK, settings.ordered_queue(workload, order)
    cluster = settings.empty_cluster(workload, rank=rank)
    run_until(cluster, queue, np.inf)
    return finished_schedule(cluster)
