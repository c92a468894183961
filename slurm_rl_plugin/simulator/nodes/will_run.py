"""The will-run test of select/cons_tres: when a job finds room as running jobs end."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import NOW, RUNNING, Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing, compiled_inline
from slurm_rl_plugin.simulator.nodes.machine_now import MachineNow, fails_now
from slurm_rl_plugin.simulator.nodes.node_bits import NodeBits, has
from slurm_rl_plugin.simulator.nodes.node_state import NodeState
from slurm_rl_plugin.simulator.nodes.outlook import (
    count_as_ended,
    look_from_now,
    room_found,
    seek,
)
from slurm_rl_plugin.simulator.nodes.placement import find_room
from slurm_rl_plugin.simulator.nodes.time_slots import TimeSlots

#: Seconds within which ends of running jobs count together at first; doubled with every look.
_FIRST_WINDOW = 30.0
#: So many jobs that end close to each other count together at most.
_MOST_TOGETHER = 200
#: A running job beyond its time limit ends so soon: KillWait.
_KILL_WAIT = 30.0
#: When a job starts that finds no room however many end.
STARTS_NEVER = np.inf


@compiled_inline
def _touches(nodes: NodeState, closed: NodeBits, job: int) -> bool:
    """Whether a running job holds a node that is not closed."""
    part = nodes.first_part[job]
    while part >= 0:
        if not has(closed, nodes.part_node[part]):
            return True
        part = nodes.part_next[part]
    return False


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


@compiled_inline
def _holds_chosen(machine: MachineNow, job: int, count: int) -> bool:
    part = machine.nodes.first_part[job]
    while part >= 0:
        for place in range(count):
            if machine.nodes.chosen[place] == machine.nodes.part_node[part]:
                return True
        part = machine.nodes.part_next[part]
    return False


@compiled_borrowing
def will_run(
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
    now, closed, fails = cluster.clock[NOW], slots.closed, fails_now(machine, shape)
    if begin <= now and not fails:
        count = find_room(machine.requests, machine.nodes, shape, closed)
        if count > 0:
            return now, count
    look_from_now(machine)
    seek(machine, shape, closed, begin > now and not fails)
    place, running = 0, cluster.counts[RUNNING]
    while place < running and cluster.expected_end[place] <= begin:
        if _touches(machine.nodes, closed, cluster.expected_job[place]):
            count_as_ended(machine, cluster.expected_job[place], shape, closed)
        place += 1
    count = room_found(machine, shape, closed)
    if count > 0:
        return now, count
    return _as_others_end(cluster, machine, slots, shape, place, until)


@compiled_inline
def _end_together(
    cluster: Cluster,
    machine: MachineNow,
    slots: TimeSlots,
    shape: int,
    place: int,
    last: float,
    until: float,
) -> tuple[int, int]:
    """Count running jobs from `place` on as ended, until one is followed by one that ends late.

    Late is after `last`. As in Slurm only the job behind one that holds open nodes is asked that:
    behind one that holds none the next is taken whenever it ends, and a job that waits for it may
    be planned late.

    Returns:
        The place behind them, and how many of them hold open nodes.
    """
    ended = 0
    while place < cluster.counts[RUNNING] and ended <= _MOST_TOGETHER:
        job = cluster.expected_job[place]
        if until > 0.0 and cluster.expected_end[place] > until:
            break
        place += 1
        if _touches(machine.nodes, slots.closed, job):
            count_as_ended(machine, job, shape, slots.closed)
            ended += 1
            if place < cluster.counts[RUNNING] and cluster.expected_end[place] > last:
                break
    return place, ended


@compiled_borrowing
def _as_others_end(
    cluster: Cluster, machine: MachineNow, slots: TimeSlots, shape: int, begin: int, until: float
) -> tuple[float, int]:
    """When a job finds room on the open nodes as running jobs end from `begin` on; see `will_run`.

    Ends that are close to each other count together, the closer the nearer they are: a window
    that doubles with each look, from the end of the first job's half minute on.
    """
    running, place = cluster.counts[RUNNING], begin
    window, origin = _FIRST_WINDOW, -1.0
    while place < running and not (until > 0.0 and cluster.expected_end[place] > until):
        if origin < 0.0:
            first = _first_that_matters(cluster, machine, slots, place)
            if first < 0:
                break
            place, time = first, cluster.expected_end[first]
            origin = time + _FIRST_WINDOW - time % _FIRST_WINDOW
        last = origin + window
        place, ended = _end_together(cluster, machine, slots, shape, place, last, until)
        if ended > _MOST_TOGETHER:
            continue  # Slurm takes them out in portions, without a look between
        count = room_found(machine, shape, slots.closed)
        if count > 0:
            return _needed_until(cluster, machine, begin, place, count), count
        window *= 2.0
        while place < running and cluster.expected_end[place] > origin + window:
            window *= 2.0
    return STARTS_NEVER, 0


@compiled_inline
def _first_that_matters(cluster: Cluster, machine: MachineNow, slots: TimeSlots, place: int) -> int:
    """The place of the next running job that holds an open node; -1 for none."""
    for each in range(place, cluster.counts[RUNNING]):
        if _touches(machine.nodes, slots.closed, cluster.expected_job[each]):
            return each
    return -1
