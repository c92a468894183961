"""EASY backfilling over nodes: nobody behind the head of the queue takes what it will start on."""

from __future__ import annotations

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
from slurm_rl_plugin.simulator.nodes.machine_now import (
    MachineNow,
    find_room_now,
    start_on_nodes,
)
from slurm_rl_plugin.simulator.nodes.outlook import (
    count_as_ended,
    look_from_now,
    take_from_outlook,
)
from slurm_rl_plugin.simulator.nodes.placement import find_room
from slurm_rl_plugin.units import IntArray

#: Not looked for yet.
_UNKNOWN = -1.0


@compiled_borrowing
def head_start(cluster: Cluster, machine: MachineNow, head: int) -> float:
    """When the head is expected to find room; the outlook becomes what is free besides it then.

    Running jobs that are expected to end at one time are counted as ended together; one that has
    outlived its estimate is taken to end now. Where room comes never, which limits of groups
    cannot tell, inf.
    """
    nodes, outlook = machine.nodes, machine.outlook
    now = cluster.clock[NOW]
    shape = machine.requests.shape[head]
    look_from_now(machine)
    place, gained = 0, False
    while place < cluster.counts[RUNNING]:
        time = max(cluster.expected_end[place], now)
        while place < cluster.counts[RUNNING] and cluster.expected_end[place] <= time:
            gained = count_as_ended(machine, cluster.expected_job[place], shape) or gained
            place += 1
        if not gained:
            continue
        gained = False
        count = find_room(
            machine.requests, nodes, shape, outlook.free, outlook.running, nodes.none_closed
        )
        if count > 0:
            take_from_outlook(machine, shape, count)
            return time
    return np.inf


@compiled_borrowing
def _narrow(machine: MachineNow, node: int) -> None:
    """Bring what a node has free both now and later up to date."""
    nodes, outlook = machine.nodes, machine.outlook
    outlook.both_running[node] = max(nodes.running[node], outlook.running[node])
    for resource in range(outlook.both.shape[1]):
        outlook.both[node, resource] = min(nodes.free[node, resource], outlook.free[node, resource])


@compiled_borrowing
def _look_anew(machine: MachineNow) -> None:
    machine.outlook.stamp[0] += 1
    for node in range(len(machine.outlook.both)):
        _narrow(machine, node)


@compiled_borrowing
def _room_beside_head(machine: MachineNow, job: int) -> int:
    """`find_room` for a job in what is free both now and when the head has started."""
    outlook = machine.outlook
    shape = machine.requests.shape[job]
    if outlook.fails[shape] == outlook.stamp[0]:
        return 0
    count = find_room(
        machine.requests,
        machine.nodes,
        shape,
        outlook.both,
        outlook.both_running,
        machine.nodes.none_closed,
    )
    if count == 0:
        outlook.fails[shape] = outlook.stamp[0]
    return count


@compiled_borrowing
def _start_until_head(
    workload: Workload, cluster: Cluster, machine: MachineNow, order: IntArray, count: int
) -> tuple[int, int]:
    """Start jobs in order; the place of the first without room, and how many started."""
    started = 0
    for place in range(count):
        job = order[place]
        if not within_limits(machine.limits, job):
            continue
        found = find_room_now(machine, job)
        if found == 0:
            return place, started
        start_on_nodes(workload, cluster, machine, job, found)
        started += 1
    return count, started


@compiled_borrowing
def _start_behind(
    workload: Workload,
    cluster: Cluster,
    machine: MachineNow,
    order: IntArray,
    head: int,
    count: int,
) -> int:
    """Start jobs behind the head that do not delay it; how many."""
    started, shadow = 0, _UNKNOWN
    for place in range(head + 1, count):
        job = order[place]
        if not within_limits(machine.limits, job) or find_room_now(machine, job) == 0:
            continue
        if shadow == _UNKNOWN:
            shadow = head_start(cluster, machine, order[head])
            _look_anew(machine)
        if cluster.clock[NOW] + workload.estimate[job] > shadow:
            found = _room_beside_head(machine, job)
            if found > 0:
                take_from_outlook(machine, machine.requests.shape[job], found)
        else:
            found = find_room_now(machine, job)  # the look at the head used the space
        if found > 0:
            start_on_nodes(workload, cluster, machine, job, found)
            started += 1
            for each in range(found):
                _narrow(machine, machine.nodes.chosen[each])
    return started


@compiled_borrowing
def start_in_order_on_nodes(
    workload: Workload,
    cluster: Cluster,
    machine: MachineNow,
    order: IntArray,
    count: int,
    backfills: bool,
) -> int:
    """Start jobs in order until the first without room, the head; behind it who does not delay it.

    A job that limits of its groups hold back is passed over and reserves nothing.

    Args:
        workload: the jobs.
        cluster: changed in place.
        machine: changed in place.
        order: job numbers, the first to be looked at first.
        count: how many of `order` there are.
        backfills: EASY; else nobody passes the head.

    Returns:
        How many jobs started.
    """
    head, started = _start_until_head(workload, cluster, machine, order, count)
    if backfills:
        started += _start_behind(workload, cluster, machine, order, head, count)
    if started:
        forget_started(cluster)
    return started
