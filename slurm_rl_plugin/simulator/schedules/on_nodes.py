"""Run a workload on the nodes of a machine under an order of the queue."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import (
    DECISIONS,
    PENDING,
    Cluster,
    Workload,
    advance,
    decision_time,
    next_event,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled
from slurm_rl_plugin.simulator.nodes.easy import start_in_order_on_nodes
from slurm_rl_plugin.simulator.nodes.group_limits import GroupLimits
from slurm_rl_plugin.simulator.nodes.machine_now import (
    MachineNow,
    any_room,
    free_ended,
    no_outlook,
)
from slurm_rl_plugin.simulator.nodes.node_state import idle_nodes
from slurm_rl_plugin.simulator.nodes.requests import NodeRequests
from slurm_rl_plugin.simulator.schedules.ordered_queue import (
    OrderedQueue,
    QueueOrder,
    score_queue,
)
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulatedSchedule,
    SimulationSettings,
    finished_schedule,
    rank_of,
)
from slurm_rl_plugin.units import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMachine:
    """The nodes that a workload runs on, and what its jobs ask of them.

    Attributes:
        whole: what each node has, shape [nodes, resources], CPUs first.
        weight: nodes of less weight are taken first, shape [nodes].
        requests: of the jobs of the workload.
        limits: of groups of jobs; nothing used.
    """

    whole: FloatArray
    weight: IntArray
    requests: NodeRequests
    limits: GroupLimits

    def idle(self) -> MachineNow:
        """The machine before the first submission."""
        nodes = idle_nodes(self.whole, self.weight, self.requests)
        limits = self.limits._replace(used=np.zeros_like(self.limits.most))
        return MachineNow(
            requests=self.requests, nodes=nodes, limits=limits, outlook=no_outlook(nodes)
        )


@compiled
def _decide_in_order(
    workload: Workload, cluster: Cluster, machine: MachineNow, backfills: bool
) -> None:
    """One decision of a static order, in which `pending` is kept."""
    if cluster.counts[PENDING] > 0 and any_room(cluster, machine):
        cluster.counts[DECISIONS] += 1
        start_in_order_on_nodes(
            workload, cluster, machine, cluster.pending, cluster.counts[PENDING], backfills
        )


@compiled
def _run_in_order(
    workload: Workload,
    cluster: Cluster,
    machine: MachineNow,
    rank: IntArray,
    cycle: float,
    backfills: bool,
) -> None:
    while True:
        event = next_event(workload, cluster)
        if np.isinf(event):
            return
        advance(workload, cluster, decision_time(event, cycle), rank)
        free_ended(cluster, machine)
        _decide_in_order(workload, cluster, machine, backfills)


@compiled
def _run_scored(
    workload: Workload,
    cluster: Cluster,
    machine: MachineNow,
    queue: OrderedQueue,
    backfills: bool,
) -> None:
    no_rank = np.empty(0, dtype=np.int64)
    while True:
        event = next_event(workload, cluster)
        if np.isinf(event):
            return
        advance(workload, cluster, decision_time(event, queue.cycle), no_rank)
        free_ended(cluster, machine)
        if cluster.counts[PENDING] == 0 or not any_room(cluster, machine):
            continue
        cluster.counts[DECISIONS] += 1
        score_queue(workload, cluster, queue)
        count = cluster.counts[PENDING]
        # pending jobs stand in order of submission, which a stable sort keeps among equals
        order = queue.jobs[np.argsort(-queue.scores[:count], kind="mergesort")]
        start_in_order_on_nodes(workload, cluster, machine, order, count, backfills)


def simulate_on_nodes(
    workload: Workload, machine: NodeMachine, order: QueueOrder, settings: SimulationSettings
) -> SimulatedSchedule:
    """Simulate any order on nodes, without backfilling or with EASY.

    Args:
        workload: the jobs in submit order; `processors` are CPUs.
        machine: of these jobs.
        order: how the queue is ordered.
        settings: the batch system; `capacity` is the CPUs of all nodes.

    Raises:
        SimulationError: a job that never started, since no node of its pool holds it.
    """
    now, cluster = machine.idle(), settings.empty_cluster(workload)
    backfills = settings.backfilling == "easy"
    plain = order.scores is not None and order.protects is None and not settings.has_hook
    if plain and order.scores is not None:
        rank = rank_of(order.scores)
        _run_in_order(workload, cluster, now, rank, settings.cycle, backfills)
    else:
        queue = settings.ordered_queue(workload, order)
        _run_scored(workload, cluster, now, queue, backfills)
    return finished_schedule(cluster)
