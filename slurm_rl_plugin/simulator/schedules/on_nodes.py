"""Decisions on a queue whose jobs run on nodes: order in tiers, limit of batch jobs, starts.

The reserve on nodes is a limit on what batch jobs may have together of each resource, as a batch
system keeps it (Slurm: GrpTRES of a QOS; PBS: max_run_res): one more group of the machine, whose
limits follow the wanted reserve. `kernel.class_limit` says when and how far for processors; the
limits of other resources go with them.

slurmctld looks at the first jobs in order after each submission and each end, and at all jobs once
in an interval; backfill looks at the whole queue when its interval has passed and a job has come,
started or ended since its last pass.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.domain.resources import MEMORY
from slurm_rl_plugin.simulator.kernel.class_limit import ClassLimit
from slurm_rl_plugin.simulator.kernel.cluster import Cluster, next_event
from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_borrowing
from slurm_rl_plugin.simulator.kernel.dispatch import best_first
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.nodes.easy import start_in_order_on_nodes
from slurm_rl_plugin.simulator.nodes.machine_now import (
    GroupLimits,
    MachineNow,
    NodeMachine,
    any_room,
    find_room_now,
    free_ended,
)
from slurm_rl_plugin.simulator.nodes.node_state import (
    CPU,
    NodeRequests,
    bits_of,
    no_nodes,
)
from slurm_rl_plugin.simulator.nodes.slurmctld import (
    BackfillPasses,
    MainPasses,
    backfill,
    start_in_main_pass,
    time_slots,
)
from slurm_rl_plugin.simulator.nodes.will_run import fitting_ends
from slurm_rl_plugin.simulator.schedules.ordered_queue import OrderedQueue, score_queue
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

_UNKNOWN, _ROOM, _NO_ROOM = 0, 1, 2


class OrderSpace(NamedTuple):
    """What an order on nodes is made of, and space for it, so that making one makes no array."""

    tier: IntArray  #: of each job's partition; a higher one goes first; shape [n]
    line: IntArray  #: in which each job waits, shape [n]
    order: IntArray  #: job numbers, the first to be looked at first, shape [n]
    #: scores, jobs: of those that are put in order, shape [n].
    scores: FloatArray
    jobs: IntArray
    room: IntArray  #: what is known of the room of each shape, shape [shapes]
    first: IntArray  #: place in the queue of the first job without room of each line, shape [lines]


def order_space(tier: IntArray, line: IntArray, shapes: int) -> OrderSpace:
    """Space for the orders of jobs of `shapes` shapes."""
    return OrderSpace(
        tier=tier,
        line=line,
        order=np.zeros(len(tier), dtype=np.int64),
        scores=np.zeros(len(tier)),
        jobs=np.zeros(len(tier), dtype=np.int64),
        room=np.zeros(shapes, dtype=np.int64),
        first=np.zeros(int(line.max(initial=0)) + 1, dtype=np.int64),
    )


@compiled_borrowing
def order_in_tiers(queue: OrderedQueue, space: OrderSpace, count: int) -> None:
    """Fill `space.order` with pending jobs by tier, then score of now, then submission."""
    _sort(queue.scores[:count], queue.jobs[:count], space.tier, space.order)


@compiled
def _sort(scores: FloatArray, jobs: IntArray, tier: IntArray, order: IntArray) -> None:
    # pending jobs stand in order of submission, which a stable sort keeps among equals
    count = len(jobs)
    by_score = jobs[best_first(scores, count)]
    tiers = tier[by_score]
    if (tiers[1:] > tiers[:-1]).any():
        by_score = by_score[best_first(tiers, count)]
    order[:count] = by_score


@compiled_borrowing
def order_that_matters(
    machine: MachineNow, queue: OrderedQueue, space: OrderSpace, count: int
) -> int:
    """`order_in_tiers` of the jobs that can start or hold others back; how many there are.

    Of the jobs without room now only the first of each line holds others back. Where limits of
    `machine` hold jobs back, the order is whole.
    """
    if machine.limits.groups.shape[1] > 0:  # who is the first without room then changes
        order_in_tiers(queue, space, count)
        return count
    _find_first_of_lines(machine, queue, space, count)
    kept = 0
    for place in range(count):
        job = queue.jobs[place]
        shape = machine.requests.shape[job]
        if space.room[shape] == _ROOM or space.first[space.line[job]] == place:
            space.scores[kept], space.jobs[kept] = queue.scores[place], job
            kept += 1
    _sort(space.scores[:kept], space.jobs[:kept], space.tier, space.order)
    return kept


@compiled_borrowing
def _find_first_of_lines(
    machine: MachineNow, queue: OrderedQueue, space: OrderSpace, count: int
) -> None:
    """Fill `room`, and `first` with the job of each line that is first of those without room."""
    space.room[:], space.first[:] = _UNKNOWN, -1
    tier, line = space.tier, space.line
    for place in range(count):
        job = queue.jobs[place]
        shape = machine.requests.shape[job]
        if space.room[shape] == _UNKNOWN:
            space.room[shape] = _ROOM if find_room_now(machine, shape) > 0 else _NO_ROOM
        if space.room[shape] == _ROOM:
            continue
        best = space.first[line[job]]
        above = best < 0
        if not above:
            other = queue.jobs[best]
            above = tier[job] > tier[other]
            above = above or (tier[job] == tier[other] and queue.scores[place] > queue.scores[best])
        if above:
            space.first[line[job]] = place


class LimitOnBatch(NamedTuple):
    """How the limit of batch jobs is set, and the limit in force."""

    #: Its place among the groups of the machine, before the group of interactive jobs, which is not
    #: limited; -1 where nothing is kept free; shape [1].
    group: IntArray
    whole: FloatArray  #: of each kind on the machine, 0 for what is not kept free, shape [kinds]
    kept: FloatArray  #: the most that is kept free of each kind, shape [kinds]
    widest: FloatArray  #: of each kind, what always fits, shape [kinds]
    in_force: FloatArray  #: limit of each kind but CPUs, inf for none, shape [kinds]


def batch_limit(rule: ClassLimit | None, machine: NodeMachine) -> LimitOnBatch:
    """The limit before the first decision; without a rule nothing is kept free."""
    kinds = len(machine.kinds)
    whole, kept, widest = np.zeros(kinds), np.zeros(kinds), np.ones(kinds)
    for name, most in {} if rule is None else rule.most_resources.items():
        if rule is not None and name in machine.kinds[1:]:
            place = machine.kinds.index(name)
            whole[place] = np.floor(machine.together.get(name, 0.0))
            kept[place] = most
            widest[place] = max(rule.widest_batch_resources.get(name, 1.0), 1.0)
    group = -1 if rule is None else len(machine.limits.most)
    return LimitOnBatch(np.array([group]), whole, kept, widest, np.full(kinds, np.inf))


def with_batch_group(limits: GroupLimits, interactive: BoolArray) -> GroupLimits:
    """The groups of a machine, then the group of batch jobs and that of interactive jobs."""
    first, kinds = limits.most.shape
    column = np.where(interactive, first + 1, first).astype(np.int64)
    return limits._replace(
        groups=np.column_stack([limits.groups, column]),
        most=np.vstack([limits.most, np.full((2, kinds), np.inf)]),
        used=np.zeros((first + 2, kinds)),
    )


def asks_for_much(rule: ClassLimit, machine: NodeMachine) -> BoolArray:
    """Which jobs may starve below a limit of another resource than processors, shape [n]."""
    much = np.zeros(len(machine.limits.amounts), dtype=np.bool_)
    for name in rule.most_resources:
        if name in machine.kinds:
            fits = 1.0
            if name == MEMORY:
                fits = rule.widest_batch_resources.get(name, np.inf)
            much |= machine.limits.amounts[:, machine.kinds.index(name)] > fits
    return much


@compiled_borrowing
def leave_out_batch_limit(machine: MachineNow, limit: LimitOnBatch) -> None:
    """Lift the limit of batch jobs: whether any job has room is asked before the limit is set."""
    group = limit.group[0]
    if group >= 0:
        machine.limits.most[group] = np.inf


@compiled_borrowing
def set_batch_limit(cluster: Cluster, machine: MachineNow, limit: LimitOnBatch) -> None:
    """Limit batch jobs as `reserve_in_force` has just decided, and other resources with them."""
    group = limit.group[0]
    if group < 0:
        return
    _change_others(cluster, machine, limit)
    most = machine.limits.most
    for kind in range(len(limit.in_force)):
        most[group, kind] = limit.in_force[kind]
    if cluster.state[0].in_force > 0.0:
        most[group, CPU] = cluster.state[0].capacity - cluster.state[0].in_force


@compiled_borrowing
def _wanted_limit(cluster: Cluster, machine: MachineNow, limit: LimitOnBatch, kind: int) -> float:
    """What batch jobs should have of a kind at most now; inf for no limit."""
    wanted, whole = cluster.state[0].wanted, limit.whole[kind]
    if wanted == 0.0 or limit.kept[kind] == 0.0:
        return np.inf
    kept = np.ceil(limit.kept[kind] * wanted / cluster.state[0].most)
    in_use = np.ceil(machine.limits.used[limit.group[0] + 1, kind])
    most = max(whole - in_use - kept, limit.widest[kind])
    return most if most < whole else np.inf


@compiled_borrowing
def _change_others(cluster: Cluster, machine: MachineNow, limit: LimitOnBatch) -> None:
    """Change the limits of other resources than CPUs, all together, if they may change now."""
    now, state, differs = cluster.state[0].now, cluster.state[0], False
    for kind in range(len(limit.in_force)):
        differs |= _wanted_limit(cluster, machine, limit, kind) != limit.in_force[kind]
    if not differs:
        return
    may_change = state.set_at + state.change_interval
    if state.set_at != now and state.starving == 0.0 and now < may_change:
        state.wake = min(state.wake, may_change)
        return
    for kind in range(len(limit.in_force)):
        limit.in_force[kind] = _wanted_limit(cluster, machine, limit, kind)
    state.set_at = now


class NodeLooks(NamedTuple):
    """A queue for nodes, and how decisions on it are made, except as slurmctld makes them."""

    machine: MachineNow  #: the nodes, which change
    queue: OrderedQueue  #: scores the jobs where they have no rank
    easy: bool  #: jobs start behind the head by EASY backfilling
    cycle: float  #: seconds between decisions; 0 decides at every event
    space: OrderSpace  #: for the order of a queue that is scored
    limit: LimitOnBatch  #: of batch jobs


@compiled_borrowing
def decide_on_nodes(cluster: Cluster, looks: NodeLooks) -> None:
    """One decision: by scores made now where the jobs have no rank, else in their order."""
    machine = looks.machine
    free_ended(cluster, machine)
    leave_out_batch_limit(machine, looks.limit)
    if cluster.state[0].pending == 0 or not any_room(cluster, machine):
        return
    cluster.state[0].decisions += 1
    order, count = cluster.pending, cluster.state[0].pending
    if len(cluster.rank) == 0:
        score_queue(cluster, looks.queue)
        set_batch_limit(cluster, machine, looks.limit)
        order = looks.space.order
        count = order_that_matters(machine, looks.queue, looks.space, count)
    start_in_order_on_nodes(cluster, machine, order, count, looks.easy)


#: Indices into `SlurmPasses.last`: when each pass was last, seconds.
_MAIN, _BACKFILL, _CHANGE = 0, 1, 2


class SlurmPasses(NamedTuple):
    """A queue for nodes, and when slurmctld looks at how much of it."""

    machine: MachineNow  #: the nodes, which change
    queue: OrderedQueue  #: scores the jobs where they have no rank
    main: MainPasses  #: passes of the main scheduler
    backfill: BackfillPasses  #: passes of backfill
    backfills: bool  #: whether there are any
    depth: int  #: jobs that the main scheduler looks at after an event
    main_interval: float  #: seconds between its looks at all jobs
    backfill_interval: float  #: seconds between passes of backfill
    #: When the last full look, the last backfill and the last event were; shape [3].
    last: FloatArray
    is_event: BoolArray  #: whether the next look is due because something happens; shape [1]
    space: OrderSpace  #: for the order of a queue that is scored
    limit: LimitOnBatch  #: of batch jobs


def slurm_passes(
    workload: Workload, machine: NodeMachine, queue: OrderedQueue, limit: LimitOnBatch
) -> SlurmPasses:
    """Passes over the jobs of a workload on an idle machine; `estimate` is their time limit."""
    settings, requests = machine.backfill, machine.requests
    jobs, nodes = len(machine.partition), machine.serves.shape[1]
    asked = np.column_stack([requests.shape.astype(np.float64), workload.estimate])
    template = np.unique(asked, axis=0, return_inverse=True)[1].reshape(-1)
    templates = int(template.max()) + 1 if jobs else 0
    return SlurmPasses(
        machine=machine.idle(),
        queue=queue,
        main=MainPasses(
            partition=machine.partition,
            serves=bits_of(machine.serves),
            asks=np.unique(np.column_stack([machine.partition, requests.shape]), axis=0),
            failed=np.zeros(len(machine.serves), dtype=np.bool_),
            closed=no_nodes(nodes),
        ),
        backfill=BackfillPasses(
            window=settings.window,
            resolution=settings.resolution,
            most_jobs=settings.most_jobs,
            most_of_user=settings.most_of_user,
            user=machine.user,
            seen=np.zeros(int(machine.user.max(initial=0)) + 2, dtype=np.int64),
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
        last=np.full(3, -np.inf),
        is_event=np.zeros(1, dtype=np.bool_),
        space=order_space(machine.tier, machine.partition, len(requests.fewest)),
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
def next_look(cluster: Cluster, passes: SlurmPasses) -> float:
    """When slurmctld looks at its queue next; inf when nothing more will happen."""
    event, own = next_event(cluster), _next_pass(cluster, passes)
    passes.is_event[0] = event <= own
    return min(event, own)


@compiled_borrowing
def _depth_of_main_pass(passes: SlurmPasses, time: float) -> int:
    """How many jobs the main scheduler looks at after an event: at times all."""
    passes.last[_CHANGE] = time
    if time < passes.last[_MAIN] + passes.main_interval:
        return passes.depth
    # also where nothing has room: Slurm looks through its queue to find that out
    passes.last[_MAIN] = time
    return len(passes.space.tier)


@compiled_borrowing
def _pass_over(
    cluster: Cluster, passes: SlurmPasses, order: IntArray, count: int, depth: int, backfills: bool
) -> None:
    """The passes that are due now, over `count` pending jobs in order; of the first, to a depth."""
    pending = cluster.state[0].pending
    if depth > 0:
        start_in_main_pass(cluster, passes.machine, passes.main, order, min(depth, count))
    if backfills and cluster.state[0].pending > 0:
        kept = 0
        for place in range(count if cluster.state[0].pending < pending else 0):
            if np.isnan(cluster.start[order[place]]):
                order[kept] = order[place]
                kept += 1
        backfill(cluster, passes.machine, passes.backfill, order, cluster.state[0].pending)


@compiled_borrowing
def look_as_slurm(cluster: Cluster, passes: SlurmPasses) -> None:
    """Make the passes that are due now, at the time of `next_look`."""
    machine, time, started = passes.machine, cluster.state[0].now, cluster.state[0].started
    free_ended(cluster, machine)
    depth = _depth_of_main_pass(passes, time) if passes.is_event[0] else 0
    is_backfill = _next_pass(cluster, passes) <= time
    leave_out_batch_limit(machine, passes.limit)
    if cluster.state[0].pending > 0 and any_room(cluster, machine):
        order, count = cluster.pending, cluster.state[0].pending
        if len(cluster.rank) == 0:
            score_queue(cluster, passes.queue)
            set_batch_limit(cluster, machine, passes.limit)
            order = passes.space.order
            if is_backfill or count > passes.depth:
                order_in_tiers(passes.queue, passes.space, count)
            else:
                count = order_that_matters(machine, passes.queue, passes.space, count)
        cluster.state[0].decisions += 1
        _pass_over(cluster, passes, order, count, depth, is_backfill)
    if is_backfill:
        passes.last[_BACKFILL] = time
    if cluster.state[0].started > started:
        passes.last[_CHANGE] = time
