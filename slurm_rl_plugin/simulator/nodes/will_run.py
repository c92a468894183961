"""The will-run test of select/cons_tres: when a job finds room as running jobs end."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing, compiled_inline
from slurm_rl_plugin.simulator.kernel.workload import Records
from slurm_rl_plugin.simulator.nodes.machine_now import (
    MachineNow,
    count_as_ended,
    fails_now,
    look_from_now,
    room_found,
    seek,
)
from slurm_rl_plugin.simulator.nodes.node_state import (
    CPU,
    NO_PART,
    NodeBits,
    NodeRequests,
    NodeState,
    has,
    taken,
)
from slurm_rl_plugin.simulator.nodes.placement import find_room, usable_cpus
from slurm_rl_plugin.units import FloatArray, IntArray

#: Seconds within which ends count together at first; each test for room doubles them.
FIRST_WINDOW = 30.0
#: The most jobs whose ends count together.
_MOST_TOGETHER = 200


@compiled_inline
def touches(nodes: NodeState, closed: NodeBits, job: int) -> bool:
    """Whether a running job holds a node that is not closed."""
    part = nodes.first_part[job]
    while part >= 0:
        if not has(closed, nodes.part_node[part]):
            return True
        part = nodes.part_next[part]
    return False


@compiled_inline
def first_after(running: Records, begin: int, end: int, time: float) -> int:
    """The first place from `begin` on, before `end`, of a later expected end; `end` for none."""
    return begin + int(np.searchsorted(running.expected_end[begin:end], time, side="right"))


@compiled_inline
def first_that_matters(
    cluster: Cluster, nodes: NodeState, closed: NodeBits, begin: int, end: int
) -> int:
    """The place from `begin` on of the first job that holds an open node; `end` for none."""
    place = begin
    while place < end and not touches(nodes, closed, cluster.running[place].expected_job):
        place += 1
    return place


@compiled_inline
def end_of_group(
    cluster: Cluster, nodes: NodeState, closed: NodeBits, begin: int, last: float, stop: int
) -> tuple[int, bool]:
    """The place behind the running jobs from `begin` on that count as ended together.

    They are those that end by `last`, before place `stop`. As in Slurm, this is checked only behind
    a job that holds open nodes: behind another the next job counts whenever it ends, so a start may
    be planned late. The second value: there are too many, so Slurm continues without a test.
    """
    place = first_after(cluster.running, begin, stop, last)
    if place < stop and not (
        place > begin and touches(nodes, closed, cluster.running[place - 1].expected_job)
    ):
        place = min(first_that_matters(cluster, nodes, closed, place, stop) + 1, stop)
    if place - begin > _MOST_TOGETHER:
        ended = 0
        for each in range(begin, place):
            ended += touches(nodes, closed, cluster.running[each].expected_job)
            if ended > _MOST_TOGETHER:
                return each + 1, True
    return place, False


@compiled_inline
def next_window(cluster: Cluster, place: int, origin: float, window: float) -> float:
    """The next window, in which the job at `place` ends."""
    window *= 2.0
    while (
        place < cluster.state[0].running and cluster.running[place].expected_end > origin + window
    ):
        window *= 2.0
    return window


#: The most shapes that are kept, which bounds the memory for each node.
_MOST_ROWS = 256
_NO_SHAPE = -1


class FittingEnds(NamedTuple):
    """For some shapes, after which end each node holds a job of the shape."""

    shape: IntArray  #: of each row, shape [rows]; -1 for none
    seen: IntArray  #: how many changes of nodes each row includes, shape [rows]
    #: When the job ends after which a node has `least` for the shape, shape [rows, nodes]: -inf if
    #: it has them now, inf for never.
    end: FloatArray
    job: IntArray  #: that job, the same
    #: CPUs that each node of a job of the shape gives, shape [shapes]: of one node all.
    least: FloatArray
    by_weight: IntArray  #: as `NodeRequests.pool_node`, in the order in which nodes are taken
    free: FloatArray  #: space for what is free on a node, shape [resources]


def fitting_ends(whole: FloatArray, weight: IntArray, requests: NodeRequests) -> FittingEnds:
    """Rows without a shape; `whole`: what each node has, shape [nodes, resources]."""
    nodes, rows = len(weight), min(len(requests.fewest), _MOST_ROWS)
    # however much the others give
    left = requests.cpus - (requests.most - 1) * whole[:, CPU].max(initial=0.0)
    pools = zip(requests.pool_first[:-1], requests.pool_first[1:], strict=True)
    serving = [requests.pool_node[begin:end] for begin, end in pools]
    by_weight = [pool[np.argsort(weight[pool], kind="stable")] for pool in serving]
    return FittingEnds(
        shape=np.full(rows, _NO_SHAPE),
        seen=np.zeros(rows, dtype=np.int64),
        end=np.zeros((rows, nodes)),
        job=np.zeros((rows, nodes), dtype=np.int64),
        least=np.maximum(left, requests.task),
        by_weight=np.concatenate(by_weight).astype(np.int64),
        free=np.zeros(whole.shape[1]),
    )


@compiled_borrowing
def _bring_node_up(
    requests: NodeRequests, nodes: NodeState, fitting: FittingEnds, shape: int, row: int, node: int
) -> None:
    """Find after which end a node holds a shape, with the sums of `count_as_ended`."""
    free, whole, running = fitting.free, nodes.whole[node], nodes.running[node]
    for resource in range(len(free)):
        free[resource] = nodes.free[node, resource]
    part, end, job = nodes.first_end[node], -np.inf, NO_PART
    while usable_cpus(requests, shape, free, whole, running) < fitting.least[shape]:
        if part == NO_PART:
            end = np.inf
            break
        end, job = nodes.part_end[part], nodes.part_job[part]
        running -= 1
        own = requests.shape[job]
        for resource in range(len(free)):
            free[resource] += taken(requests, own, resource, nodes.part_cpus[part])
        part = nodes.part_behind[part]
    fitting.end[row, node], fitting.job[row, node] = end, job


@compiled_borrowing
def _bring_row_up(
    requests: NodeRequests, nodes: NodeState, fitting: FittingEnds, shape: int
) -> None:
    row, pool, changes = shape % len(fitting.shape), requests.pool[shape], nodes.room.changes[0]
    first, last = requests.pool_first[pool], requests.pool_first[pool + 1]
    if fitting.shape[row] != shape or changes - fitting.seen[row] >= last - first:
        for place in range(first, last):
            _bring_node_up(requests, nodes, fitting, shape, row, requests.pool_node[place])
    else:
        changed = nodes.room.changed
        for change in range(fitting.seen[row], changes):
            node = changed[change % len(changed)]
            if has(requests.serves[pool], node):
                _bring_node_up(requests, nodes, fitting, shape, row, node)
    fitting.shape[row], fitting.seen[row] = shape, changes


@compiled_inline
def row_of(requests: NodeRequests, nodes: NodeState, fitting: FittingEnds, shape: int) -> int:
    """The row of a shape, updated."""
    row = shape % len(fitting.shape)
    if fitting.shape[row] != shape or fitting.seen[row] != nodes.room.changes[0]:
        _bring_row_up(requests, nodes, fitting, shape)
    return row


#: Seconds in which a running job beyond its time limit ends: KillWait.
KILL_WAIT = 30.0
#: The start of a job that finds no room even if all running jobs end.
STARTS_NEVER = np.inf


@compiled_inline
def _ends_before(cluster: Cluster, place: int, end: float, job: int) -> bool:
    """Whether a running job is expected to end, at `end`, before the one at a place."""
    if end != cluster.running[place - 1].expected_end:
        return end < cluster.running[place - 1].expected_end
    if place == cluster.state[0].running or cluster.running[place].expected_end > end:
        return True
    each = place - 1  # others end at the same time, some behind the place
    while each >= 0 and cluster.running[each].expected_end == end:
        if cluster.running[each].expected_job == job:
            return True
        each -= 1
    return False


@compiled_inline
def _needed_until(cluster: Cluster, nodes: NodeState, node: int, begin: float, place: int) -> float:
    """When the last job on a node ends of those that end after `begin` and before a place."""
    now, last = cluster.state[0].now, -np.inf
    part = nodes.first_end[node]
    while part != NO_PART and _ends_before(
        cluster, place, nodes.part_end[part], nodes.part_job[part]
    ):
        last = nodes.part_end[part]
        part = nodes.part_behind[part]
    if last <= begin:
        return now
    return last if last > now else max(last + KILL_WAIT, now + 1.0)


@compiled_inline
def _earliest(
    machine: MachineNow, fitting: FittingEnds, row: int, closed: NodeBits, begin: float
) -> tuple[float, int]:
    """When an open node first holds a row's shape; the first one by `begin`, -1 for none."""
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
    requests, end = machine.requests, cluster.running[behind - 1].expected_end
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
        closed: the set of nodes that the job must not take.
        begin: seconds; jobs that end by then count as ended.
        until: jobs that end later count as running; 0 for no bound.
    """
    now, running, ends = cluster.state[0].now, cluster.state[0].running, cluster.running
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
    origin = ends[place].expected_end
    origin += FIRST_WINDOW - origin % FIRST_WINDOW
    window = FIRST_WINDOW
    while place < stop:
        place, many = end_of_group(cluster, machine.nodes, closed, place, origin + window, stop)
        if many:
            continue  # Slurm removes them in portions, without a test between
        if ends[place - 1].expected_end >= earliest:
            node = _first_that_holds(cluster, machine, fitting, row, closed, place)
            if node >= 0:
                start = _needed_until(cluster, machine.nodes, node, begin, place)
                return start, node
        window = next_window(cluster, place, origin, window)
    return STARTS_NEVER, -1


#: Before inf: all running jobs end by then.
_LAST = np.finfo(np.float64).max


@compiled_borrowing
def _held_until(cluster: Cluster, machine: MachineNow, begin: int, place: int, count: int) -> float:
    """When the last job from `begin` to `place` that holds a chosen node has ended."""
    now = cluster.state[0].now
    for each in range(place - 1, begin - 1, -1):
        if _holds_chosen(machine, cluster.running[each].expected_job, count):
            end = cluster.running[each].expected_end
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
    """How many open nodes can each give a row's shape its part by a time."""
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
    """When a job of several nodes finds room as others end, and on how many of `chosen`."""
    now, fails = cluster.state[0].now, fails_now(machine, shape)
    fewest = machine.requests.fewest[shape]
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
    place = first_after(cluster.running, 0, cluster.state[0].running, begin)
    _count_group_as_ended(cluster, machine, closed, shape, 0, place)
    count = room_found(machine, shape, closed)
    if count > 0:
        return now, count
    return _as_others_end(cluster, machine, closed, shape, place, until)


