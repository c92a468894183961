"""A simulation that begins in the middle: jobs run already, others wait."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import (
    NOW,
    PENDING,
    Cluster,
    advance,
    arrive,
    decision_time,
    forget_started,
    next_event,
    start_job,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.schedules.kept_order import rank_anew, rank_of_tiers
from slurm_rl_plugin.simulator.schedules.ordered_queue import (
    OrderedQueue,
    QueueOrder,
    decide_scored,
    run_until,
)
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulationSettings,
    decide_static,
    is_static,
    rank_of,
)
from slurm_rl_plugin.units import FloatArray, IntArray


@compiled
def resume(
    workload: Workload, cluster: Cluster, now: float, running: IntArray, start: FloatArray
) -> None:
    """Bring an empty cluster to an instant: who came before it waits, unless he runs.

    Args:
        workload: the jobs; `run_time` of the running ones is all that they will have run.
        cluster: as `empty_cluster` makes it; changed in place. Usage is the caller's.
        now: seconds.
        running: jobs that run, in the order of their starts.
        start: when each of them started, seconds, at most `now`.
    """
    no_rank = np.empty(0, dtype=np.int64)
    came = np.searchsorted(workload.submit, now, side="right")
    for _ in range(came):
        arrive(workload, cluster, no_rank)
    for place in range(len(running)):
        cluster.clock[NOW] = start[place]
        start_job(workload, cluster, running[place])
    forget_started(cluster)
    cluster.clock[NOW] = now
    cluster.usage_time[0] = now


@compiled
def _run_in_order(
    workload: Workload,
    cluster: Cluster,
    rank: IntArray,
    backfilling: int,
    cycle: float,
    reserve: int,
    until: float,
) -> None:
    while True:
        event = next_event(workload, cluster)
        time = decision_time(event, cycle)
        if np.isinf(event) or time > until:
            return
        advance(workload, cluster, time, rank)
        decide_static(workload, cluster, backfilling, reserve)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorRun:
    """A simulation on a pool of processors under way, as `NodeRun` is one on nodes.

    Attributes:
        workload: the jobs.
        cluster: what of it changes.
        queue: scores the jobs where `rank` is empty.
        rank: place of each job in a static or a kept order; or an empty array.
        reserve: processors to keep free as the order is kept, shape [1].
        keeps_order: `rank` is that of the last `order_anew`, and of no static order.
    """

    workload: Workload
    cluster: Cluster
    queue: OrderedQueue
    rank: IntArray
    reserve: IntArray
    keeps_order: bool

    @classmethod
    def of(
        cls,
        workload: Workload,
        order: QueueOrder,
        settings: SimulationSettings,
        *,
        keeps_order: bool = False,
    ) -> ProcessorRun:
        """Before the first submission; arguments as of `NodeRun.of`."""
        rank = np.empty(0, dtype=np.int64)
        if is_static(order, settings):
            assert order.scores is not None
            rank, keeps_order = rank_of(order.scores), False
        elif keeps_order:
            rank = rank_of_tiers(np.zeros(len(workload.submit), dtype=np.int64))
        return cls(
            workload=workload,
            cluster=settings.empty_cluster(workload),
            queue=settings.ordered_queue(workload, order),
            rank=rank,
            reserve=np.array([settings.reserve]),
            keeps_order=keeps_order,
        )

    def resume(self, now: float, running: IntArray, start: FloatArray) -> None:
        """Bring a run that has not begun to an instant, and decide at once; see `resume`."""
        if not len(self.rank):
            resume(self.workload, self.cluster, now, running, start)
            decide_scored(self.workload, self.cluster, self.queue)
            return
        self.line_up(now, running, start)
        decide_static(self.workload, self.cluster, self.queue.backfilling, int(self.reserve[0]))

    def line_up(self, now: float, running: IntArray, start: FloatArray) -> IntArray:
        """Bring a run of a static or a kept order to an instant, and decide nothing; see `resume`.

        Returns:
            Who waits, the first first.
        """
        resume(self.workload, self.cluster, now, running, start)
        pending = self.cluster.pending[: self.cluster.counts[PENDING]]
        pending[:] = pending[np.argsort(self.rank[pending])]
        self.order_anew()
        return pending

    def order_anew(self) -> None:
        """Rank the jobs by scores of now, if it keeps an order."""
        if self.keeps_order:
            self.reserve[0] = rank_anew(self.workload, self.cluster, self.queue, self.rank)

    def run_until(self, until: float, cycle: float = 0.0) -> None:
        """Let everything up to `until`, seconds, happen, and every decision.

        Args:
            until: seconds.
            cycle: seconds between decisions of a static or a kept order at least, beside the batch
                system's own.
        """
        jobs, cluster, queue = self.workload, self.cluster, self.queue
        if not len(self.rank):
            run_until(jobs, cluster, queue, until)
            return
        way, reserve = queue.backfilling, int(self.reserve[0])
        cycle = max(cycle, queue.cycle)
        _run_in_order(jobs, cluster, self.rank, way, cycle, reserve, until)
