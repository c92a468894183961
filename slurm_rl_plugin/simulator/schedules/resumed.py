"""Simulations under way: they begin in the middle, can be stopped, and run beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import (
    Cluster,
    advance,
    arrive,
    decision_time,
    forget_started,
    next_event,
    start_job,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_borrowing
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.nodes.machine_now import MachineNow, count_arrivals, count_in_groups
from slurm_rl_plugin.simulator.nodes.node_state import NodeState, occupy
from slurm_rl_plugin.simulator.nodes.placement import find_room
from slurm_rl_plugin.simulator.nodes.requests import CPU
from slurm_rl_plugin.simulator.schedules.on_nodes import NodeRun
from slurm_rl_plugin.simulator.schedules.ordered_queue import (
    OrderedQueue,
    QueueOrder,
    decide_scored,
    rank_anew,
    rank_of_tiers,
    run_until,
)
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulatedSchedule,
    SimulationSettings,
    decide_static,
    finished_schedule,
    is_static,
    rank_of,
    run_in_order,
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
    jobs, state = workload.jobs, cluster.state[0]
    while state.next_arrival < len(jobs) and jobs[state.next_arrival].submit <= now:
        arrive(jobs, cluster, no_rank)
    for place in range(len(running)):
        cluster.state[0].now = start[place]
        start_job(workload.jobs, cluster, running[place])
    forget_started(cluster)
    cluster.state[0].now = now
    cluster.usage_time[0] = now


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorRun:
    """A simulation on a pool of processors under way, as `NodeRun` is one on nodes."""

    workload: Workload  #: the jobs
    cluster: Cluster  #: what of it changes
    queue: OrderedQueue  #: scores the jobs where `rank` is empty
    rank: IntArray  #: place of each job in a static or a kept order; or an empty array
    reserve: IntArray  #: processors to keep free as the order is kept, shape [1]
    keeps_order: bool  #: `rank` is that of the last `order_anew`, and of no static order

    @classmethod
    def of(
        cls,
        workload: Workload,
        order: QueueOrder,
        settings: SimulationSettings,
        *,
        keeps_order: bool = False,
        beside: Cluster | None = None,
    ) -> ProcessorRun:
        """Before the first submission; arguments as of `NodeRun.of` and `empty_cluster`."""
        rank = np.empty(0, dtype=np.int64)
        if is_static(order, settings):
            assert order.scores is not None
            rank, keeps_order = rank_of(order.scores), False
        elif keeps_order:
            rank = rank_of_tiers(np.zeros(len(workload.submit), dtype=np.int64))
        return cls(
            workload=workload,
            cluster=settings.empty_cluster(workload, beside),
            queue=settings.ordered_queue(workload, order),
            rank=rank,
            reserve=np.array([settings.reserve]),
            keeps_order=keeps_order,
        )

    def resume(self, now: float, running: IntArray, start: FloatArray) -> None:
        """Bring a run that has not begun to an instant, and decide at once; see `resume`."""
        if len(self.rank):
            self.line_up(now, running, start)
        else:
            resume(self.workload, self.cluster, now, running, start)
        self.decide()

    def decide(self) -> None:
        """Decide now, whether or not anything has happened."""
        jobs, cluster, queue = self.workload, self.cluster, self.queue
        if len(self.rank):
            decide_static(jobs.jobs, cluster, queue.backfilling, int(self.reserve[0]))
        else:
            decide_scored(jobs, cluster, queue)

    def line_up(self, now: float, running: IntArray, start: FloatArray) -> IntArray:
        """Bring a run of a static or kept order to an instant, undecided; who waits, in order."""
        resume(self.workload, self.cluster, now, running, start)
        pending = self.cluster.pending[: self.cluster.state[0].pending]
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
            cycle: seconds between decisions of a static or a kept order at least, beside the batch
                system's own.
        """
        jobs, cluster, queue = self.workload, self.cluster, self.queue
        if not len(self.rank):
            run_until(jobs, cluster, queue, until)
            return
        way, reserve = queue.backfilling, int(self.reserve[0])
        cycle = max(cycle, queue.cycle)
        run_in_order(jobs.jobs, cluster, self.rank, way, cycle, reserve, until)