@compiled_inline
def _count_group_as_ended(
    cluster: Cluster, machine: MachineNow, closed: NodeBits, shape: int, begin: int, end: int
) -> None:
    for place in range(begin, end):
        job = cluster.running[place].expected_job
        if touches(machine.nodes, closed, job):
            count_as_ended(machine, job, shape, closed)


@compiled_borrowing
def _as_others_end(
    cluster: Cluster, machine: MachineNow, closed: NodeBits, shape: int, begin: int, until: float
) -> tuple[float, int]:
    """When a job finds room on the open nodes as running jobs end from `begin` on.

    Close ends count together, in a window that begins at the end of the first job's half minute and
    doubles with each test for room.
    """
    running, ends = cluster.state[0].running, cluster.running
    stop = running if until <= 0.0 else first_after(ends, begin, running, until)
    place = first_that_matters(cluster, machine.nodes, closed, begin, stop)
    if place >= stop:
        return STARTS_NEVER, 0
    origin = ends[place].expected_end
    origin += FIRST_WINDOW - origin % FIRST_WINDOW
    window = FIRST_WINDOW
    while place < stop:
        first = place
        place, many = end_of_group(cluster, machine.nodes, closed, first, origin + window, stop)
        _count_group_as_ended(cluster, machine, closed, shape, first, place)
        if many:
            continue  # Slurm removes them in portions, without a test between
        count = room_found(machine, shape, closed)
        if count > 0:
            return _held_until(cluster, machine, begin, place, count), count
        window = next_window(cluster, place, origin, window)
    return STARTS_NEVER, 0
