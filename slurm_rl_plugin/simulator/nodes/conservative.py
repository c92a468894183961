"""Conservative backfilling over nodes: every pending job has a place in time that none may take.

The plan holds what is free on every node at every time, so a decision takes long where many jobs
wait on many nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import (
    NOW,
    RUNNING,
    Cluster,
    forget_started,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.nodes.group_limits import within_limits
from slurm_rl_plugin.simulator.nodes.machine_now import (
    MachineNow,
    find_room_now,
    start_on_nodes,
)
from slurm_rl_plugin.simulator.nodes.node_state import taken
from slurm_rl_plugin.simulator.nodes.placement import (
    choose_one,
    choose_several,
    holds,
    usable_cpus,
)
from slurm_rl_plugin.units import FloatArray, IntArray


class NodePlan(NamedTuple):
    """What is free from each of several points in time to the next; the first is now.

    Attributes:
        times: seconds, shape [points].
        free: shape [points, nodes, resources].
        running: jobs on each node, shape [points, nodes].
    """

    times: FloatArray
    free: FloatArray
    running: IntArray


@compiled
def _plan_of_running(cluster: Cluster, machine: MachineNow, places: int) -> tuple[NodePlan, int]:
    """The plan with the running jobs alone, and how many of its points are in use.

    A job that has outlived its estimate ends at a second point of now: it counts for the plan, but
    nothing can start on its nodes yet.
    """
    nodes = machine.nodes
    count, resources = nodes.free.shape
    plan = NodePlan(
        np.empty(places),
        np.empty((places, count, resources)),
        np.empty((places, count), dtype=np.int64),
    )
    now = cluster.clock[NOW]
    plan.times[0] = now
    plan.free[0], plan.running[0] = nodes.free, nodes.running
    points = 1
    for place in range(cluster.counts[RUNNING]):
        expected, job = max(cluster.expected_end[place], now), cluster.expected_job[place]
        if points == 1 or plan.times[points - 1] != expected:
            plan.times[points] = expected
            plan.free[points], plan.running[points] = (
                plan.free[points - 1],
                plan.running[points - 1],
            )
            points += 1
        part = nodes.first_part[job]
        while part >= 0:
            node, cpus = nodes.part_node[part], nodes.part_cpus[part]
            plan.running[points - 1, node] -= 1
            for resource in range(resources):
                plan.free[points - 1, node, resource] += taken(
                    machine.requests, machine.requests.shape[job], resource, cpus
                )
            part = nodes.part_next[part]
    return plan, points


@compiled
def _room_from(
    machine: MachineNow, plan: NodePlan, points: int, start: int, duration: float, shape: int
) -> int:
    """`find_room` in what stays free from a point on for a time."""
    outlook, end = machine.outlook, plan.times[start] + duration
    outlook.free[:], outlook.running[:] = plan.free[start], plan.running[start]
    place = start + 1
    while place < points and plan.times[place] < end:
        for node in range(len(outlook.free)):
            outlook.running[node] = max(outlook.running[node], plan.running[place, node])
            for resource in range(outlook.free.shape[1]):
                least = min(outlook.free[node, resource], plan.free[place, node, resource])
                outlook.free[node, resource] = least
        place += 1
    return _room_in_outlook(machine, shape)


@compiled
def _room_in_outlook(machine: MachineNow, shape: int) -> int:
    """`find_room` in the outlook, of which every node is filled."""
    requests, nodes, outlook = machine.requests, machine.nodes, machine.outlook
    pool, single = requests.pool[shape], requests.most[shape] == 1
    serving, cpus, best = 0, 0.0, -1
    for place in range(requests.pool_first[pool], requests.pool_first[pool + 1]):
        node = requests.pool_node[place]
        free, running, whole = outlook.free[node], outlook.running[node], nodes.whole[node]
        if single:
            lighter = best < 0 or (nodes.weight[node], node) < (nodes.weight[best], best)
            if lighter and holds(requests, shape, free, whole, running):
                best = node
            continue
        usable = usable_cpus(requests, shape, free, whole, running)
        nodes.usable[node] = usable
        serving += usable > 0.0
        cpus += usable
    if single:
        return int(choose_one(requests, nodes, shape, best))
    return int(choose_several(requests, nodes, shape, serving, cpus))


@compiled
def _take(
    machine: MachineNow,
    plan: NodePlan,
    points: int,
    start: int,
    duration: float,
    shape: int,
    count: int,
) -> int:
    """Take the first `count` of `chosen` out of the plan from a point on; how many points are."""
    end = plan.times[start] + duration
    last = start
    while last < points and plan.times[last] < end:
        last += 1
    if last == points or plan.times[last] > end:
        for place in range(points, last, -1):
            plan.times[place] = plan.times[place - 1]
            plan.free[place], plan.running[place] = plan.free[place - 1], plan.running[place - 1]
        plan.times[last] = end
        plan.free[last], plan.running[last] = plan.free[last - 1], plan.running[last - 1]
        points += 1
    nodes = machine.nodes
    for each in range(count):
        node, cpus = nodes.chosen[each], nodes.chosen_cpus[each]
        for place in range(start, last):
            plan.running[place, node] += 1
            for resource in range(nodes.free.shape[1]):
                amount = taken(machine.requests, shape, resource, cpus)
                plan.free[place, node, resource] -= amount
    return points


@compiled
def _last_with_room(machine: MachineNow, order: IntArray, count: int) -> int:
    """The last place in an order whose job finds room now; whoever is behind cannot start."""
    for place in range(count - 1, -1, -1):
        job = order[place]
        shape = machine.requests.shape[job]
        if within_limits(machine.limits, job) and find_room_now(machine, shape) > 0:
            return place
    return -1


@compiled
def start_conservatively_on_nodes(
    workload: Workload, cluster: Cluster, machine: MachineNow, order: IntArray, count: int
) -> int:
    """Give each job in order its earliest place in the plan, and start those whose place is now.

    The plan is made anew at each decision. A job that limits of its groups hold back is passed over
    and reserves nothing.

    Args:
        workload: the jobs.
        cluster: changed in place.
        machine: changed in place.
        order: job numbers, the first to be looked at first.
        count: how many of `order` there are.

    Returns:
        How many jobs started.
    """
    last = _last_with_room(machine, order, count)
    plan, points = _plan_of_running(cluster, machine, cluster.counts[RUNNING] + last + 3)
    started = 0
    for place in range(last + 1):
        job = order[place]
        if not within_limits(machine.limits, job):
            continue
        shape, duration = machine.requests.shape[job], workload.estimate[job]
        start, found = 0, 0
        while start < points:
            found = _room_from(machine, plan, points, start, duration, shape)
            if found > 0:
                break
            start += 1
        if found == 0:
            continue
        points = _take(machine, plan, points, start, duration, shape, found)
        if start == 0:
            start_on_nodes(workload, cluster, machine, job, found)
            started += 1
    if started:
        forget_started(cluster)
    return started
