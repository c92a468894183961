"""The will-run test of select/cons_tres for a job of several nodes, as running jobs end."""

from __future__ import annotations

import numpy as np

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
from slurm_rl_plugin.simulator.nodes.fitting_ends import FittingEnds, row_of
from slurm_rl_plugin.simulator.nodes.machine_now import MachineNow, fails_now
from slurm_rl_plugin.simulator.nodes.node_bits import NodeBits, has
from slurm_rl_plugin.simulator.nodes.one_node_will_run import KILL_WAIT, STARTS_NEVER
from slurm_rl_plugin.simulator.nodes.outlook import (
    count_as_ended,
    look_from_now,
    room_found,
    seek,
)
from slurm_rl_plugin.simulator.nodes.placement import find_room

#: Before inf: all jobs that are expected to end.
_LAST = np.finfo(np.float64).max


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


@compiled_inline
def _able(
    machine: MachineNow, fitting: FittingEnds, row: int, closed: NodeBits, time: float
) -> int:
    """How many open nodes can give a row's shape what each must, when jobs end until a time."""
    requests, found = machine.requests, 0
    pool = requests.pool[fitting.shape[row]]
    for place in range(requests.pool_first[pool], requests.pool_first[pool + 1]):
        node = requests.pool_node[place]
        found += fitting.end[row, node] <= time and not has(closed, node)
    return found


@compiled_borrowing
def several_nodes_will_run(
    cluster: Cluster,
    machine: MachineNow,
    fitting: FittingEnds,
    closed: NodeBits,
    shape: int,
    begin: float,
    until: float,
) -> tuple[float, int]:
    """When a job of several nodes finds room as running jobs end, and on how many of `chosen`.

    Args:
        cluster: read only.
        machine: its spaces are used.
        fitting: brought up to now.
        closed: nodes that are not to be taken, as a set.
        shape: of the job.
        begin: seconds; jobs that end by then count as ended.
        until: jobs that end later count as running; 0 for no bound.
    """
    now, fails, fewest = (
        cluster.clock[NOW],
        fails_now(machine, shape),
        machine.requests.fewest[shape],
    )
    row = row_of(machine.requests, machine.nodes, fitting, shape)
    last = max(begin, until) if until > 0.0 else _LAST
    if _able(machine, fitting, row, closed, last) < fewest:
        return STARTS_NEVER, 0
    if begin <= now and not fails and _able(machine, fitting, row, closed, -np.inf) >= fewest:
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
