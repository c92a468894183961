"""Simulations under way, on a pool of processors or on nodes: they can be resumed and stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.policies.network import QNetwork
from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit
from slurm_rl_plugin.simulator.kernel.cluster import (
    NO_RANK,
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
from slurm_rl_plugin.simulator.nodes.machine_now import (
    MachineNow,
    NodeMachine,
    count_arrivals,
    count_in_groups,
)
from slurm_rl_plugin.simulator.nodes.node_state import NO_PART, occupy
from slurm_rl_plugin.simulator.nodes.placement import find_room
from slurm_rl_plugin.simulator.schedules.on_nodes import (
    NodeLooks,
    SlurmPasses,
    asks_for_much,
    batch_limit,
    order_space,
    slurm_passes,
    with_batch_group,
)
from slurm_rl_plugin.simulator.schedules.ordered_queue import (
    OrderedQueue,
    QueueOrder,
    StaticQueue,
    rank_anew,
    rank_of,
    rank_of_tiers,
)
from slurm_rl_plugin.simulator.schedules.simulation import (
    SimulatedSchedule,
    SimulationSettings,
    decide,
    finished_schedule,
    is_static,
    run_until,
    run_up_to,
)
from slurm_rl_plugin.units import MINUTE, FloatArray, IntArray

#: Looks at the queue as slurmctld makes them, with its own backfilling.
AS_SLURM = "slurm"
#: What backfilling on nodes may be.
NODE_BACKFILLING = ("none", "easy", AS_SLURM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A simulation under way."""

    workload: Workload  #: the jobs
    cluster: Cluster  #: their state; its rank is that of a static or a kept order
    queue: OrderedQueue  #: scores the jobs that have no rank
    looks: NodeLooks | SlurmPasses | None = None  #: how nodes are given; None on a pool
    reserve: IntArray  #: processors to keep free as the order is kept, shape [1]
    keeps_order: bool = False  #: the rank is that of the last `order_anew`

    @classmethod
    def of(
        cls,
        workload: Workload,
        order: QueueOrder,
        settings: SimulationSettings,
        *,
        keeps_order: bool = False,
        neighbour: Cluster | None = None,
    ) -> Run:
        """A pool of processors before the first submission; `neighbour`: see `empty_cluster`.

        If it keeps the order, changing scores are made at `order_anew`, not at each decision.
        """
        tier = np.zeros(len(workload.jobs), dtype=np.int64)
        rank, keeps_order = _ranks(order, settings, tier, keeps_order)
        return cls(
            workload=workload,
            cluster=settings.empty_cluster(workload, neighbour, rank),
            queue=settings.ordered_queue(workload, order),
            reserve=np.array([settings.reserve]),
            keeps_order=keeps_order,
        )

    @classmethod
    def on_nodes(
        cls,
        workload: Workload,
        machine: NodeMachine,
        order: QueueOrder,
        settings: SimulationSettings,
        *,
        keeps_order: bool = False,
    ) -> Run:
        """Nodes before the first submission; see `simulate_on_nodes`, and `of` on `keeps_order`."""
        if settings.backfilling not in NODE_BACKFILLING:
            raise SimulationError(
                f"nodes are simulated with {', '.join(NODE_BACKFILLING)} backfilling, "
                f"not {settings.backfilling}."
            )
        rule = _kept_free(order, settings)
        settings = replace(settings, class_limit=rule)
        # the queue does not fill nodes
        queue = replace(settings, backfilling="none").ordered_queue(workload, order)
        rank, tier = NO_RANK, machine.tier
        if rule is None:  # a limit is set where scores are made
            rank, keeps_order = _ranks(order, settings, tier, keeps_order)
        limit = batch_limit(rule, machine)
        if rule is not None:
            workload = workload.having(asks_much=asks_for_much(rule, machine))
            limits = with_batch_group(machine.limits, workload.interactive)
            machine = replace(machine, limits=limits)
        looks: NodeLooks | SlurmPasses
        if settings.backfilling == AS_SLURM:
            looks = slurm_passes(workload, machine, queue, limit)
        else:
            looks = NodeLooks(
                machine=machine.idle(),
                queue=queue,
                easy=settings.backfilling == "easy",
                cycle=queue.cycle,
                space=order_space(tier, np.zeros_like(tier), len(machine.requests.fewest)),
                limit=limit,
            )
        return cls(
            workload=workload,
            cluster=settings.empty_cluster(workload, rank=rank),
            queue=queue,
            looks=looks,
            reserve=np.array([settings.reserve]),
            keeps_order=keeps_order and rule is None,
        )

    def _way(self, cycle: float = 0.0) -> Any:
        """How the event loop looks at the queue; ranked jobs at most every `cycle` seconds."""
        queue, looks, is_ranked = self.queue, self.looks, len(self.cluster.rank) > 0
        if isinstance(looks, SlurmPasses):
            return looks._replace(backfill_interval=max(cycle, looks.backfill_interval))
        cycle = max(cycle, queue.cycle) if is_ranked else queue.cycle
        if looks is not None:
            return looks._replace(cycle=cycle)
        if is_ranked:
            return StaticQueue(queue.backfilling, cycle, int(self.reserve[0]))
        return queue

    def run_until(self, until: float, cycle: float = 0.0) -> None:
        """Let everything up to `until`, seconds, happen, and every decision.

        Args:
            cycle: seconds between decisions of a static or a kept order, or passes of backfill, at
                least, in addition to the batch system's own.
        """
        way = self._way(cycle)
        run = run_up_to if isinstance(way, OrderedQueue) else run_until
        run(self.cluster, way, until)

    def decide(self) -> None:
        """Decide now, whether or not anything has happened; slurmctld looks when it is time."""
        if not isinstance(self.looks, SlurmPasses):
            decide(self.cluster, self._way())

    def order_anew(self) -> None:
        """Rank the jobs by scores of now, if the order is kept."""
        if self.keeps_order:
            self.reserve[0] = rank_anew(self.cluster, self.queue)

    def resume(
        self,
        now: float,
        running: IntArray,
        start: FloatArray,
        held: HeldNodes | None = None,
        last_looks: FloatArray | None = None,
    ) -> None:
        """Bring a run that has not begun to an instant, and decide once.

        Jobs that came before the instant wait, unless they run. On nodes, jobs that come at the
        instant are an event of it. A running job of unknown nodes gets those that it would get next
        to the others; where these are taken, it runs on and holds none.

        Args:
            now: seconds.
            running: jobs that run, in the order of their starts, shape [r]; `run_time` is all that
                they will have run. Usage is the caller's.
            start: when each of them started, seconds, at most `now`, shape [r].
            held: where they are; None where that is not known of any.
            last_looks: when slurmctld looked last, as `SlurmPasses.last`; None where that is not
                known: then it looks at once.
        """
        if self.looks is None:
            self.line_up(now, running, start)
            self.decide()
            return
        if held is None:
            nobody = np.zeros(len(running) + 1, dtype=np.int64)
            held = HeldNodes(nobody, nobody[:0], np.empty(0))
        _take_up(self.cluster, self.looks.machine, now, running, start, held)
        if isinstance(self.looks, SlurmPasses):
            self.looks.last[:] = (-np.inf, -np.inf, now) if last_looks is None else last_looks
        elif next_event(self.cluster) > now:
            self.order_anew()
            self.decide()

    def line_up(self, now: float, running: IntArray, start: FloatArray) -> IntArray:
        """Bring a run on a pool to an instant, undecided; who waits, ranked jobs in order."""
        resume(self.cluster, now, running, start)
        pending = self.cluster.waiting
        if len(self.cluster.rank):
            pending[:] = pending[np.argsort(self.cluster.rank[pending])]
            self.order_anew()
        return pending

    def place_of(self, job: int) -> dict[int, float]:
        """The nodes that a running job holds, and its CPUs on each."""
        assert self.looks is not None
        nodes, held = self.looks.machine.nodes, dict[int, float]()
        part = nodes.first_part[job]
        while part != NO_PART:
            held[int(nodes.part_node[part])] = float(nodes.part_cpus[part])
            part = nodes.part_next[part]
        return held

    def finish(self) -> SimulatedSchedule:
        """Let everything happen."""
        self.run_until(np.inf)
        return finished_schedule(self.cluster)


