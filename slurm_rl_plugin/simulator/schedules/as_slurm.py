"""Run a workload on nodes as slurmctld schedules: a short pass after each event, backfill at times.

After each submission and each end the main scheduler looks at the first jobs in order, and at all
of them once in an interval; backfill looks at the whole queue when something has happened, a start
too, and its interval has passed since its last look.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import Cluster, advance, next_event
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.nodes.machine_now import (
    MachineNow,
    NodeMachine,
    any_room,
    free_ended,
)
from slurm_rl_plugin.simulator.nodes.requests import NodeRequests, bits_of, no_nodes
from slurm_rl_plugin.simulator.nodes.slurmctld import (
    BackfillPasses,
    MainPasses,
    backfill,
    start_in_main_pass,
    time_slots,
)
from slurm_rl_plugin.simulator.nodes.will_run import fitting_ends
from slurm_rl_plugin.simulator.schedules.order_in_tiers import (
    OrderSpace,
    order_in_tiers,
    order_space,
    order_that_matters,
)
from slurm_rl_plugin.simulator.schedules.ordered_queue import OrderedQueue, score_queue
from slurm_rl_plugin.simulator.schedules.reserve_on_nodes import (
    LimitOnBatch,
    leave_out_batch_limit,
    set_batch_limit,
)
from slurm_rl_plugin.units import FloatArray, IntArray

#: Indices into `SlurmPasses.last`: when each pass was last, seconds.
_MAIN, _BACKFILL, _CHANGE = 0, 1, 2


class SlurmPasses(NamedTuple):
    """When slurmctld looks at its queue, and at how much of it."""

    main: MainPasses  #: passes of the main scheduler
    backfill: BackfillPasses  #: passes of backfill
    backfills: bool  #: whether there are any
    depth: int  #: jobs that the main scheduler looks at after an event
    main_interval: float  #: seconds between its looks at all jobs
    backfill_interval: float  #: seconds between passes of backfill
    tier: IntArray  #: of each job's partition, shape [n]
    #: When the last full look, the last backfill and the last event were; shape [3].
    last: FloatArray
    space: OrderSpace  #: for the order of a queue that is scored
    limit: LimitOnBatch  #: of batch jobs


def slurm_passes(workload: Workload, machine: NodeMachine, limit: LimitOnBatch) -> SlurmPasses:
    """Passes over the jobs of a workload.

    Args:
        workload: the jobs; `estimate` is their time limit.
    """
    settings, requests, queues = machine.backfill, machine.requests, machine.queues
    jobs, nodes = len(queues.partition), queues.serves.shape[1]
    asked = np.column_stack([requests.shape.astype(np.float64), workload.estimate])
    template = np.unique(asked, axis=0, return_inverse=True)[1].reshape(-1)
    templates = int(template.max()) + 1 if jobs else 0
    return SlurmPasses(
        main=MainPasses(
            partition=queues.partition,
            serves=bits_of(queues.serves),
            asks=np.unique(np.column_stack([queues.partition, requests.shape]), axis=0),
            failed=np.zeros(len(queues.serves), dtype=np.bool_),
            closed=no_nodes(nodes),
        ),
        backfill=BackfillPasses(
            window=settings.window,
            resolution=settings.resolution,
            most_jobs=settings.most_jobs,
            most_of_user=settings.most_of_user,
            user=queues.user,
            seen=np.zeros(int(queues.user.max(initial=0)) + 2, dtype=np.int64),
            slots=time_slots(_most_planned(requests, settings.most_jobs, nodes), nodes),
            earliest=np.zeros((templates, 2)),
            template=template.astype(np.int64),
            passes=np.zeros(1, dtype=np.int64),
            changes=np.zeros(1, dtype=np.int64),
            unplanned=np.full(templates, -1),
            looked_at=np.zeros(jobs, dtype=np.int64),
            hopeless=np.zeros(templates, dtype=np.int64),
            fitting=fitting_ends(machine.whole, machine.weight, requests),
            late=no_nodes(nodes),
            open=no_nodes(nodes),
        ),
        backfills=settings.backfills,
        depth=settings.depth,
        main_interval=settings.main_interval,
        backfill_interval=settings.interval,
        tier=queues.tier,
        last=np.full(3, -np.inf),
        space=order_space(jobs, len(requests.fewest), len(queues.serves)),
        limit=limit,
    )


def _most_planned(requests: NodeRequests, most_jobs: int, nodes: int) -> int:
    """How many nodes the widest jobs of a pass may be planned on together."""
    widest = np.minimum(np.minimum(requests.most, np.ceil(requests.cpus)), nodes)
    return int(np.sort(widest[requests.shape])[-most_jobs:].sum()) if most_jobs else 0


@compiled_borrowing
def _next_pass(cluster: Cluster, passes: SlurmPasses) -> float:
    """When slurmctld looks next by itself; inf while nothing waits or nothing has happened."""
    if cluster.state[0].pending == 0 or not passes.backfills:
        return np.inf
    last, change = passes.last[_BACKFILL], passes.last[_CHANGE]
    if change < last:  # what happened in the second of a pass makes another one
        return np.inf
    return float(max(last + passes.backfill_interval, change))


@compiled_borrowing
def _depth_of_main_pass(passes: SlurmPasses, time: float) -> int:
    """How many jobs the main scheduler looks at after an event: at times all."""
    passes.last[_CHANGE] = time
    if time < passes.last[_MAIN] + passes.main_interval:
        return passes.depth
    # also where nothing has room: Slurm looks through its queue to find that out
    passes.last[_MAIN] = time
    return len(passes.tier)


@compiled_borrowing
def _order_now(
    cluster: Cluster,
    machine: MachineNow,
    passes: SlurmPasses,
    queue: OrderedQueue,
    is_backfill: bool,
) -> int:
    """Fill the order as far as the passes that are due look at it; how many jobs it has."""
    count = cluster.state[0].pending
    if is_backfill or count > passes.depth:
        order_in_tiers(queue, passes.tier, passes.space, count)
        return int(count)
    line = passes.main.partition
    return order_that_matters(machine, queue, passes.tier, line, passes.space, count)


@compiled_borrowing
def _keep_pending(start: FloatArray, order: IntArray, count: int) -> None:
    """Put those of the first `count` of an order first that have not started."""
    kept = 0
    for place in range(count):
        if np.isnan(start[order[place]]):
            order[kept] = order[place]
            kept += 1


@compiled_borrowing
def _look(
    workload: Workload,
    cluster: Cluster,
    machine: MachineNow,
    passes: SlurmPasses,
    order: IntArray,
    count: int,
    depth: int,
    is_backfill: bool,
) -> None:
    """The passes that are due now, over `count` pending jobs in order; of the first, to a depth."""
    pending = cluster.state[0].pending
    if depth > 0:
        start_in_main_pass(workload, cluster, machine, passes.main, order, min(depth, count))
    if is_backfill and cluster.state[0].pending > 0:
        if cluster.state[0].pending < pending:
            _keep_pending(cluster.start, order, count)
        backfill(workload, cluster, machine, passes.backfill, order, cluster.state[0].pending)


@compiled_borrowing
def run_as_slurm(
    workload: Workload,
    cluster: Cluster,
    machine: MachineNow,
    passes: SlurmPasses,
    queue: OrderedQueue,
    rank: IntArray,
    until: float,
) -> None:
    """Let everything up to `until` happen, and every look at the queue.

    Args:
        workload: the jobs; `estimate` is their time limit.
        passes: when slurmctld looks; its spaces are used.
        queue: scores the jobs at each look where `rank` is empty.
        rank: place of each job in a static order, tiers within it; or an empty array.
        until: seconds; inf runs until nothing happens by itself.
    """
    while True:
        event = next_event(workload.jobs, cluster)
        time = min(event, _next_pass(cluster, passes))
        if np.isinf(time) or time > until:
            return
        advance(workload.jobs, cluster, time, rank)
        free_ended(cluster, machine)
        depth = _depth_of_main_pass(passes, time) if event <= time else 0
        is_backfill = _next_pass(cluster, passes) <= time
        started = cluster.state[0].started
        leave_out_batch_limit(machine, passes.limit)
        room = cluster.state[0].pending > 0 and any_room(cluster, machine)
        if room:
            order, count = cluster.pending, cluster.state[0].pending
            if len(rank) == 0:
                score_queue(workload, cluster, queue)
                set_batch_limit(cluster, machine, passes.limit)
                order = passes.space.order
                count = _order_now(cluster, machine, passes, queue, is_backfill)
            cluster.state[0].decisions += 1
            _look(workload, cluster, machine, passes, order, count, depth, is_backfill)
        if is_backfill:
            passes.last[_BACKFILL] = time
        if cluster.state[0].started > started:
            passes.last[_CHANGE] = time
