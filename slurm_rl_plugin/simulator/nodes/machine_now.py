"""The machine while it is simulated: nodes, requests, limits, bundled; starts and ends on them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import ENDED, PENDING, Cluster, Workload, start_job
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.simulator.nodes.group_limits import (
    GroupLimits,
    count_in_groups,
    within_limits,
)
from slurm_rl_plugin.simulator.nodes.node_state import (
    GIVEN_BACK,
    SEEN_ENDS,
    NodeState,
    give_back,
    occupy,
)
from slurm_rl_plugin.simulator.nodes.placement import find_room, usable_cpus
from slurm_rl_plugin.simulator.nodes.requests import NodeRequests
from slurm_rl_plugin.units import FloatArray, IntArray


class Outlook(NamedTuple):
    """What is free once the head of the queue has started, and space to find that out.

    Attributes:
        free: on each node then, shape [nodes, resources].
        running: jobs on each node then.
        both: what is free now and then, shape [nodes, resources].
        both_running: jobs on each node now or then.
        stamp: number of the look, shape [1].
        fails: number of the look in which a shape was found not to fit `both`, shape [shapes].
    """

    free: FloatArray
    running: IntArray
    both: FloatArray
    both_running: IntArray
    stamp: IntArray
    fails: IntArray


class MachineNow(NamedTuple):
    """All that places jobs.

    Attributes:
        requests: of all jobs.
        nodes: what is free.
        limits: of groups of jobs.
        outlook: behind the head of the queue.
    """

    requests: NodeRequests
    nodes: NodeState
    limits: GroupLimits
    outlook: Outlook


def no_outlook(nodes: NodeState) -> Outlook:
    """Space for what is free later."""
    shapes = len(nodes.fails)
    return Outlook(
        free=np.zeros_like(nodes.free),
        running=np.zeros_like(nodes.running),
        both=np.zeros_like(nodes.free),
        both_running=np.zeros_like(nodes.running),
        stamp=np.zeros(1, dtype=np.int64),
        fails=np.full(shapes, -1),
    )


@compiled_borrowing
def find_room_now(machine: MachineNow, job: int) -> int:
    """`find_room` for a job now; what found none is not looked for again until a job ends."""
    nodes = machine.nodes
    shape = machine.requests.shape[job]
    if nodes.fails[shape] == nodes.counts[GIVEN_BACK]:
        return 0
    count = find_room(machine.requests, nodes, shape, nodes.free, nodes.running, nodes.none_closed)
    if count == 0:
        nodes.fails[shape] = nodes.counts[GIVEN_BACK]
    return count


@compiled_borrowing
def is_free_now(machine: MachineNow, job: int, count: int) -> bool:
    """Whether a job can have the first `count` nodes of `chosen` now.

    What was found beside jobs that have outlived their limits need not be free yet.
    """
    requests, nodes = machine.requests, machine.nodes
    shape = requests.shape[job]
    for place in range(count):
        node = nodes.chosen[place]
        usable = usable_cpus(
            requests, shape, nodes.free[node], nodes.whole[node], nodes.running[node]
        )
        if usable < nodes.chosen_cpus[place]:
            return False
    return True


@compiled_borrowing
def start_on_nodes(
    workload: Workload, cluster: Cluster, machine: MachineNow, job: int, count: int
) -> None:
    """Start a job on the first `count` nodes of `chosen`."""
    occupy(machine.requests, machine.nodes, job, count)
    count_in_groups(machine.limits, job, 1.0)
    start_job(workload, cluster, job)


@compiled_borrowing
def free_ended(cluster: Cluster, machine: MachineNow) -> None:
    """Give back the nodes of the jobs that have ended since the last call."""
    seen = machine.nodes.counts[SEEN_ENDS]
    for place in range(seen, cluster.counts[ENDED]):
        job = cluster.ended[place]
        give_back(machine.requests, machine.nodes, job)
        count_in_groups(machine.limits, job, -1.0)
    machine.nodes.counts[SEEN_ENDS] = cluster.counts[ENDED]


@compiled_borrowing
def any_room(cluster: Cluster, machine: MachineNow) -> bool:
    """Whether some pending job finds room now."""
    for place in range(cluster.counts[PENDING]):
        job = cluster.pending[place]
        if within_limits(machine.limits, job) and find_room_now(machine, job) > 0:
            return True
    return False
