"""The will-run test of select/cons_tres for a job of several nodes, as running jobs end."""

from __future__ import annotations

from slurm_rl_plugin.simulator.kernel.cluster import NOW, RUNNING, Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing, compiled_inline
from slurm_rl_plugin.simulator.nodes.ends_together import (
    FIRST_WINDOW,
    end_of_group,
    first_after,
    first_that_matters,
    next_window,
    touches,
)
from slurm_rl_plugin.simulator.nodes.machine_now import MachineNow, fails_now
from slurm_rl_plugin.simulator.nodes.node_bits import NodeBits
from slurm_rl_plugin.simulator.nodes.one_node_will_run import KILL_WAIT, STARTS_NEVER
from slurm_rl_plugin.simulator.nodes.outlook import (
    count_as_ended,
    look_from_now,
    room_found,
    seek,
)
from slurm_rl_plugin.simulator.nodes.placement import find_room


@compiled_borrowing
def _needed_until(
    cluster: Cluster, machine: MachineNow, begin: int, place: int, count: int
) -> float:
    """When the last of the jobs from `begin` to `place` that held a chosen node has ended."""
    now = cluster.clock[NOW]
    for each in range(place - 1, begin - 1, -1):
        if _holds_chosen(machine, cluster.expected_job[each], count):
            end = cluster.expected_end[each]
            return float(end if end > now else max(end + KILL_WAIT, now + 1.0))
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
def several_nodes_will_run(
    cluster: Cluster,
    machine: MachineNow,
    closed: NodeBits,
    shape: int,
    begin: float,
    until: float,
) -> tuple[float, int]:
    """When a job of several nodes finds room as running jobs end, and on how many of `chosen`.

    Args:
        cluster: read only.
        machine: its spaces are used.
        closed: nodes that are not to be taken, as a set.
        shape: of the job.
        begin: seconds; jobs that end by then count as ended.
        until: jobs that end later count as running; 0 for no bound.
    """
    now, fails = cluster.clock[NOW], fails_now(machine, shape)
    if begin <= now and not fails:
        count = find_room(machine.requests, machine.nodes, shape, closed)
        if count > 0:
            return now, count
    look_from_now(machine)
    seek(machine, shape, closed, begin > now and not fails)
    place = first_after(cluster.expected_end, 0, cluster.counts[RUNNING], begin)
    _count_as_ended(cluster, machine, closed, shape, 0, place)
    count = room_found(machine, shape, closed)
    if count > 0:
        return now, count
    return _as_others_end(cluster, machine, closed, shape, place, until)


@compiled_inline
def _count_as_ended(
    cluster: Cluster, machine: MachineNow, closed: NodeBits, shape: int, begin: int, end: int
) -> None:
    """Count the running jobs from one place to another that hold open nodes as ended."""
    for place in range(begin, end):
        job = cluster.expected_job[place]
        if touches(machine.nodes, closed, job):
            count_as_ended(machine, job, shape, closed)


@compiled_borrowing
def _as_others_end(
    cluster: Cluster, machine: MachineNow, closed: NodeBits, shape: int, begin: int, until: float
) -> tuple[float, int]:
    """When a job finds room on the open nodes as running jobs end from `begin` on.

    Ends that are close to each other count together, the closer the nearer they are: a window
    that doubles with each look, from the end of the first job's half minute on.
    """
    running, ends = cluster.counts[RUNNING], cluster.expected_end
    stop = running if until <= 0.0 else first_after(ends, begin, running, until)
    place = first_that_matters(cluster, machine.nodes, closed, begin, stop)
    if place >= stop:
        return STARTS_NEVER, 0
    origin = ends[place] + FIRST_WINDOW - ends[place] % FIRST_WINDOW
    window = FIRST_WINDOW
    while place < stop:
        first = place
        place, many = end_of_group(cluster, machine.nodes, closed, first, origin + window, stop)
        _count_as_ended(cluster, machine, closed, shape, first, place)
        if many:
            continue  # Slurm takes them out in portions, without a look between
        count = room_found(machine, shape, closed)
        if count > 0:
            return _needed_until(cluster, machine, begin, place, count), count
        window = next_window(cluster, place, origin, window)
    return STARTS_NEVER, 0
