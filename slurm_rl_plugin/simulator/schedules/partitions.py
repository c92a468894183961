"""Partitions with processors of their own: queues apart, usage of the accounts together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import Cluster, advance, decision_time, next_event
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import (
    OrderedQueue,
    QueueOrder,
    decide_scored,
)
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulatedSchedule,
    SimulationSettings,
    decide_static,
    finished_schedule,
    rank_of,
)
from slurm_rl_plugin.units import IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class _Partition:
    """One partition while it runs; `job` are its jobs' places in the whole workload.

    `rank` is empty where `queue` orders the jobs, and not where a static order does.
    """

    job: IntArray
    workload: Workload
    cluster: Cluster
    rank: IntArray
    queue: OrderedQueue

    def decide(self) -> None:
        """Start what can start in this partition now."""
        queue = self.queue
        if len(self.rank):
            decide_static(self.workload.jobs, self.cluster, queue.backfilling, queue.reserve)
        else:
            decide_scored(self.workload, self.cluster, queue)


def simulate_in_partitions(
    workload: Workload,
    partition: IntArray,
    capacities: Sequence[int],
    order: QueueOrder,
    settings: SimulationSettings,
) -> SimulatedSchedule:
    """Simulate a site whose partitions share accounts but no processors.

    Args:
        partition: index of each job's partition, shape [n].
        capacities: processors of each partition; `settings.capacity` is not used.
        order: how each partition's queue is ordered; queue features are those of the partition.
        settings: the batch system; its reserve is kept in each partition.

    Raises:
        SimulationError: a job wider than its partition, or one that never started.
    """
    parts = _partitions(workload, partition, capacities, order, settings)
    events = [next_event(part.workload.jobs, part.cluster) for part in parts]
    while parts and not np.isinf(min(events)):
        now = decision_time(min(events), settings.cycle)
        touched: set[int] = set()
        while (event := min(events)) <= now:
            place = events.index(event)
            part = parts[place]
            advance(part.workload.jobs, part.cluster, event, part.rank)
            events[place] = next_event(part.workload.jobs, part.cluster)
            touched.add(place)
        for place in sorted(touched):
            part = parts[place]
            advance(part.workload.jobs, part.cluster, now, part.rank)
            part.decide()
            events[place] = next_event(part.workload.jobs, part.cluster)
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
        mine = workload.select(job)
        mine_order = order.of_jobs(job)
        scores = mine_order.scores
        beside = parts[0].cluster if parts else None
        theirs = replace(settings, capacity=capacity)
        parts.append(
            _Partition(
                job=job,
                workload=mine,
                cluster=theirs.empty_cluster(mine, beside),
                rank=rank_of(np.empty(0) if scores is None else scores),
                queue=theirs.ordered_queue(mine, mine_order),
            )
        )
    if parts:  # usage is accounted from the first submission to any partition
        parts[0].cluster.usage_time[0] = min(float(part.workload.submit[0]) for part in parts)
    return parts


def _merged(jobs: int, parts: Sequence[_Partition]) -> SimulatedSchedule:
    start = np.empty(jobs)
    for part in parts:
        start[part.job] = finished_schedule(part.cluster).start
    return SimulatedSchedule(
        start=start,
        decisions=sum(int(part.cluster.state[0].decisions) for part in parts),
    )
