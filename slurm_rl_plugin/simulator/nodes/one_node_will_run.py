"""The will-run test of select/cons_tres for a job of one node, from what is kept of each node."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import NOW, RUNNING, Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled_inline
from slurm_rl_plugin.simulator.nodes.ends_together import (
    FIRST_WINDOW,
    end_of_group,
    first_after,
    first_that_matters,
    next_window,
)
from slurm_rl_plugin.simulator.nodes.fitting_ends import FittingEnds, row_of
from slurm_rl_plugin.simulator.nodes.machine_now import MachineNow
from slurm_rl_plugin.simulator.nodes.node_bits import NodeBits, has
from slurm_rl_plugin.simulator.nodes.node_state import NO_PART, NodeEnds

#: A running job beyond its time limit ends so soon: KillWait.
KILL_WAIT = 30.0
#: When a job starts that finds no room however many end.
STARTS_NEVER = np.inf


@compiled_inline
def _ends_before(cluster: Cluster, place: int, end: float, job: int) -> bool:
    """Whether a running job is expected to end, at `end`, before the one at a place."""
    if end != cluster.expected_end[place - 1]:
        return end < cluster.expected_end[place - 1]
    if place == cluster.counts[RUNNING] or cluster.expected_end[place] > end:
        return True
    each = place - 1  # others end at the same time, some of them behind the place
    while each >= 0 and cluster.expected_end[each] == end:
        if cluster.expected_job[each] == job:
            return True
        each -= 1
    return False


@compiled_inline
def _needed_until(cluster: Cluster, ends: NodeEnds, node: int, begin: float, place: int) -> float:
    """When the last job on a node has ended of those that end after `begin` and before a place."""
    now, last = cluster.clock[NOW], -np.inf
    part = ends.first[node]
    while part != NO_PART and _ends_before(cluster, place, ends.end[part], ends.job[part]):
        last = ends.end[part]
        part = ends.behind[part]
    if last <= begin:
        return now
    return last if last > now else max(last + KILL_WAIT, now + 1.0)


@compiled_inline
def _earliest(
    machine: MachineNow, fitting: FittingEnds, row: int, closed: NodeBits, begin: float
) -> tuple[float, int]:
    """The first open node that holds a row's shape by `begin`, -1 for none; when any holds it."""
    requests = machine.requests
    pool, end = requests.pool[fitting.shape[row]], np.inf
    for place in range(requests.pool_first[pool], requests.pool_first[pool + 1]):
        node = fitting.by_weight[place]
        if fitting.end[row, node] < end and not has(closed, node):
            end = fitting.end[row, node]
            if end <= begin:
                return end, node
    return end, -1


@compiled_inline
def _first_that_holds(
    cluster: Cluster,
    machine: MachineNow,
    fitting: FittingEnds,
    row: int,
    closed: NodeBits,
    behind: int,
) -> int:
    """The first open node that holds a row's shape when all jobs before a place have ended."""
    requests, end = machine.requests, cluster.expected_end[behind - 1]
    pool = requests.pool[fitting.shape[row]]
    for place in range(requests.pool_first[pool], requests.pool_first[pool + 1]):
        node = fitting.by_weight[place]
        if (
            fitting.end[row, node] <= end
            and not has(closed, node)
            and _ends_before(cluster, behind, fitting.end[row, node], fitting.job[row, node])
        ):
            return node
    return -1


@compiled_inline
def one_node_will_run(
    cluster: Cluster,
    machine: MachineNow,
    fitting: FittingEnds,
    closed: NodeBits,
    shape: int,
    begin: float,
    until: float,
) -> tuple[float, int]:
    """When a job of one node finds room as running jobs end, and where: -1 for never.

    Args:
        cluster: read only.
        machine: read only.
        fitting: brought up to now.
        closed: nodes that are not to be taken, as a set.
        shape: of the job.
        begin: seconds; jobs that end by then count as ended.
        until: jobs that end later count as running; 0 for no bound.
    """
    now, running, ends = cluster.clock[NOW], cluster.counts[RUNNING], cluster.expected_end
    row = row_of(machine.requests, machine.nodes, fitting, shape)
    # a node that is free now goes before one whose job is past its limit
    at_once = -np.inf if begin <= now else begin
    earliest, node = _earliest(machine, fitting, row, closed, at_once)
    if node < 0 and earliest <= begin:
        earliest, node = _earliest(machine, fitting, row, closed, begin)
    if node >= 0:
        return now, node
    if np.isinf(earliest) or (until > 0.0 and earliest > until):
        return STARTS_NEVER, -1
    stop = running if until <= 0.0 else first_after(ends, 0, running, until)
    place = first_after(ends, 0, stop, begin)
    place = first_that_matters(cluster, machine.nodes, closed, place, stop)
    origin = ends[place] + FIRST_WINDOW - ends[place] % FIRST_WINDOW
    window = FIRST_WINDOW
    while place < stop:
        place, many = end_of_group(cluster, machine.nodes, closed, place, origin + window, stop)
        if many:
            continue  # Slurm takes them out in portions, without a look between
        if ends[place - 1] >= earliest:
            node = _first_that_holds(cluster, machine, fitting, row, closed, place)
            if node >= 0:
                start = _needed_until(cluster, machine.nodes.ends, node, begin, place)
                return start, node
        window = next_window(cluster, place, origin, window)
    return STARTS_NEVER, -1