def _ranks(
    order: QueueOrder, settings: SimulationSettings, tier: IntArray, keeps_order: bool
) -> tuple[IntArray, bool]:
    """The rank of each job, shape [n] or NO_RANK; whether it is that of an order that is kept."""
    if is_static(order, settings):
        assert order.scores is not None
        return rank_of(order.scores, tier), False
    return (rank_of_tiers(tier) if keeps_order else NO_RANK), keeps_order


def simulate_on_nodes(
    workload: Workload, machine: NodeMachine, order: QueueOrder, settings: SimulationSettings
) -> SimulatedSchedule:
    """Simulate any order on nodes: no backfilling, EASY, or as slurmctld does it.

    Partitions of a higher tier go first. `processors` and `capacity` are CPUs.
    """
    return Run.on_nodes(workload, machine, order, settings).finish()


def _kept_free(order: QueueOrder, settings: SimulationSettings) -> ClassLimit | None:
    network = order.network
    holds = isinstance(network, QNetwork) and network.reserve_weights is not None
    if not holds and settings.reserve == 0:
        return None
    return settings.class_limit or ClassLimit()


#: The least time for which an order is kept, seconds.
_AT_LEAST = MINUTE
#: Seconds of a run of exact scores before we check which jobs have started, and the factor by which
#: they grow.
_FIRST_STRETCH, _LONGER = 600.0, 1.2


