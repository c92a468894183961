"""Partitions with processors of their own: queues apart, usage of the accounts together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.cluster import (
    DECISIONS,
    SCORED_JOBS,
    Cluster,
    Workload,
    advance,
    next_event,
)
from slurm_rl_plugin.simulator.kernel.dispatch import BACKFILLING
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulatedSchedule,
    SimulationSettings,
    decide_scored,
    decide_static,
    decision_time,
    finished_schedule,
    rank_of,
)
from slurm_rl_plugin.simulator.scoring.hook_effects import HookEffects
from slurm_rl_plugin.simulator.scoring.network import (
    CompiledNetwork,
    compile_network,
    no_network,
)
from slurm_rl_plugin.simulator.scoring.rules import rule_code
from slurm_rl_plugin.units import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOrder:
    """How a queue is ordered; exactly one is given.

    Attributes:
        scores: of a static order, shape [n].
        network: scores the queue at each decision.
        rule: one of WAITING_RULES, the same.
    """

    scores: FloatArray | None = None
    network: QNetwork | None = None
    rule: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Partition:
    """One partition while it runs; `job` are its jobs' places in the whole workload."""

    job: IntArray
    workload: Workload
    cluster: Cluster
    rank: IntArray
    network: CompiledNetwork
    rule: int
    effects: HookEffects
    scores: FloatArray
    places: IntArray

    def decide(self, settings: SimulationSettings) -> None:
        """Start what can start in this partition now."""
        backfilling = BACKFILLING[settings.backfilling]
        if len(self.rank):
            decide_static(self.workload, self.cluster, backfilling, settings.reserve)
            return
        decide_scored(
            self.workload,
            self.cluster,
            self.network,
            self.rule,
            backfilling,
            settings.reserve,
            self.effects,
            self.scores,
            self.places,
        )


def simulate_in_partitions(
    workload: Workload,
    partition: IntArray,
    capacities: Sequence[int],
    order: QueueOrder,
    settings: SimulationSettings,
) -> SimulatedSchedule:
    """Simulate a site whose partitions share accounts but no processors.

    Args:
        workload: all jobs in submit order.
        partition: index of each job's partition, shape [n].
        capacities: processors of each partition; `settings.capacity` is not used.
        order: how each partition's queue is ordered; queue features are those of the partition.
        settings: the batch system; its reserve is kept in each partition.

    Raises:
        SimulationError: a job wider than its partition, or one that never started.
    """
    parts = _partitions(workload, partition, capacities, order, settings)
    events = [next_event(part.workload, part.cluster) for part in parts]
    while parts and not np.isinf(min(events)):
        now = decision_time(min(events), settings.cycle)
        touched: set[int] = set()
        while (event := min(events)) <= now:
            place = events.index(event)
            part = parts[place]
            advance(part.workload, part.cluster, event, part.rank)
            events[place] = next_event(part.workload, part.cluster)
            touched.add(place)
        for place in sorted(touched):
            part = parts[place]
            advance(part.workload, part.cluster, now, part.rank)
            part.decide(settings)
            events[place] = next_event(part.workload, part.cluster)
    return _merged(len(workload.submit), parts)


def _partitions(
    workload: Workload,
    partition: IntArray,
    capacities: Sequence[int],
    order: QueueOrder,
    settings: SimulationSettings,
) -> list[_Partition]:
    parts: list[_Partition] = []
    for number, capacity in enumerate(capacities):
        job = np.flatnonzero(partition == number)
        if len(job) == 0:
            continue
        mine = _jobs_of(workload, job)
        beside = parts[0].cluster if parts else None
        network = no_network() if order.network is None else compile_network(order.network, mine)
        parts.append(
            _Partition(
                job=job,
                workload=mine,
                cluster=settings.empty_cluster(mine, beside, capacity),
                rank=rank_of(np.empty(0) if order.scores is None else order.scores[job]),
                network=network,
                rule=rule_code(order.rule),
                effects=settings.effects(len(job)),
                scores=np.empty(len(job) + 1),
                places=np.empty(len(job) + 1, dtype=np.int64),
            )
        )
    if parts:  # usage is accounted from the first submission to any partition
        parts[0].cluster.usage_time[0] = min(float(part.workload.submit[0]) for part in parts)
    return parts


def _jobs_of(workload: Workload, job: IntArray) -> Workload:
    columns = {
        name: column if name == "shares" else column[job]
        for name, column in workload._asdict().items()
        if name != "past"
    }
    return Workload(**columns, past=workload.past.of_jobs(job))


def _merged(jobs: int, parts: Sequence[_Partition]) -> SimulatedSchedule:
    start = np.empty(jobs)
    for part in parts:
        start[part.job] = finished_schedule(part.cluster).start
    return SimulatedSchedule(
        start=start,
        decisions=sum(int(part.cluster.counts[DECISIONS]) for part in parts),
        scored_jobs=sum(int(part.cluster.counts[SCORED_JOBS]) for part in parts),
    )
