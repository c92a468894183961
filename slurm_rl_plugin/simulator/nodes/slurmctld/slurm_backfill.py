"""A pass of Slurm's backfill scheduler: every job in order starts now, or is planned for later.

As sched/backfill has it in the sources of Slurm 26.05. Not modelled: what a pass that takes long
does between its pauses.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import Cluster, forget_started
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing, compiled_inline
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.nodes.machine_now import (
    MachineNow,
    find_room_now,
    is_free_now,
    start_on_nodes,
    within_limits,
)
from slurm_rl_plugin.simulator.nodes.placement import choose_one, find_room
from slurm_rl_plugin.simulator.nodes.requests import NodeBits, has, put_in
from slurm_rl_plugin.simulator.nodes.slurmctld.time_slots import (
    BEGIN,
    TimeSlots,
    add_plan,
    clear_slots,
    close_planned,
    overlaps_plan,
)
from slurm_rl_plugin.simulator.nodes.will_run import (
    STARTS_NEVER,
    FittingEnds,
    one_node_will_run,
    several_nodes_will_run,
)
from slurm_rl_plugin.units import FloatArray, IntArray


class BackfillPasses(NamedTuple):
    """How backfill looks at the queue, and space for it."""

    #: window, resolution: seconds.
    window: float
    resolution: float
    #: most_jobs, most_of_user: jobs looked at in a pass; 0 users' jobs for no bound.
    most_jobs: int
    most_of_user: int
    user: IntArray  #: of each job, shape [n]; -1 where unknown
    seen: IntArray  #: jobs of each user that were looked at, shape [users + 1]
    slots: TimeSlots  #: what is planned
    #: When a job of a template (its shape and request) was planned last in this pass, and the
    #: number of that pass, shape [templates, 2]; another of them starts no earlier.
    earliest: FloatArray
    template: IntArray  #: of each job, shape [n]
    passes: IntArray  #: number of the pass, shape [1]
    changes: IntArray  #: starts, plans and begins of passes, shape [1]
    #: `changes` when a job of a template last found no place in the plan, shape [templates]; until
    #: something changes, no other of them finds one.
    unplanned: IntArray
    looked_at: IntArray  #: space for places of the queue, shape [n]
    #: Number of the pass in which no job of a template can start, shape [templates].
    hopeless: IntArray
    fitting: FittingEnds  #: after whose end nodes hold jobs of one node
    late: NodeBits  #: space for nodes of running jobs past their limit, as a set
    open: NodeBits  #: space for nodes on which the last job that may start now could, as a set


@compiled_inline
def is_looked_at(passes: BackfillPasses, job: int) -> bool:
    """Whether the user of a job has not had as many looked at as he may."""
    if passes.most_of_user == 0:
        return True
    user = passes.user[job]
    passes.seen[user] += 1
    return passes.seen[user] <= passes.most_of_user


@compiled_borrowing
def forget_users(passes: BackfillPasses) -> None:
    """No job of any user has been looked at yet."""
    for user in range(len(passes.seen)):
        passes.seen[user] = 0


@compiled_borrowing
def fill_looked_at(machine: MachineNow, passes: BackfillPasses, order: IntArray, count: int) -> int:
    """Fill `looked_at` with places of the order that the bound on users leaves; how many."""
    forget_users(passes)
    if machine.limits.groups.shape[1] > 0:  # who is over a limit does not count for his user
        for place in range(count):
            passes.looked_at[place] = place
        return count
    looked = 0
    for place in range(count):
        if is_looked_at(passes, order[place]):
            passes.looked_at[looked] = place
            looked += 1
    forget_users(passes)
    return min(looked, passes.most_jobs)


@compiled_borrowing
def find_late(cluster: Cluster, machine: MachineNow, passes: BackfillPasses) -> None:
    """Fill `late` with nodes of running jobs past their limit, which count as free."""
    for word in range(len(passes.late)):
        passes.late[word] = 0
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
    workload: Workload,
    cluster: Cluster,
    machine: MachineNow,
    passes: BackfillPasses,
    job: int,
    any_late: bool,
) -> bool:
    """Whether a job could start now beside what is planned so far, were it looked at next.

    What is planned only grows in a pass, and room only shrinks: who may not start now, later may
    neither. `open` becomes the nodes that this hangs on.
    """
    shape, template = machine.requests.shape[job], passes.template[job]
    now, requests = cluster.state[0].now, machine.requests
    may = passes.earliest[template, 1] != passes.passes[0] or passes.earliest[template, 0] <= now
    may = may and (find_room_now(machine, shape) > 0 or any_late)
    if may:
        serves, closed = requests.serves[requests.pool[shape]], passes.slots.closed
        close_planned(passes.slots, serves, now, now + workload.jobs[job].estimate)
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
def hope_again(passes: BackfillPasses) -> None:
    """Any template may start again: room has grown within the pass."""
    for template in range(len(passes.hopeless)):
        passes.hopeless[template] = 0


@compiled_borrowing
def takes_open(open_nodes: NodeBits, chosen: IntArray, count: int) -> bool:
    """Whether any of the first `count` of `chosen` is open."""
    found = False
    for place in range(count):
        found = found or has(open_nodes, chosen[place])
    return found


@compiled_borrowing
def last_that_may(
    workload: Workload,
    cluster: Cluster,
    machine: MachineNow,
    passes: BackfillPasses,
    order: IntArray,
    looked: int,
) -> int:
    """How many of the first `looked` places matter: up to the last job that may start now."""
    any_late = False
    for word in passes.late:
        any_late = any_late or word != 0
    while looked > 0:
        job = order[passes.looked_at[looked - 1]]
        hopeless = passes.hopeless[passes.template[job]] == passes.passes[0]
        # a call passes every array of the machine: none for who is known to be hopeless
        if not hopeless and _may_start(workload, cluster, machine, passes, job, any_late):
            return looked
        looked -= 1
    return 0


@compiled_inline
def _plan(
    workload: Workload, cluster: Cluster, machine: MachineNow, passes: BackfillPasses, job: int
) -> tuple[float, int]:
    """When a job may start beside what is planned, on how many of `chosen`; inf for not planned."""
    now, slots, shape = cluster.state[0].now, passes.slots, machine.requests.shape[job]
    serves = machine.requests.serves[machine.requests.pool[shape]]
    window_end = slots.window[BEGIN] + passes.window
    limit, template = workload.jobs[job].estimate, passes.template[job]
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
    workload: Workload,
    cluster: Cluster,
    machine: MachineNow,
    passes: BackfillPasses,
    order: IntArray,
    count: int,
) -> int:
    """One pass: start what may start now, and plan the others.

    Args:
        workload: the jobs; `estimate` is their time limit.
        passes: how; its spaces are used.

    Returns:
        How many jobs started.
    """
    now, grain = cluster.state[0].now, passes.resolution
    begin = np.floor(now / grain) * grain
    clear_slots(passes.slots, begin, np.floor((now + passes.window) / grain) * grain)
    passes.passes[0] += 1
    passes.changes[0] += 1
    find_late(cluster, machine, passes)
    looked_at = fill_looked_at(machine, passes, order, count)
    looked = last_that_may(workload, cluster, machine, passes, order, looked_at)
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
        start, found = _plan(workload, cluster, machine, passes, job)
        if found > 0 and start <= now and is_free_now(machine, job, found):
            start_on_nodes(workload, cluster, machine, job, found)
            started += 1
            passes.changes[0] += 1
            if workload.jobs[job].estimate <= 0.0:  # it counts as ended at once, and room has grown
                looked = looked_at
                find_late(cluster, machine, passes)
                hope_again(passes)
            looked = last_that_may(workload, cluster, machine, passes, order, looked)
        elif found > 0 and start <= now + passes.window:
            first, last = _slot_times(passes, start, workload.jobs[job].estimate)
            add_plan(passes.slots, first, last, machine.nodes.chosen, found)
            passes.changes[0] += 1
            if takes_open(passes.open, machine.nodes.chosen, found):
                looked = last_that_may(workload, cluster, machine, passes, order, looked)
        else:
            passes.unplanned[passes.template[job]] = passes.changes[0]
    if started:
        forget_started(cluster)
    return started