def run_until_started(run: Run, awaited: IntArray, until: float, kept: float) -> None:
    """Let everything happen until all awaited jobs have started, and little more.

    Args:
        awaited: jobs, shape [m].
        until: seconds; what has not started by then has NaN as its start.
        kept: the part of the time since the run was resumed for which an order is kept, and in
            which one decision is made, though no later than that part of a run; 0 where decisions
            are made at each event, by scores of then unless the order never changes.
    """
    began = time = run.cluster.now
    stretch, size = _FIRST_STRETCH, run.workload.size
    longest = kept * float(size @ run.workload.run_time / max(size.sum(), 1.0))  # of a processor
    while time < until and np.isnan(run.cluster.start[awaited]).any():
        cycle = min(kept * (time - began), longest)
        if kept > 0.0:
            run.order_anew()
            stretch = max(kept * (time - began), _AT_LEAST)
        time = min(time + stretch, until)
        run.run_until(time, cycle)
        stretch *= _LONGER


@compiled
def resume(cluster: Cluster, now: float, running: IntArray, start: FloatArray) -> None:
    """Bring an empty pool to an instant, see `Run.resume`; who comes at the instant waits."""
    jobs, state = cluster.jobs, cluster.state[0]
    while state.next_arrival < len(jobs) and jobs[state.next_arrival].submit <= now:
        arrive(cluster)
    _start_all(cluster, now, running, start)


@compiled_borrowing
def _start_all(cluster: Cluster, now: float, running: IntArray, start: FloatArray) -> None:
    for place in range(len(running)):
        cluster.state[0].now = start[place]
        start_job(cluster, running[place])
    forget_started(cluster)
    cluster.state[0].now = now
    cluster.usage_time[0] = now


class HeldNodes(NamedTuple):
    """Which nodes some running jobs hold, one job behind the other."""

    #: Where the nodes of each job begin in `node`, shape [r + 1]; a job whose nodes are not known
    #: has none.
    first: IntArray
    node: IntArray  #: numbers of nodes, shape [k]
    cpus: FloatArray  #: of the job on each of them, shape [k]


@compiled
def _hold(
    cluster: Cluster,
    machine: MachineNow,
    running: IntArray,
    start: FloatArray,
    held: HeldNodes,
    is_known: bool,
) -> None:
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
        occupy(requests, nodes, job, count, start[place] + cluster.jobs[job].estimate)


@compiled
def _take_up(
    cluster: Cluster,
    machine: MachineNow,
    now: float,
    running: IntArray,
    start: FloatArray,
    held: HeldNodes,
) -> None:
    jobs, state, came = cluster.jobs, cluster.state[0], 0
    for job in running:
        came = max(came, job + 1)
    while state.next_arrival < came or (
        state.next_arrival < len(jobs) and jobs[state.next_arrival].submit < now
    ):
        arrive(cluster)
    count_arrivals(cluster, machine)
    _hold(cluster, machine, running, start, held, True)
    _hold(cluster, machine, running, start, held, False)
    for job in running:
        machine.waiting[machine.requests.shape[job]] -= 1
        count_in_groups(machine.limits, job, 1.0)
    _start_all(cluster, now, running, start)


def simulate_in_partitions(
    workload: Workload,
    partition: IntArray,
    capacities: Sequence[int],
    order: QueueOrder,
    settings: SimulationSettings,
) -> SimulatedSchedule:
    """Simulate a site whose partitions share accounts but no processors.

    Each partition keeps the reserve, and queue features are its own.

    Args:
        partition: index of each job's partition, shape [n].
        capacities: processors of each partition; `settings.capacity` is not used.
    """
    job = [np.flatnonzero(partition == number) for number in range(len(capacities))]
    job = [each for each in job if len(each)]
    parts: list[Run] = []
    for each in job:
        theirs = replace(settings, capacity=capacities[partition[each[0]]])
        mine, neighbour = order.of_jobs(each), parts[0].cluster if parts else None
        parts.append(Run.of(workload.select(each), mine, theirs, neighbour=neighbour))
    if parts:  # usage is accounted from the first submission to any partition
        parts[0].cluster.usage_time[0] = min(float(part.workload.submit[0]) for part in parts)
    _run(parts, settings.cycle)
    start = np.empty(len(workload.submit))
    for each, part in zip(job, parts, strict=True):
        start[each] = finished_schedule(part.cluster).start
    decisions = sum(int(part.cluster.state[0].decisions) for part in parts)
    return SimulatedSchedule(start=start, decisions=decisions)


def _run(parts: Sequence[Run], cycle: float) -> None:
    events = [next_event(part.cluster) for part in parts]
    while parts and not np.isinf(min(events)):
        now = decision_time(min(events), cycle)
        touched: set[int] = set()
        while (event := min(events)) <= now:
            place = events.index(event)
            part = parts[place]
            advance(part.cluster, event)
            events[place] = next_event(part.cluster)
            touched.add(place)
        for place in sorted(touched):
            part = parts[place]
            advance(part.cluster, now)
            part.decide()
            events[place] = next_event(part.cluster)
