"""Run a workload under an order of the queue and get back when every job started."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.class_limit import (
    ClassLimit,
    limit_state,
    order_by_rail,
    reserve_in_force,
    score_by_rail,
)
from slurm_rl_plugin.simulator.kernel.cluster import (
    DECISIONS,
    IDLE,
    LIMITED,
    PENDING,
    SCORED_JOBS,
    Cluster,
    Workload,
    advance,
    empty_cluster,
    next_event,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_borrowing
from slurm_rl_plugin.simulator.kernel.dispatch import (
    BACKFILLING,
    CONSERVATIVE,
    anything_fits,
    dispatch_by_score,
    dispatch_in_order,
    start_in_order,
)
from slurm_rl_plugin.simulator.scoring.hook_effects import HookEffects, as_written, hook_effects
from slurm_rl_plugin.simulator.scoring.network import (
    CompiledNetwork,
    compile_network,
    no_network,
    score_pending,
)
from slurm_rl_plugin.simulator.scoring.rules import rule_code, score_pending_by_rule
from slurm_rl_plugin.units import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSettings:
    """The batch system that is simulated: its size, backfilling, cycle and reserve.

    Attributes:
        capacity: processors.
        backfilling: "none", "easy" or "conservative".
        cycle: seconds between scheduling decisions; 0 decides at every event.
        reserve: processors kept from batch work; a network may ask for more.
        half_life: seconds after which past usage counts half in the features; inf for never.
        influence: hours of age that the best place in a network's order is worth to a job; inf
            where the order alone counts.
        refresh: seconds between two cycles of the hook that writes a network's scores; 0 where
            every decision sees scores of its own instant.
        starvation: seconds of waiting after which a job goes first under a network; inf for never.
        class_limit: how a live batch system keeps the reserve; None keeps processors free.
    """

    capacity: int
    backfilling: str = "none"
    cycle: float = 0.0
    reserve: int = 0
    half_life: float = math.inf
    influence: float = math.inf
    refresh: float = 0.0
    starvation: float = math.inf
    class_limit: ClassLimit | None = None

    def effects(self, jobs: int) -> HookEffects:
        """What the hook makes of a network's scores for a workload of that many jobs."""
        return hook_effects(jobs, self.influence, self.refresh, self.starvation)

    def empty_cluster(
        self, workload: Workload, beside: Cluster | None = None, capacity: int | None = None
    ) -> Cluster:
        """The cluster before the first submission.

        Args:
            workload: the jobs.
            beside: see `cluster.empty_cluster`.
            capacity: processors of a partition; by default those of the machine.

        Raises:
            SimulationError: a job wider than the machine.
        """
        return empty_cluster(
            workload,
            self.capacity if capacity is None else capacity,
            self.half_life,
            beside,
            limit_state(self.class_limit),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedSchedule:
    """When each job of a workload started, and how much work the ordering took.

    Attributes:
        start: start of each job, seconds, shape [n].
        decisions: how often the queue was ordered.
        scored_jobs: how many job scores a network computed.
    """

    start: FloatArray
    decisions: int
    scored_jobs: int


@compiled_borrowing
def decision_time(event: float, cycle: float) -> float:
    """When the batch system looks at its queue after an event: at once, or at the next cycle."""
    if cycle <= 0.0:
        return event
    # rounding can put the multiple just below the event, which would then never happen
    return max(np.ceil(event / cycle) * cycle, event)


@compiled
def decide_static(workload: Workload, cluster: Cluster, backfilling: int, reserve: int) -> None:
    """One decision of a static order, in which `pending` is kept."""
    counts = cluster.counts
    if cluster.limit[LIMITED] > 0.0 and not anything_fits(workload, cluster):
        return  # the limit is left as it is, as under scores made now
    if counts[PENDING] > 0 and counts[IDLE] > 0:
        counts[DECISIONS] += 1
        order = cluster.pending[: counts[PENDING]]
        reserve = reserve_in_force(workload, cluster, reserve)
        order = order_by_rail(workload, cluster, order)
        dispatch_in_order(workload, cluster, order, backfilling, reserve)


@compiled
def decide_scored(
    workload: Workload,
    cluster: Cluster,
    network: CompiledNetwork,
    rule: int,
    backfilling: int,
    reserve: int,
    effects: HookEffects,
    scores: FloatArray,
    jobs: IntArray,
) -> None:
    """One decision by scores made now: of a rule, or of the network where rule < 0."""
    if cluster.counts[IDLE] == 0 or not anything_fits(workload, cluster):
        return
    cluster.counts[DECISIONS] += 1
    if rule >= 0:
        score_pending_by_rule(workload, cluster, rule, scores, jobs)
    else:
        wanted = score_pending(workload, cluster, network, scores, jobs)
        reserve = max(reserve, wanted)
    reserve = reserve_in_force(workload, cluster, reserve)
    score_by_rail(workload, cluster, scores, jobs)
    if rule < 0:
        as_written(workload, cluster, effects, scores, jobs)
    dispatch_by_score(workload, cluster, scores, jobs, backfilling, reserve)


@compiled
def _simulate_static(
    workload: Workload,
    cluster: Cluster,
    rank: IntArray,
    backfilling: int,
    cycle: float,
    reserve: int,
) -> None:
    while True:
        event = next_event(workload, cluster)
        if np.isinf(event):
            return
        advance(workload, cluster, decision_time(event, cycle), rank)
        decide_static(workload, cluster, backfilling, reserve)


@compiled_borrowing
def _simulate_freely(
    workload: Workload,
    cluster: Cluster,
    rank: IntArray,
    backfilling: int,
    cycle: float,
    reserve: int,
) -> None:
    """`_simulate_static` without a limit on a class and without conservative backfilling.

    Nothing here makes an array, so no array is counted, which took most of the time.
    """
    counts = cluster.counts
    while True:
        event = next_event(workload, cluster)
        if np.isinf(event):
            return
        advance(workload, cluster, decision_time(event, cycle), rank)
        if counts[PENDING] > 0 and counts[IDLE] > 0:
            counts[DECISIONS] += 1
            start_in_order(
                workload, cluster, cluster.pending, counts[PENDING], backfilling, reserve
            )


@compiled
def _simulate_scored(
    workload: Workload,
    cluster: Cluster,
    network: CompiledNetwork,
    rule: int,
    backfilling: int,
    cycle: float,
    reserve: int,
    effects: HookEffects,
) -> None:
    """Score the queue afresh at every decision: by a rule, or by the network where rule < 0."""
    no_rank = np.empty(0, dtype=np.int64)
    places = len(workload.submit) + 1
    scores, jobs = np.empty(places), np.empty(places, dtype=np.int64)
    while True:
        event = next_event(workload, cluster)
        if np.isinf(event):
            return
        advance(workload, cluster, decision_time(event, cycle), no_rank)
        decide_scored(workload, cluster, network, rule, backfilling, reserve, effects, scores, jobs)


def finished_schedule(cluster: Cluster) -> SimulatedSchedule:
    """The schedule of a cluster on which everything has run.

    Raises:
        SimulationError: a job never started.
    """
    if np.isnan(cluster.start).any():
        raise SimulationError("a simulated job never started.")
    return SimulatedSchedule(
        start=cluster.start,
        decisions=int(cluster.counts[DECISIONS]),
        scored_jobs=int(cluster.counts[SCORED_JOBS]),
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
    """Simulate a static order: higher scores first, ties by submission.

    Args:
        workload: the jobs in submit order.
        scores: shape [n].
        settings: the batch system.

    Raises:
        SimulationError: a job wider than the machine, or one that never started.
    """
    rank = rank_of(scores)
    cluster = settings.empty_cluster(workload)
    backfilling = BACKFILLING[settings.backfilling]
    freely = settings.class_limit is None and backfilling != CONSERVATIVE
    simulate = _simulate_freely if freely else _simulate_static
    simulate(workload, cluster, rank, backfilling, settings.cycle, settings.reserve)
    return finished_schedule(cluster)


def simulate_network(
    workload: Workload, network: QNetwork, settings: SimulationSettings
) -> SimulatedSchedule:
    """Simulate a network that scores the whole queue afresh at every decision.

    Args:
        workload: the jobs in submit order.
        network: of the `site` schema or one of the papers' (reactive-grid).
        settings: the batch system.

    Raises:
        SimulationError: another schema, a job wider than the machine, or one that never started.
    """
    return _simulate(workload, compile_network(network, workload), -1, settings)


def simulate_waiting_rule(
    workload: Workload, name: str, settings: SimulationSettings
) -> SimulatedSchedule:
    """Simulate one of WAITING_RULES, which scores the whole queue afresh at every decision.

    Args:
        workload: the jobs in submit order.
        name: one of WAITING_RULES.
        settings: the batch system; `half_life` decays the usage that multifactor sees.

    Raises:
        SimulationError: a job wider than the machine, or one that never started.
    """
    return _simulate(workload, no_network(), rule_code(name), settings)


def _simulate(
    workload: Workload, network: CompiledNetwork, rule: int, settings: SimulationSettings
) -> SimulatedSchedule:
    cluster = settings.empty_cluster(workload)
    _simulate_scored(
        workload,
        cluster,
        network,
        rule,
        BACKFILLING[settings.backfilling],
        settings.cycle,
        settings.reserve,
        settings.effects(len(workload.submit)),
    )
    return finished_schedule(cluster)
