"""Run a workload on the nodes of a machine under an order of the queue."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.simulator.kernel.cluster import (
    DECISIONS,
    PENDING,
    Cluster,
    advance,
    decision_time,
    next_event,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.simulator.kernel.dispatch import BACKFILLING, CONSERVATIVE, EASY
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.nodes.conservative import start_conservatively_on_nodes
from slurm_rl_plugin.simulator.nodes.easy import start_in_order_on_nodes
from slurm_rl_plugin.simulator.nodes.machine_now import MachineNow, any_room, free_ended
from slurm_rl_plugin.simulator.nodes.node_machine import NodeMachine
from slurm_rl_plugin.simulator.nodes.node_state import held_by
from slurm_rl_plugin.simulator.schedules.as_slurm import (
    SlurmPasses,
    run_as_slurm,
    slurm_passes,
)
from slurm_rl_plugin.simulator.schedules.kept_order import rank_anew, rank_of_tiers
from slurm_rl_plugin.simulator.schedules.order_in_tiers import (
    OrderSpace,
    order_in_tiers,
    order_space,
    order_that_matters,
)
from slurm_rl_plugin.simulator.schedules.ordered_queue import (
    OrderedQueue,
    QueueOrder,
    score_queue,
)
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulatedSchedule,
    SimulationSettings,
    finished_schedule,
)
from slurm_rl_plugin.units import FloatArray, IntArray

#: Looks at the queue as slurmctld makes them, with its own backfilling.
AS_SLURM = "slurm"
#: What backfilling on nodes may be.
NODE_BACKFILLING = ("none", "easy", "conservative", AS_SLURM)


@compiled_borrowing
def _start(
    workload: Workload,
    cluster: Cluster,
    machine: MachineNow,
    order: IntArray,
    count: int,
    backfilling: int,
) -> None:
    """Start the first `count` jobs of an order, under a way of BACKFILLING."""
    if backfilling == CONSERVATIVE:
        start_conservatively_on_nodes(workload, cluster, machine, order, count)
    else:
        start_in_order_on_nodes(workload, cluster, machine, order, count, backfilling == EASY)


@compiled_borrowing
def _decide_in_order(
    workload: Workload, cluster: Cluster, machine: MachineNow, backfilling: int
) -> None:
    """One decision of a static order, in which `pending` is kept."""
    if cluster.counts[PENDING] > 0 and any_room(cluster, machine):
        cluster.counts[DECISIONS] += 1
        count = cluster.counts[PENDING]
        _start(workload, cluster, machine, cluster.pending, count, backfilling)


@compiled_borrowing
def _run_in_order(
    workload: Workload,
    cluster: Cluster,
    machine: MachineNow,
    rank: IntArray,
    cycle: float,
    backfilling: int,
    until: float,
) -> None:
    while True:
        event = next_event(workload, cluster)
        time = decision_time(event, cycle)
        if np.isinf(event) or time > until:
            return
        advance(workload, cluster, time, rank)
        free_ended(cluster, machine)
        _decide_in_order(workload, cluster, machine, backfilling)


@compiled_borrowing
def _decide_by_scores(
    workload: Workload,
    cluster: Cluster,
    machine: MachineNow,
    queue: OrderedQueue,
    tier: IntArray,
    one_line: IntArray,
    space: OrderSpace,
    backfilling: int,
) -> None:
    """One decision by scores made now; `one_line` is 0 for every job."""
    if cluster.counts[PENDING] == 0 or not any_room(cluster, machine):
        return
    cluster.counts[DECISIONS] += 1
    score_queue(workload, cluster, queue)
    count = cluster.counts[PENDING]
    if backfilling == CONSERVATIVE:  # whoever has no room now has a place in the plan
        order_in_tiers(queue, tier, space, count)
    else:
        count = order_that_matters(machine, queue, tier, one_line, space, count)
    _start(workload, cluster, machine, space.order, count, backfilling)


@compiled_borrowing
def _run_scored(
    workload: Workload,
    cluster: Cluster,
    machine: MachineNow,
    queue: OrderedQueue,
    tier: IntArray,
    one_line: IntArray,
    space: OrderSpace,
    backfilling: int,
    until: float,
) -> None:
    while True:
        event = next_event(workload, cluster)
        time = decision_time(event, queue.cycle)
        if np.isinf(event) or time > until:
            return
        advance(workload, cluster, time, one_line[:0])
        free_ended(cluster, machine)
        _decide_by_scores(workload, cluster, machine, queue, tier, one_line, space, backfilling)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRun:
    """A simulation on nodes under way: it can be stopped, to see which job is where.

    Attributes:
        workload: the jobs.
        cluster: what of it changes beside nodes.
        machine: what of its nodes changes.
        queue: scores the jobs where `rank` is empty.
        rank: place of each job in a static order, tiers within it; or an empty array.
        tier: of each job's partition, shape [n].
        passes: how slurmctld looks at the queue; None where it is not simulated.
        backfilling: one of NODE_BACKFILLING.
        keeps_order: `rank` is that of the last `order_anew`, and of no static order.
    """

    workload: Workload
    cluster: Cluster
    machine: MachineNow
    queue: OrderedQueue
    rank: IntArray
    tier: IntArray
    passes: SlurmPasses | None
    backfilling: str
    keeps_order: bool = False

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
            workload: the jobs.
            machine: of these jobs.
            order: how the queue is ordered.
            settings: the batch system.
            keeps_order: scores that change are made at `order_anew` alone, not at each decision.
        """
        _refuse(settings)
        # how nodes are filled is none of the queue's concern
        queue = replace(settings, backfilling="none").ordered_queue(workload, order)
        rank, tier = np.empty(0, dtype=np.int64), machine.queues.tier
        if order.scores is not None and order.protects is None and not settings.has_hook:
            rank, keeps_order = _rank_in_tiers(order.scores, tier), False
        elif keeps_order:
            rank = rank_of_tiers(tier)
        passes = None
        if settings.backfilling == AS_SLURM:
            passes = slurm_passes(workload, machine)
        return cls(
            workload=workload,
            cluster=settings.empty_cluster(workload),
            machine=machine.idle(),
            queue=queue,
            rank=rank,
            tier=tier,
            passes=passes,
            backfilling=settings.backfilling,
            keeps_order=keeps_order,
        )

    def run_until(self, until: float, cycle: float = 0.0) -> None:
        """Let everything up to `until`, seconds, happen, and every decision.

        Args:
            until: seconds.
            cycle: seconds between decisions of a static or a kept order, or passes of backfill, at
                least, beside the batch system's own.
        """
        jobs, cluster, machine, queue = self.workload, self.cluster, self.machine, self.queue
        if self.passes is not None:
            interval = max(cycle, self.passes.backfill_interval)
            passes = self.passes._replace(backfill_interval=interval)
            run_as_slurm(jobs, cluster, machine, passes, queue, self.rank, until)
            return
        way = BACKFILLING[self.backfilling]
        if len(self.rank):
            cycle = max(cycle, queue.cycle)
            _run_in_order(jobs, cluster, machine, self.rank, cycle, way, until)
        else:
            line, space = self._order_space()
            _run_scored(jobs, cluster, machine, queue, self.tier, line, space, way, until)

    def order_anew(self) -> None:
        """Rank the jobs by scores of now, if it keeps an order."""
        if self.keeps_order:
            rank_anew(self.workload, self.cluster, self.queue, self.rank)

    def decide(self) -> None:
        """Decide now, whether or not anything has happened; slurmctld looks when it is time."""
        jobs, cluster, machine, queue = self.workload, self.cluster, self.machine, self.queue
        if self.passes is not None:
            return
        way = BACKFILLING[self.backfilling]
        if len(self.rank):
            _decide_in_order(jobs, cluster, machine, way)
        else:
            line, space = self._order_space()
            _decide_by_scores(jobs, cluster, machine, queue, self.tier, line, space, way)

    def _order_space(self) -> tuple[IntArray, OrderSpace]:
        """One line for all jobs, and the space in which they are put in order."""
        count = len(self.tier)
        space = order_space(count, len(self.machine.waiting), 1)
        return np.zeros(count, dtype=np.int64), space

    def place_of(self, job: int) -> dict[int, float]:
        """The nodes that a running job holds, and its CPUs on each."""
        return held_by(self.machine.nodes, job)

    def finish(self) -> SimulatedSchedule:
        """Let everything happen.

        Raises:
            SimulationError: a job never started.
        """
        self.run_until(np.inf)
        return finished_schedule(self.cluster)


def simulate_on_nodes(
    workload: Workload, machine: NodeMachine, order: QueueOrder, settings: SimulationSettings
) -> SimulatedSchedule:
    """Simulate any order on nodes: no backfilling, EASY, conservative, or as slurmctld does it.

    Args:
        workload: the jobs in submit order; `processors` are CPUs.
        machine: of these jobs.
        order: how the queue is ordered; partitions of a higher tier go first.
        settings: the batch system; `capacity` is the CPUs of all nodes.

    Raises:
        SimulationError: a way of backfilling, a plan or a limit that is not simulated on nodes, or
            a job that never started, since no node of its pool holds it.
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
    if settings.plan is not None or settings.class_limit is not None or settings.reserve:
        raise SimulationError("on nodes neither plan estimates nor a reserve are simulated yet.")
