"""Partitions with processors of their own: queues apart, usage of the accounts together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import advance, decision_time, next_event
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.ordered_queue import QueueOrder
from slurm_rl_plugin.simulator.schedules.resumed import ProcessorRun
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulatedSchedule,
    SimulationSettings,
    finished_schedule,
)
from slurm_rl_plugin.units import IntArray


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
    """
    job = [np.flatnonzero(partition == number) for number in range(len(capacities))]
    job = [each for each in job if len(each)]
    parts: list[ProcessorRun] = []
    for each in job:
        theirs = replace(settings, capacity=capacities[partition[each[0]]])
        mine, beside = order.of_jobs(each), parts[0].cluster if parts else None
        parts.append(ProcessorRun.of(workload.select(each), mine, theirs, beside=beside))
    if parts:  # usage is accounted from the first submission to any partition
        parts[0].cluster.usage_time[0] = min(float(part.workload.submit[0]) for part in parts)
    _run(parts, settings.cycle)
    start = np.empty(len(workload.submit))
    for each, part in zip(job, parts, strict=True):
        start[each] = finished_schedule(part.cluster).start
    decisions = sum(int(part.cluster.state[0].decisions) for part in parts)
    return SimulatedSchedule(start=start, decisions=decisions)


def _run(parts: Sequence[ProcessorRun], cycle: float) -> None:
    """Let everything happen in all partitions, in the order of time."""
    events = [next_event(part.workload.jobs, part.cluster) for part in parts]
    while parts and not np.isinf(min(events)):
        now = decision_time(min(events), cycle)
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
