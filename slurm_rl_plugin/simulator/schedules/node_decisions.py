"""Decisions on nodes at each event, in a static order or by scores of now; not as slurmctld's."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import (
    DECISIONS,
    PENDING,
    Cluster,
    advance,
    decision_time,
    next_event,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.simulator.kernel.dispatch import EASY
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.nodes.easy import start_in_order_on_nodes
from slurm_rl_plugin.simulator.nodes.machine_now import MachineNow, any_room, free_ended
from slurm_rl_plugin.simulator.schedules.order_in_tiers import (
    OrderSpace,
    order_that_matters,
)
from slurm_rl_plugin.simulator.schedules.ordered_queue import OrderedQueue, score_queue
from slurm_rl_plugin.simulator.schedules.reserve_on_nodes import (
    LimitOnBatch,
    leave_out_batch_limit,
    set_batch_limit,
)
from slurm_rl_plugin.units import IntArray


@compiled_borrowing
def decide_in_order(
    workload: Workload, cluster: Cluster, machine: MachineNow, backfilling: int
) -> None:
    """One decision of a static order, in which `pending` is kept."""
    if cluster.counts[PENDING] > 0 and any_room(cluster, machine):
        cluster.counts[DECISIONS] += 1
        count = cluster.counts[PENDING]
        easy = backfilling == EASY
        start_in_order_on_nodes(workload, cluster, machine, cluster.pending, count, easy)


@compiled_borrowing
def run_in_order(
    workload: Workload,
    cluster: Cluster,
    machine: MachineNow,
    rank: IntArray,
    cycle: float,
    backfilling: int,
    until: float,
) -> None:
    """Let everything up to `until` happen, and every decision of a static order.

    Args:
        workload: the jobs.
        cluster: changed in place.
        machine: changed in place.
        rank: place of each job, tiers within it, shape [n].
        cycle: seconds between decisions; 0 decides at every event.
        backfilling: code of BACKFILLING.
        until: seconds.
    """
    while True:
        event = next_event(workload, cluster)
        time = decision_time(event, cycle)
        if np.isinf(event) or time > until:
            return
        advance(workload, cluster, time, rank)
        free_ended(cluster, machine)
        decide_in_order(workload, cluster, machine, backfilling)


class ScoredPasses(NamedTuple):
    """How a queue that is scored at each decision is looked at, but as slurmctld.

    Attributes:
        backfilling: code of BACKFILLING.
        tier: of each job's partition, shape [n].
        line: all jobs stand in one, shape [n].
        space: for the order.
        limit: of batch jobs.
    """

    backfilling: int
    tier: IntArray
    line: IntArray
    space: OrderSpace
    limit: LimitOnBatch


@compiled_borrowing
def decide_by_scores(
    workload: Workload,
    cluster: Cluster,
    machine: MachineNow,
    passes: ScoredPasses,
    queue: OrderedQueue,
) -> None:
    """One decision by scores made now."""
    leave_out_batch_limit(machine, passes.limit)
    if cluster.counts[PENDING] == 0 or not any_room(cluster, machine):
        return
    cluster.counts[DECISIONS] += 1
    score_queue(workload, cluster, queue)
    set_batch_limit(cluster, machine, passes.limit)
    count, space = cluster.counts[PENDING], passes.space
    count = order_that_matters(machine, queue, passes.tier, passes.line, space, count)
    easy = passes.backfilling == EASY
    start_in_order_on_nodes(workload, cluster, machine, space.order, count, easy)


@compiled_borrowing
def run_scored(
    workload: Workload,
    cluster: Cluster,
    machine: MachineNow,
    passes: ScoredPasses,
    queue: OrderedQueue,
    no_rank: IntArray,
    until: float,
) -> None:
    """Let everything up to `until` happen, and every decision by scores of now.

    Args:
        workload: the jobs.
        cluster: changed in place.
        machine: changed in place.
        passes: how it is looked at the queue.
        queue: scores the jobs.
        no_rank: an empty array.
        until: seconds.
    """
    while True:
        event = next_event(workload, cluster)
        time = decision_time(event, queue.cycle)
        if np.isinf(event) or time > until:
            return
        advance(workload, cluster, time, no_rank)
        free_ended(cluster, machine)
        decide_by_scores(workload, cluster, machine, passes, queue)
