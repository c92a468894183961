"""A pass of Slurm's backfill scheduler: every job in order starts now, or is planned for later.

As sched/backfill and the will-run test of select/cons_tres have it in the sources of Slurm 26.05.
Not modelled: what a pass that takes long does between its pauses.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import (
    NOW,
    RUNNING,
    Cluster,
    Workload,
    forget_started,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.simulator.nodes.group_limits import within_limits
from slurm_rl_plugin.simulator.nodes.machine_now import MachineNow, is_free_now, start_on_nodes
from slurm_rl_plugin.simulator.nodes.node_bits import has
from slurm_rl_plugin.simulator.nodes.node_state import GIVEN_BACK
from slurm_rl_plugin.simulator.nodes.outlook import count_as_ended, look_from_now
from slurm_rl_plugin.simulator.nodes.placement import find_room
from slurm_rl_plugin.simulator.nodes.time_slots import (
    TimeSlots,
    add_plan,
    clear_slots,
    close_planned,
    overlaps_plan,
)
from slurm_rl_plugin.units import FloatArray, IntArray

#: Seconds within which ends of running jobs count together at first; doubled with every look.
_FIRST_WINDOW = 30.0
#: So many jobs that end close to each other count together at most.
_MOST_TOGETHER = 200
#: A running job beyond its time limit ends so soon: KillWait.
_KILL_WAIT = 30.0
_STARTS_NEVER = np.inf


class BackfillPasses(NamedTuple):
    """How backfill looks at the queue, and space for it.

    Attributes:
        window, resolution: seconds.
        most_jobs, most_of_user: jobs looked at in a pass; 0 users' jobs for no bound.
        user: of each job, shape [n]; -1 where unknown.
        seen: jobs of each user that were looked at, shape [users + 1].
        slots: what is planned.
        earliest: when a job of a template (its shape and request) was planned last in this pass,
            and the number of that pass, shape [templates, 2]; another of them starts no earlier.
        template: of each job, shape [n].
        passes: number of the pass, shape [1].
    """

    window: float
    resolution: float
    most_jobs: int
    most_of_user: int
    user: IntArray
    seen: IntArray
    slots: TimeSlots
    earliest: FloatArray
    template: IntArray
    passes: IntArray


@compiled_borrowing
def _touches(machine: MachineNow, job: int, slots: TimeSlots) -> bool:
    """Whether a running job holds a node that is not closed."""
    part = machine.nodes.first_part[job]
    while part >= 0:
        if not has(slots.closed, machine.nodes.part_node[part]):
            return True
        part = machine.nodes.part_next[part]
    return False


@compiled_borrowing
def _room_later(machine: MachineNow, shape: int, slots: TimeSlots) -> int:
    outlook = machine.outlook
    return find_room(
        machine.requests, machine.nodes, shape, outlook.free, outlook.running, slots.closed
    )


@compiled_borrowing
def _needed_until(
    cluster: Cluster, machine: MachineNow, begin: int, place: int, count: int
) -> float:
    """When the last of the jobs from `begin` to `place` that held a chosen node has ended."""
    now = cluster.clock[NOW]
    for each in range(place - 1, begin - 1, -1):
        if _holds_chosen(machine, cluster.expected_job[each], count):
            end = cluster.expected_end[each]
            return float(end if end > now else max(end + _KILL_WAIT, now + 1.0))
    return float(now)


@compiled_borrowing
def _holds_chosen(machine: MachineNow, job: int, count: int) -> bool:
    part = machine.nodes.first_part[job]
    while part >= 0:
        for place in range(count):
            if machine.nodes.chosen[place] == machine.nodes.part_node[part]:
                return True
        part = machine.nodes.part_next[part]
    return False


@compiled_borrowing
def _will_run(
    cluster: Cluster,
    machine: MachineNow,
    slots: TimeSlots,
    shape: int,
    begin: float,
    until: float,
) -> tuple[float, int]:
    """When a job finds room on the open nodes as running jobs end, and on how many of `chosen`.

    Args:
        cluster: read only.
        machine: its spaces are used.
        slots: which nodes are closed.
        shape: of the job.
        begin: seconds; jobs that end by then count as ended.
        until: jobs that end later count as running; 0 for no bound.
    """
    now, nodes = cluster.clock[NOW], machine.nodes
    if begin <= now and nodes.fails[shape] != nodes.counts[GIVEN_BACK]:
        count = find_room(machine.requests, nodes, shape, nodes.free, nodes.running, slots.closed)
        if count > 0:
            return now, count
    look_from_now(machine)
    place, running = 0, cluster.counts[RUNNING]
    while place < running and cluster.expected_end[place] <= begin:
        if _touches(machine, cluster.expected_job[place], slots):
            count_as_ended(machine, cluster.expected_job[place], shape)
        place += 1
    count = _room_later(machine, shape, slots)
    if count > 0:
        return now, count
    return _as_others_end(cluster, machine, slots, shape, place, until)


@compiled_borrowing
def _end_together(
    cluster: Cluster,
    machine: MachineNow,
    slots: TimeSlots,
    shape: int,
    place: int,
    last: float,
    until: float,
) -> tuple[int, int, bool]:
    """Count running jobs from `place` on as ended, until one is followed by one that ends late.

    Late is after `last`. As in Slurm only the job behind one that holds open nodes is asked that:
    behind one that holds none the next is taken whenever it ends, and a job that waits for it may
    be planned late.

    Returns:
        The place behind them, how many of them hold open nodes, whether the job gains by them.
    """
    ended, gained = 0, False
    while place < cluster.counts[RUNNING] and ended <= _MOST_TOGETHER:
        job = cluster.expected_job[place]
        if until > 0.0 and cluster.expected_end[place] > until:
            break
        place += 1
        if _touches(machine, job, slots):
            gained = count_as_ended(machine, job, shape) or gained
            ended += 1
            if place < cluster.counts[RUNNING] and cluster.expected_end[place] > last:
                break
    return place, ended, gained


@compiled_borrowing
def _as_others_end(
    cluster: Cluster, machine: MachineNow, slots: TimeSlots, shape: int, begin: int, until: float
) -> tuple[float, int]:
    """When a job finds room on the open nodes as running jobs end from `begin` on; see `_will_run`.

    Ends that are close to each other count together, the closer the nearer they are: a window
    that doubles with each look, from the end of the first job's half minute on.
    """
    running, place = cluster.counts[RUNNING], begin
    window, origin, gained = _FIRST_WINDOW, -1.0, False
    while place < running and not (until > 0.0 and cluster.expected_end[place] > until):
        if origin < 0.0:
            first = _first_that_matters(cluster, machine, slots, place)
            if first < 0:
                break
            place, time = first, cluster.expected_end[first]
            origin = time + _FIRST_WINDOW - time % _FIRST_WINDOW
        last = origin + window
        place, ended, more = _end_together(cluster, machine, slots, shape, place, last, until)
        gained = gained or more
        if ended > _MOST_TOGETHER:
            continue  # Slurm takes them out in portions, without a look between
        count = _room_later(machine, shape, slots) if gained else 0
        gained = False
        if count > 0:
            return _needed_until(cluster, machine, begin, place, count), count
        window *= 2.0
        while place < running and cluster.expected_end[place] > origin + window:
            window *= 2.0
    return _STARTS_NEVER, 0


@compiled_borrowing
def _first_that_matters(cluster: Cluster, machine: MachineNow, slots: TimeSlots, place: int) -> int:
    """The place of the next running job that holds an open node; -1 for none."""
    for each in range(place, cluster.counts[RUNNING]):
        if _touches(machine, cluster.expected_job[each], slots):
            return each
    return -1


@compiled_borrowing
def _plan(
    workload: Workload, cluster: Cluster, machine: MachineNow, passes: BackfillPasses, job: int
) -> tuple[float, int]:
    """When a job may start beside what is planned, on how many of `chosen`; inf for not planned."""
    now, slots, shape = cluster.clock[NOW], passes.slots, machine.requests.shape[job]
    serves = machine.requests.serves[machine.requests.pool[shape]]
    window_end = slots.begin[0] + passes.window
    limit, template = workload.estimate[job], passes.template[job]
    later = now
    if passes.earliest[template, 1] == passes.passes[0]:
        later = max(passes.earliest[template, 0], now)
    while True:
        begin = later
        if begin > window_end:
            return _STARTS_NEVER, 0
        later = close_planned(slots, serves, begin, begin + limit)
        start, count = _will_run(cluster, machine, slots, shape, begin, later)
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
            return _STARTS_NEVER, 0


@compiled_borrowing
def _slot_times(passes: BackfillPasses, start: float, limit: float) -> tuple[float, float]:
    grain = passes.resolution
    first = np.floor(start / grain) * grain
    last = np.floor((start + limit + grain - 1.0) / grain) * grain
    return first, max(last, first + grain)


@compiled_borrowing
def _is_looked_at(passes: BackfillPasses, job: int) -> bool:
    """Whether the user of a job has not had as many looked at as he may."""
    if passes.most_of_user == 0:
        return True
    user = passes.user[job]
    passes.seen[user] += 1
    return passes.seen[user] <= passes.most_of_user


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
        cluster: changed in place.
        machine: changed in place.
        passes: how; its spaces are used.
        order: job numbers by priority.
        count: how many there are.

    Returns:
        How many jobs started.
    """
    now, grain = cluster.clock[NOW], passes.resolution
    begin = np.floor(now / grain) * grain
    clear_slots(passes.slots, begin, np.floor((now + passes.window) / grain) * grain)
    passes.passes[0] += 1
    for user in range(len(passes.seen)):
        passes.seen[user] = 0
    started = tested = 0
    for place in range(count):
        job = order[place]
        if tested >= passes.most_jobs:
            break
        if not within_limits(machine.limits, job) or not _is_looked_at(passes, job):
            continue
        tested += 1
        start, found = _plan(workload, cluster, machine, passes, job)
        if found == 0:
            continue
        if start <= now and is_free_now(machine, job, found):
            start_on_nodes(workload, cluster, machine, job, found)
            started += 1
        elif start <= now + passes.window:
            first, last = _slot_times(passes, start, workload.estimate[job])
            if not add_plan(passes.slots, first, last, machine.nodes.chosen, found):
                break
    if started:
        forget_started(cluster)
    return started
