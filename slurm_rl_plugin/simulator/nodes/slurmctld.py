"""slurmctld's passes over its queue: the main scheduler, and backfill with a plan in time slots.

As schedule() and sched/backfill of Slurm 26.05. Pauses within a long pass are not modelled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import Cluster, forget_started
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing, compiled_inline
from slurm_rl_plugin.simulator.nodes.machine_now import (
    MachineNow,
    fails_now,
    find_room_now,
    is_free_now,
    start_on_nodes,
    within_limits,
)
from slurm_rl_plugin.simulator.nodes.node_state import NodeBits, has, no_nodes, put_in
from slurm_rl_plugin.simulator.nodes.placement import choose_one, find_room
from slurm_rl_plugin.simulator.nodes.will_run import (
    STARTS_NEVER,
    FittingEnds,
    one_node_will_run,
    several_nodes_will_run,
)
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray


class MainPasses(NamedTuple):
    """The nodes of each partition, and space for a pass."""

    partition: IntArray  #: of each job, shape [n]
    serves: NodeBits  #: the nodes of each partition as a set, shape [partitions, words]
    asks: IntArray  #: each partition with each shape of its jobs, shape [pairs, 2]
    failed: BoolArray  #: partitions without jobs, or without room for one in this pass
    closed: NodeBits  #: the set of their nodes


@compiled_borrowing
def _open_asked(passes: MainPasses, waiting: IntArray) -> int:
    for partition in range(len(passes.failed)):
        passes.failed[partition] = True
    opened = 0
    for pair in range(len(passes.asks)):
        partition, shape = passes.asks[pair, 0], passes.asks[pair, 1]
        if waiting[shape] > 0 and passes.failed[partition]:
            passes.failed[partition] = False
            opened += 1
    passes.closed[:] = 0
    return opened


@compiled_borrowing
def start_in_main_pass(
    cluster: Cluster, machine: MachineNow, passes: MainPasses, order: IntArray, count: int
) -> int:
    """Start jobs in order, each partition up to the first of its jobs without room; how many."""
    started, left_open = 0, _open_asked(passes, machine.waiting)
    for place in range(count):
        if left_open == 0:
            break
        job = order[place]
        partition, shape = passes.partition[job], machine.requests.shape[job]
        if passes.failed[partition] or not within_limits(machine.limits, job):
            continue
        found = 0
        if not fails_now(machine, shape):
            found = find_room(machine.requests, machine.nodes, shape, passes.closed)
        if found == 0:
            passes.failed[partition] = True
            for word in range(len(passes.closed)):
                passes.closed[word] |= passes.serves[partition, word]
            left_open -= 1
            continue
        start_on_nodes(cluster, machine, job, found)
        started += 1
    if started:
        forget_started(cluster)
    return started


#: Indices into `TimeSlots.used`.
_PLANS, _TIMES = 0, 1
#: Indices into `TimeSlots.window`.
BEGIN, END = 0, 1
_NONE = -1


class TimeSlots(NamedTuple):
    """Plans of whole nodes within a window of time, though a job may need only a part of each.

    Slurm keeps stretches of time (slots) with the nodes that are free of plans in each. We keep the
    plans and the times at which its slots meet, which is the same in fewer steps.
    """

    window: FloatArray  #: begin and end, seconds
    #: first, last: of each plan of a node, shape [most plans].
    first: FloatArray
    last: FloatArray
    node: IntArray  #: that it takes
    before: IntArray  #: the previous plan of the same node, -1 for none
    newest: IntArray  #: the last plan of each node, shape [nodes]
    times: FloatArray  #: at which slots meet, in rising order, shape [2 * most plans]
    used: IntArray  #: plans and times in use, shape [2]
    closed: NodeBits  #: space for the set of nodes that a job must not take


def time_slots(most: int, nodes: int) -> TimeSlots:
    """Room for `most` plans of a node."""
    return TimeSlots(
        window=np.zeros(2),
        first=np.zeros(most),
        last=np.zeros(most),
        node=np.zeros(most, dtype=np.int64),
        before=np.zeros(most, dtype=np.int64),
        newest=np.full(nodes, _NONE),
        times=np.zeros(2 * most),
        used=np.zeros(2, dtype=np.int64),
        closed=no_nodes(nodes),
    )


@compiled_borrowing
def clear_slots(slots: TimeSlots, begin: float, end: float) -> None:
    """Begin a window without plans."""
    slots.window[BEGIN], slots.window[END] = begin, end
    for plan in range(slots.used[_PLANS]):
        slots.newest[slots.node[plan]] = _NONE
    slots.used[_PLANS] = slots.used[_TIMES] = 0


@compiled_borrowing
def _place_behind(slots: TimeSlots, time: float) -> int:
    return int(np.searchsorted(slots.times[: slots.used[_TIMES]], time, side="right"))


@compiled_borrowing
def _cut(slots: TimeSlots, time: float) -> None:
    if time <= slots.window[BEGIN] or time >= slots.window[END]:
        return
    place = _place_behind(slots, time)
    if place > 0 and slots.times[place - 1] == time:
        return
    for each in range(slots.used[_TIMES], place, -1):
        slots.times[each] = slots.times[each - 1]
    slots.times[place] = time
    slots.used[_TIMES] += 1


@compiled_borrowing
def add_plan(slots: TimeSlots, begin: float, end: float, nodes: IntArray, count: int) -> None:
    """Plan for the first `count` of `nodes` from `begin` to `end`, as far as the window goes."""
    if begin >= slots.window[END]:
        return
    _cut(slots, begin)
    _cut(slots, end)
    for place in range(count):
        plan, node = slots.used[_PLANS], nodes[place]
        slots.first[plan], slots.last[plan] = begin, min(end, slots.window[END])
        slots.node[plan] = node
        slots.before[plan] = slots.newest[node]
        slots.newest[node] = plan
        slots.used[_PLANS] += 1


@compiled_borrowing
def overlaps_plan(slots: TimeSlots, begin: float, end: float, nodes: IntArray, count: int) -> bool:
    """Whether any of the first `count` of `nodes` is planned between `begin` and `end`."""
    for place in range(count):
        plan = slots.newest[nodes[place]]
        while plan != _NONE:
            if slots.first[plan] < end and slots.last[plan] > begin:
                return True
            plan = slots.before[plan]
    return False


@compiled_borrowing
def _is_free_behind(slots: TimeSlots, plan: int) -> bool:
    """Whether the node of a plan has no plan that follows it at once."""
    end, other = slots.last[plan], slots.newest[slots.node[plan]]
    while other != _NONE:
        if slots.first[other] <= end and slots.last[other] > end:
            return False
        other = slots.before[other]
    return True


@compiled_borrowing
def close_planned(slots: TimeSlots, serves: NodeBits, begin: float, end: float) -> float:
    """Fill `closed` with nodes not serving or planned then; when more are free, 0 for never."""
    for word in range(len(serves)):
        slots.closed[word] = ~serves[word]
    gain = slots.window[END]
    for plan in range(slots.used[_PLANS]):
        last = slots.last[plan]
        if last <= begin:
            continue
        node = slots.node[plan]
        if last < gain and has(serves, node) and _is_free_behind(slots, plan):
            gain = last
        if slots.first[plan] <= end:
            put_in(slots.closed, node)
    return _later(slots, gain, end)


@compiled_borrowing
def _later(slots: TimeSlots, gain: float, end: float) -> float:
    """When Slurm tries next: at `gain`, when nodes become free, or the second slot after `end`."""
    if gain <= end and gain < slots.window[END]:
        return gain
    place, times = _place_behind(slots, end), slots.used[_TIMES]
    if gain < slots.window[END] and gain <= slots.times[min(place + 1, times - 1)]:
        return gain
    return slots.times[place + 2] if place + 2 < times else 0.0


class BackfillPasses(NamedTuple):
    """Settings of backfill, and space for its passes."""

    #: window, resolution: seconds.
    window: float
    resolution: float
    most_jobs: int  #: jobs tried in a pass
    most_of_user: int  #: jobs of one user tried in a pass; 0 for no bound
    user: IntArray  #: of each job, shape [n]; -1 where unknown
    seen: IntArray  #: jobs of each user that were tried, shape [users + 1]
    slots: TimeSlots  #: what is planned
    #: For each template (jobs of one shape and request): when one was planned last, and the number
    #: of that pass; another of them starts no earlier in the pass; shape [templates, 2].
    earliest: FloatArray
    template: IntArray  #: of each job, shape [n]
    passes: IntArray  #: number of the pass, shape [1]
    changes: IntArray  #: starts, plans and begins of passes, shape [1]
    #: `changes` when no place was found for a template, shape [templates]; until something changes,
    #: there is none.
    unplanned: IntArray
    looked_at: IntArray  #: space for places of the queue, shape [n]
    hopeless: IntArray  #: last pass in which jobs of each template cannot start, shape [templates]
    fitting: FittingEnds  #: after which end each node holds a job
    late: NodeBits  #: space for the set of nodes whose jobs are past their limit
    open: NodeBits  #: space for the set of nodes on which the last job that may start now could


@compiled_inline
def is_looked_at(passes: BackfillPasses, job: int) -> bool:
    """Whether a job is within its user's bound of a pass; counts it."""
    if passes.most_of_user == 0:
        return True
    user = passes.user[job]
    passes.seen[user] += 1
    return passes.seen[user] <= passes.most_of_user


