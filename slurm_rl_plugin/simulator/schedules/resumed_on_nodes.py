"""A simulation on nodes that begins in the middle: jobs hold their nodes already, others wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import (
    NOW,
    Cluster,
    arrive,
    forget_started,
    next_event,
    start_job,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_borrowing
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.nodes.group_limits import count_in_groups
from slurm_rl_plugin.simulator.nodes.machine_now import MachineNow, count_arrivals
from slurm_rl_plugin.simulator.nodes.node_state import NodeState, occupy
from slurm_rl_plugin.simulator.nodes.placement import find_room
from slurm_rl_plugin.simulator.nodes.requests import CPU
from slurm_rl_plugin.simulator.schedules.on_nodes import NodeRun
from slurm_rl_plugin.units import FloatArray, IntArray


class HeldNodes(NamedTuple):
    """Which nodes some running jobs hold, one job behind the other.

    Attributes:
        first: where the nodes of each job begin in `node`, shape [r + 1]; a job whose nodes are
            not known has none.
        node: numbers of nodes, shape [k].
        cpus: of the job on each of them, shape [k].
    """

    first: IntArray
    node: IntArray
    cpus: FloatArray

    @classmethod
    def evenly(cls, nodes: Sequence[Sequence[int]], cpus: IntArray) -> Self:
        """Where it is not known how many CPUs of a job are on which of its nodes.

        Args:
            nodes: of each job; none where they are not known.
            cpus: of each job in all, shape [r].
        """
        counts = np.array([len(each) for each in nodes], dtype=np.int64)
        first = np.concatenate([[0], np.cumsum(counts)])
        place = np.arange(first[-1]) - np.repeat(first[:-1], counts)
        each, rest = np.divmod(cpus, np.maximum(counts, 1))
        on_node = np.repeat(each, counts) + (place < np.repeat(rest, counts))
        return cls(
            first=first,
            node=np.array([node for each in nodes for node in each], dtype=np.int64),
            cpus=np.maximum(on_node, 1).astype(np.float64),
        )


def no_nodes_known(running: int) -> HeldNodes:
    """Of no running job it is known where it is."""
    nothing = np.empty(0, dtype=np.int64)
    return HeldNodes(np.zeros(running + 1, dtype=np.int64), nothing, np.empty(0))


@compiled_borrowing
def _has_places(nodes: NodeState, count: int) -> bool:
    """Whether one more job may be entered on each of the first `count` nodes of `chosen`.

    There are as many places as CPUs; who runs on a real node is not always what its size holds.
    """
    for place in range(count):
        node = nodes.chosen[place]
        if nodes.running[node] >= nodes.whole[node, CPU]:
            return False
    return True


@compiled
def _hold(
    workload: Workload,
    machine: MachineNow,
    running: IntArray,
    start: FloatArray,
    held: HeldNodes,
    is_known: bool,
) -> None:
    """Give the running jobs of known nodes these, or the others the nodes that they would get."""
    nodes, requests = machine.nodes, machine.requests
    for place in range(len(running)):
        first, last = held.first[place], held.first[place + 1]
        if (last > first) != is_known:
            continue
        job = running[place]
        count = last - first
        if is_known:
            nodes.chosen[:count] = held.node[first:last]
            nodes.chosen_cpus[:count] = held.cpus[first:last]
        else:
            count = find_room(requests, nodes, requests.shape[job], nodes.none_closed)
        if _has_places(nodes, count):
            occupy(requests, nodes, job, count, start[place] + workload.estimate[job])


@compiled
def _take_up(
    workload: Workload,
    cluster: Cluster,
    machine: MachineNow,
    rank: IntArray,
    now: float,
    running: IntArray,
    start: FloatArray,
    held: HeldNodes,
) -> None:
    came = np.searchsorted(workload.submit, now)
    for job in running:
        came = max(came, job + 1)
    for _ in range(came):
        arrive(workload, cluster, rank)
    count_arrivals(cluster, machine)
    _hold(workload, machine, running, start, held, True)
    _hold(workload, machine, running, start, held, False)
    for place in range(len(running)):
        job = running[place]
        cluster.clock[NOW] = start[place]
        machine.waiting[machine.requests.shape[job]] -= 1
        count_in_groups(machine.limits, job, 1.0)
        start_job(workload, cluster, job)
    forget_started(cluster)
    cluster.clock[NOW] = now
    cluster.usage_time[0] = now


def resume_on_nodes(
    run: NodeRun,
    now: float,
    running: IntArray,
    start: FloatArray,
    held: HeldNodes | None = None,
    looks: FloatArray | None = None,
) -> None:
    """Bring a run that has not begun to an instant: who came before it waits, unless he runs.

    Who comes at the very instant is an event of it. A running job of unknown nodes gets those that
    it would get beside the others; where these are taken, or more jobs are said to run on a node
    than it has CPUs, it runs on and holds none.

    Args:
        run: changed in place; `run_time` of the running jobs is all that they will have run. Usage
            is the caller's.
        now: seconds.
        running: jobs that run, in the order of their starts, shape [r].
        start: when each of them started, seconds, at most `now`, shape [r].
        held: where they are; None where that is not known of any.
        looks: when slurmctld looked last, as `SlurmPasses.last`; None where that is not known: then
            it looks at once.
    """
    held = no_nodes_known(len(running)) if held is None else held
    _take_up(run.workload, run.cluster, run.machine, run.rank, now, running, start, held)
    if run.passes is not None:
        run.passes.last[:] = (-np.inf, -np.inf, now) if looks is None else looks
    elif next_event(run.workload, run.cluster) > now:
        run.order_anew()
        run.decide()