class HeldNodes(NamedTuple):
    """Which nodes some running jobs hold, one job behind the other."""

    #: Where the nodes of each job begin in `node`, shape [r + 1]; a job whose nodes are not known
    #: has none.
    first: IntArray
    node: IntArray  #: numbers of nodes, shape [k]
    cpus: FloatArray  #: of the job on each of them, shape [k]

    @classmethod
    def evenly(cls, nodes: Sequence[Sequence[int]], cpus: IntArray) -> Self:
        """Where it is not known how many CPUs of a job are on which of its nodes.

        Args:
            nodes: of each job; none where they are not known.
            cpus: of each job in all, shape [r].
        """
        counts = np.array([len(each) for each in nodes], dtype=np.int64)
        first = np.concatenate([[0], np.cumsum(counts)])
        place = np.arange(first[-1]) - np.repeat(first[:-1], counts)
        each, rest = np.divmod(cpus, np.maximum(counts, 1))
        on_node = np.repeat(each, counts) + (place < np.repeat(rest, counts))
        return cls(
            first=first,
            node=np.array([node for each in nodes for node in each], dtype=np.int64),
            cpus=np.maximum(on_node, 1).astype(np.float64),
        )


def no_nodes_known(running: int) -> HeldNodes:
    """Of no running job it is known where it is."""
    nothing = np.empty(0, dtype=np.int64)
    return HeldNodes(np.zeros(running + 1, dtype=np.int64), nothing, np.empty(0))


@compiled_borrowing
def _has_places(nodes: NodeState, count: int) -> bool:
    """Whether one more job may be entered on each of the first `count` nodes of `chosen`.

    There are as many places as CPUs; who runs on a real node is not always what its size holds.
    """
    for place in range(count):
        node = nodes.chosen[place]
        if nodes.running[node] >= nodes.whole[node, CPU]:
            return False
    return True


@compiled
def _hold(
    workload: Workload,
    machine: MachineNow,
    running: IntArray,
    start: FloatArray,
    held: HeldNodes,
    is_known: bool,
) -> None:
    """Give the running jobs of known nodes these, or the others the nodes that they would get."""
    nodes, requests = machine.nodes, machine.requests
    for place in range(len(running)):
        first, last = held.first[place], held.first[place + 1]
        if (last > first) != is_known:
            continue
        job = running[place]
        count = last - first
        if is_known:
            nodes.chosen[:count] = held.node[first:last]
            nodes.chosen_cpus[:count] = held.cpus[first:last]
        else:
            count = find_room(requests, nodes, requests.shape[job], nodes.none_closed)
        if _has_places(nodes, count):
            occupy(requests, nodes, job, count, start[place] + workload.jobs[job].estimate)


@compiled
def _take_up(
    workload: Workload,
    cluster: Cluster,
    machine: MachineNow,
    rank: IntArray,
    now: float,
    running: IntArray,
    start: FloatArray,
    held: HeldNodes,
) -> None:
    jobs, state, came = workload.jobs, cluster.state[0], 0
    for job in running:
        came = max(came, job + 1)
    while state.next_arrival < came or (
        state.next_arrival < len(jobs) and jobs[state.next_arrival].submit < now
    ):
        arrive(jobs, cluster, rank)
    count_arrivals(cluster, machine)
    _hold(workload, machine, running, start, held, True)
    _hold(workload, machine, running, start, held, False)
    for place in range(len(running)):
        job = running[place]
        cluster.state[0].now = start[place]
        machine.waiting[machine.requests.shape[job]] -= 1
        count_in_groups(machine.limits, job, 1.0)
        start_job(workload.jobs, cluster, job)
    forget_started(cluster)
    cluster.state[0].now = now
    cluster.usage_time[0] = now


def resume_on_nodes(
    run: NodeRun,
    now: float,
    running: IntArray,
    start: FloatArray,
    held: HeldNodes | None = None,
    looks: FloatArray | None = None,
) -> None:
    """Bring a run that has not begun to an instant: who came before it waits, unless he runs.

    Who comes at the very instant is an event of it. A running job of unknown nodes gets those that
    it would get beside the others; where these are taken, or more jobs are said to run on a node
    than it has CPUs, it runs on and holds none.

    Args:
        run: changed in place; `run_time` of the running jobs is all that they will have run. Usage
            is the caller's.
        now: seconds.
        running: jobs that run, in the order of their starts, shape [r].
        start: when each of them started, seconds, at most `now`, shape [r].
        held: where they are; None where that is not known of any.
        looks: when slurmctld looked last, as `SlurmPasses.last`; None where that is not known: then
            it looks at once.
    """
    held = no_nodes_known(len(running)) if held is None else held
    _take_up(run.workload, run.cluster, run.machine, run.rank, now, running, start, held)
    if run.passes is not None:
        run.passes.last[:] = (-np.inf, -np.inf, now) if looks is None else looks
    elif next_event(run.workload.jobs, run.cluster) > now:
        run.order_anew()
        run.decide()


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