@compiled_borrowing
def fill_looked_at(machine: MachineNow, passes: BackfillPasses, order: IntArray, count: int) -> int:
    """Fill `looked_at` with places of the order within the bounds on users; how many."""
    passes.seen[:] = 0
    if machine.limits.groups.shape[1] > 0:  # a job over a limit does not count for its user
        for place in range(count):
            passes.looked_at[place] = place
        return count
    looked = 0
    for place in range(count):
        if is_looked_at(passes, order[place]):
            passes.looked_at[looked] = place
            looked += 1
    passes.seen[:] = 0
    return min(looked, passes.most_jobs)


@compiled_borrowing
def find_late(cluster: Cluster, machine: MachineNow, passes: BackfillPasses) -> None:
    """Fill `late` with the nodes of running jobs past their limit, which count as free."""
    passes.late[:] = 0
    place = 0
    while (
        place < cluster.state[0].running
        and cluster.running[place].expected_end <= cluster.state[0].now
    ):
        part = machine.nodes.first_part[cluster.running[place].expected_job]
        while part >= 0:
            put_in(passes.late, machine.nodes.part_node[part])
            part = machine.nodes.part_next[part]
        place += 1


@compiled_borrowing
def _may_start(
    cluster: Cluster, machine: MachineNow, passes: BackfillPasses, job: int, any_late: bool
) -> bool:
    """Whether a job could start now next to the plans so far, if it were tried next.

    In a pass plans only grow and room only shrinks: a job that may not start now may not start
    later. `open` becomes the nodes that decide it.
    """
    shape, template = machine.requests.shape[job], passes.template[job]
    now, requests = cluster.state[0].now, machine.requests
    may = passes.earliest[template, 1] != passes.passes[0] or passes.earliest[template, 0] <= now
    may = may and (find_room_now(machine, shape) > 0 or any_late)
    if may:
        serves, closed = requests.serves[requests.pool[shape]], passes.slots.closed
        close_planned(passes.slots, serves, now, now + cluster.jobs[job].estimate)
        single = requests.most[shape] == 1
        may = not single and find_room(requests, machine.nodes, shape, closed) > 0
        for word in range(len(closed)):
            open_nodes = passes.late[word]
            open_nodes |= machine.nodes.room.fits[shape, word] if single else serves[word]
            passes.open[word] = open_nodes & ~closed[word]
            may = may or ((single or any_late) and passes.open[word] != 0)
    if not may:
        passes.hopeless[template] = passes.passes[0]
    return may


