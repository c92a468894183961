"""Run a workload on the nodes of a machine under an order of the queue."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit
from slurm_rl_plugin.simulator.kernel.cluster import Cluster, advance, decision_time, next_event
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.nodes.easy import start_in_order_on_nodes
from slurm_rl_plugin.simulator.nodes.machine_now import (
    MachineNow,
    NodeMachine,
    any_room,
    free_ended,
)
from slurm_rl_plugin.simulator.nodes.node_state import held_by
from slurm_rl_plugin.simulator.schedules.as_slurm import SlurmPasses, run_as_slurm, slurm_passes
from slurm_rl_plugin.simulator.schedules.order_in_tiers import (
    OrderSpace,
    order_space,
    order_that_matters,
)
from slurm_rl_plugin.simulator.schedules.ordered_queue import (
    OrderedQueue,
    QueueOrder,
    rank_anew,
    rank_of_tiers,
    score_queue,
)
from slurm_rl_plugin.simulator.schedules.reserve_on_nodes import (
    LimitOnBatch,
    asks_for_much,
    batch_limit,
    leave_out_batch_limit,
    set_batch_limit,
    with_batch_group,
)
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulatedSchedule,
    SimulationSettings,
    finished_schedule,
)
from slurm_rl_plugin.units import FloatArray, IntArray


class NodeLooks(NamedTuple):
    """How the queue is looked at, but as slurmctld."""

    easy: bool  #: jobs start behind the head by EASY backfilling
    tier: IntArray  #: of each job's partition, shape [n]
    line: IntArray  #: all jobs stand in one, shape [n]
    space: OrderSpace  #: for the order of a queue that is scored
    limit: LimitOnBatch  #: of batch jobs


@compiled_borrowing
def decide_on_nodes(
    workload: Workload,
    cluster: Cluster,
    machine: MachineNow,
    looks: NodeLooks,
    queue: OrderedQueue,
    rank: IntArray,
) -> None:
    """One decision: by scores made now where `rank` is empty, else in the order of `pending`."""
    leave_out_batch_limit(machine, looks.limit)
    if cluster.state[0].pending == 0 or not any_room(cluster, machine):
        return
    cluster.state[0].decisions += 1
    order, count, space = cluster.pending, cluster.state[0].pending, looks.space
    if len(rank) == 0:
        score_queue(workload, cluster, queue)
        set_batch_limit(cluster, machine, looks.limit)
        order = space.order
        count = order_that_matters(machine, queue, looks.tier, looks.line, space, count)
    start_in_order_on_nodes(workload, cluster, machine, order, count, looks.easy)


@compiled_borrowing
def run_on_nodes(
    workload: Workload,
    cluster: Cluster,
    machine: MachineNow,
    looks: NodeLooks,
    queue: OrderedQueue,
    rank: IntArray,
    cycle: float,
    until: float,
) -> None:
    """Let everything up to `until`, seconds, happen, and every decision.

    Args:
        rank: place of each job in a static order, tiers within it, shape [n]; or an empty array.
        cycle: seconds between decisions; 0 decides at every event.
    """
    while True:
        event = next_event(workload.jobs, cluster)
        time = decision_time(event, cycle)
        if np.isinf(event) or time > until:
            return
        advance(workload.jobs, cluster, time, rank)
        free_ended(cluster, machine)
        decide_on_nodes(workload, cluster, machine, looks, queue, rank)


#: Looks at the queue as slurmctld makes them, with its own backfilling.
AS_SLURM = "slurm"
#: What backfilling on nodes may be.
NODE_BACKFILLING = ("none", "easy", AS_SLURM)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRun:
    """A simulation on nodes under way: it can be stopped, to see which job is where."""

    workload: Workload  #: the jobs
    cluster: Cluster  #: what of it changes beside nodes
    machine: MachineNow  #: what of its nodes changes
    queue: OrderedQueue  #: scores the jobs where `rank` is empty
    rank: IntArray  #: place of each job in a static order, tiers within it; or an empty array
    looks: NodeLooks  #: how the queue is looked at
    passes: SlurmPasses | None  #: how slurmctld looks at it instead; None where it is not simulated
    keeps_order: bool = False  #: `rank` is that of the last `order_anew`, and of no static order

    @classmethod
    def of(
        cls,
        workload: Workload,
        machine: NodeMachine,
        order: QueueOrder,
        settings: SimulationSettings,
        *,
        keeps_order: bool = False,
    ) -> NodeRun:
        """Before the first submission; see `simulate_on_nodes`.

        Args:
            keeps_order: scores that change are made at `order_anew` alone, not at each decision.
        """
        _refuse(settings)
        rule = _kept_free(order, settings)
        settings = replace(settings, class_limit=rule)
        # how nodes are filled is none of the queue's concern
        queue = replace(settings, backfilling="none").ordered_queue(workload, order)
        rank, tier = np.empty(0, dtype=np.int64), machine.queues.tier
        keeps_order = keeps_order and rule is None  # the limit is set where scores are made
        is_fixed = not settings.has_hook and rule is None
        if order.scores is not None and is_fixed:
            rank, keeps_order = _rank_in_tiers(order.scores, tier), False
        elif keeps_order:
            rank = rank_of_tiers(tier)
        limit = batch_limit(rule, machine)
        cluster = settings.empty_cluster(workload)
        if rule is not None:
            workload = workload.having(asks_much=asks_for_much(rule, machine))
            limits = with_batch_group(machine.limits, workload.interactive)
            machine = replace(machine, limits=limits)
        as_slurm = settings.backfilling == AS_SLURM
        return cls(
            workload=workload,
            cluster=cluster,
            machine=machine.idle(),
            queue=queue,
            rank=rank,
            looks=NodeLooks(
                easy=settings.backfilling == "easy",
                tier=tier,
                line=np.zeros_like(tier),
                space=order_space(len(tier), len(machine.requests.fewest), 1),
                limit=limit,
            ),
            passes=slurm_passes(workload, machine, limit) if as_slurm else None,
            keeps_order=keeps_order,
        )

    def run_until(self, until: float, cycle: float = 0.0) -> None:
        """Let everything up to `until`, seconds, happen, and every decision.

        Args:
            cycle: seconds between decisions of a static or a kept order, or passes of backfill, at
                least, beside the batch system's own.
        """
        jobs, cluster, machine, queue = self.workload, self.cluster, self.machine, self.queue
        if self.passes is not None:
            interval = max(cycle, self.passes.backfill_interval)
            passes = self.passes._replace(backfill_interval=interval)
            run_as_slurm(jobs, cluster, machine, passes, queue, self.rank, until)
            return
        cycle = max(cycle, queue.cycle) if len(self.rank) else queue.cycle
        run_on_nodes(jobs, cluster, machine, self.looks, queue, self.rank, cycle, until)

    def order_anew(self) -> None:
        """Rank the jobs by scores of now, if it keeps an order."""
        if self.keeps_order:
            rank_anew(self.workload, self.cluster, self.queue, self.rank)

    def decide(self) -> None:
        """Decide now, whether or not anything has happened; slurmctld looks when it is time."""
        if self.passes is None:
            jobs, cluster, machine = self.workload, self.cluster, self.machine
            decide_on_nodes(jobs, cluster, machine, self.looks, self.queue, self.rank)

    def place_of(self, job: int) -> dict[int, float]:
        """The nodes that a running job holds, and its CPUs on each."""
        return held_by(self.machine.nodes, job)

    def finish(self) -> SimulatedSchedule:
        """Let everything happen."""
        self.run_until(np.inf)
        return finished_schedule(self.cluster)


def simulate_on_nodes(
    workload: Workload, machine: NodeMachine, order: QueueOrder, settings: SimulationSettings
) -> SimulatedSchedule:
    """Simulate any order on nodes: no backfilling, EASY, or as slurmctld does it.

    Args:
        workload: the jobs in submit order; `processors` are CPUs.
        order: how the queue is ordered; partitions of a higher tier go first.
        settings: the batch system; `capacity` is the CPUs of all nodes.

    Raises:
        SimulationError: a way of backfilling that is not simulated on nodes, or a job that
            never started, since no node of its pool holds it.
    """
    return NodeRun.of(workload, machine, order, settings).finish()


def _rank_in_tiers(scores: FloatArray, tier: IntArray) -> IntArray:
    """Place of each job by tier, then by score, then by submission; shape [n]."""
    rank = np.empty(len(scores), dtype=np.int64)
    rank[np.lexsort((np.arange(len(scores)), -scores, -tier))] = np.arange(len(scores))
    return rank


def _refuse(settings: SimulationSettings) -> None:
    if settings.backfilling not in NODE_BACKFILLING:
        raise SimulationError(
            f"nodes are simulated with {', '.join(NODE_BACKFILLING)} backfilling, "
            f"not {settings.backfilling}."
        )


def _kept_free(order: QueueOrder, settings: SimulationSettings) -> ClassLimit | None:
    """How a reserve is kept: on nodes by a limit on batch jobs in any case; None for none."""
    network = order.network
    holds = isinstance(network, QNetwork) and network.reserve_weights is not None
    if not holds and settings.reserve == 0:
        return None
    return settings.class_limit or ClassLimit()