@compiled_borrowing
def takes_open(open_nodes: NodeBits, chosen: IntArray, count: int) -> bool:
    """Whether any of the first `count` of `chosen` is open."""
    found = False
    for place in range(count):
        found = found or has(open_nodes, chosen[place])
    return found


@compiled_borrowing
def last_that_may(
    cluster: Cluster, machine: MachineNow, passes: BackfillPasses, order: IntArray, looked: int
) -> int:
    """How many of the first `looked` places matter: those up to the last job that may start."""
    any_late = False
    for word in passes.late:
        any_late = any_late or word != 0
    while looked > 0:
        job = order[passes.looked_at[looked - 1]]
        hopeless = passes.hopeless[passes.template[job]] == passes.passes[0]
        # saves a call for hopeless jobs
        if not hopeless and _may_start(cluster, machine, passes, job, any_late):
            return looked
        looked -= 1
    return 0


@compiled_inline
def _plan(
    cluster: Cluster, machine: MachineNow, passes: BackfillPasses, job: int
) -> tuple[float, int]:
    """When a job may start next to the plans, inf for never; on how many of `chosen`."""
    now, slots, shape = cluster.state[0].now, passes.slots, machine.requests.shape[job]
    serves = machine.requests.serves[machine.requests.pool[shape]]
    window_end = slots.window[BEGIN] + passes.window
    limit, template = cluster.jobs[job].estimate, passes.template[job]
    later = now
    if passes.earliest[template, 1] == passes.passes[0]:
        later = max(passes.earliest[template, 0], now)
    while True:
        begin = later
        if begin > window_end:
            return STARTS_NEVER, 0
        later = close_planned(slots, serves, begin, begin + limit)
        if machine.requests.most[shape] == 1:
            start, node = one_node_will_run(
                cluster, machine, passes.fitting, slots.closed, shape, begin, later
            )
            count = choose_one(machine.requests, machine.nodes, shape, node)
        else:
            start, count = several_nodes_will_run(
                cluster, machine, passes.fitting, slots.closed, shape, begin, later
            )
        if count > 0:
            start = max(start, begin)
            if start > now:
                first, last = _slot_times(passes, start, limit)
                if overlaps_plan(slots, first, last, machine.nodes.chosen, count):
                    later = start + (passes.resolution if start == begin else 0.0)
                    continue
            if later == 0.0 or start <= later:
                passes.earliest[template, 0] = begin
                passes.earliest[template, 1] = passes.passes[0]
                return start, count
        if later == 0.0:
            passes.earliest[template, 0] = np.inf
            passes.earliest[template, 1] = passes.passes[0]
            return STARTS_NEVER, 0


@compiled_inline
def _slot_times(passes: BackfillPasses, start: float, limit: float) -> tuple[float, float]:
    grain = passes.resolution
    first = np.floor(start / grain) * grain
    last = np.floor((start + limit + grain - 1.0) / grain) * grain
    return first, max(last, first + grain)


@compiled_borrowing
def backfill(
    cluster: Cluster, machine: MachineNow, passes: BackfillPasses, order: IntArray, count: int
) -> int:
    """One pass: start what may start now, and plan the others; how many jobs started."""
    now, grain = cluster.state[0].now, passes.resolution
    begin = np.floor(now / grain) * grain
    clear_slots(passes.slots, begin, np.floor((now + passes.window) / grain) * grain)
    passes.passes[0] += 1
    passes.changes[0] += 1
    find_late(cluster, machine, passes)
    looked_at = fill_looked_at(machine, passes, order, count)
    looked = last_that_may(cluster, machine, passes, order, looked_at)
    started = tested = 0
    for place in range(count):
        if looked == 0 or place > passes.looked_at[looked - 1] or tested >= passes.most_jobs:
            break
        job = order[place]
        if not within_limits(machine.limits, job) or not is_looked_at(passes, job):
            continue
        tested += 1
        if passes.unplanned[passes.template[job]] == passes.changes[0]:
            continue
        start, found = _plan(cluster, machine, passes, job)
        if found > 0 and start <= now and is_free_now(machine, job, found):
            start_on_nodes(cluster, machine, job, found)
            started += 1
            passes.changes[0] += 1
            if cluster.jobs[job].estimate <= 0.0:  # it counts as ended at once
                looked = looked_at
                find_late(cluster, machine, passes)
                passes.hopeless[:] = 0  # room has grown: any template may start again
            looked = last_that_may(cluster, machine, passes, order, looked)
        elif found > 0 and start <= now + passes.window:
            first, last = _slot_times(passes, start, cluster.jobs[job].estimate)
            add_plan(passes.slots, first, last, machine.nodes.chosen, found)
            passes.changes[0] += 1
            if takes_open(passes.open, machine.nodes.chosen, found):
                looked = last_that_may(cluster, machine, passes, order, looked)
        else:
            passes.unplanned[passes.template[job]] = passes.changes[0]
    if started:
        forget_started(cluster)
    return started
