"""How far a pass of backfill has to look: behind the last job that may start now none matters.

A plan only keeps nodes from jobs behind it. So where none of these may start now whatever is
planned, the rest of the queue is not looked at, and the outcome is the same.
"""

from __future__ import annotations

from slurm_rl_plugin.simulator.kernel.cluster import NOW, RUNNING, Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.nodes.machine_now import MachineNow, find_room_now
from slurm_rl_plugin.simulator.nodes.node_bits import NodeBits, has, put_in
from slurm_rl_plugin.simulator.nodes.placement import find_room
from slurm_rl_plugin.simulator.nodes.slurmctld.backfill_passes import (
    BackfillPasses,
    forget_users,
    is_looked_at,
)
from slurm_rl_plugin.simulator.nodes.slurmctld.time_slots import close_planned
from slurm_rl_plugin.units import IntArray


@compiled_borrowing
def fill_looked_at(machine: MachineNow, passes: BackfillPasses, order: IntArray, count: int) -> int:
    """Fill `looked_at` with places of the order that the bound on users leaves; how many."""
    forget_users(passes)
    if machine.limits.groups.shape[1] > 0:  # who is over a limit does not count for his user
        for place in range(count):
            passes.looked_at[place] = place
        return count
    looked = 0
    for place in range(count):
        if is_looked_at(passes, order[place]):
            passes.looked_at[looked] = place
            looked += 1
    forget_users(passes)
    return min(looked, passes.most_jobs)


@compiled_borrowing
def find_late(cluster: Cluster, machine: MachineNow, passes: BackfillPasses) -> None:
    """Fill `late` with nodes of running jobs past their limit, which count as free."""
    for word in range(len(passes.late)):
        passes.late[word] = 0
    place = 0
    while place < cluster.counts[RUNNING] and cluster.expected_end[place] <= cluster.clock[NOW]:
        part = machine.nodes.first_part[cluster.expected_job[place]]
        while part >= 0:
            put_in(passes.late, machine.nodes.part_node[part])
            part = machine.nodes.part_next[part]
        place += 1


@compiled_borrowing
def _may_start(
    workload: Workload,
    cluster: Cluster,
    machine: MachineNow,
    passes: BackfillPasses,
    job: int,
    any_late: bool,
) -> bool:
    """Whether a job could start now beside what is planned so far, were it looked at next.

    What is planned only grows in a pass, and room only shrinks: who may not start now, later may
    neither. `open` becomes the nodes that this hangs on.
    """
    shape, template = machine.requests.shape[job], passes.template[job]
    now, requests = cluster.clock[NOW], machine.requests
    may = passes.earliest[template, 1] != passes.passes[0] or passes.earliest[template, 0] <= now
    may = may and (find_room_now(machine, shape) > 0 or any_late)
    if may:
        serves, closed = requests.serves[requests.pool[shape]], passes.slots.closed
        close_planned(passes.slots, serves, now, now + workload.estimate[job])
        single = requests.most[shape] == 1
        may = not single and find_room(requests, machine.nodes, shape, closed) > 0
        for word in range(len(closed)):
            open_nodes = passes.late[word]
            open_nodes |= machine.nodes.room.fits[shape, word] if single else serves[word]
            passes.open[word] = open_nodes & ~closed[word]
            may = may or ((single or any_late) and passes.open[word] != 0)
    if not may:
        passes.hopeless[template] = passes.passes[0]
    return may


@compiled_borrowing
def hope_again(passes: BackfillPasses) -> None:
    """Any template may start again: room has grown within the pass."""
    for template in range(len(passes.hopeless)):
        passes.hopeless[template] = 0


@compiled_borrowing
def takes_open(open_nodes: NodeBits, chosen: IntArray, count: int) -> bool:
    """Whether any of the first `count` of `chosen` is open."""
    found = False
    for place in range(count):
        found = found or has(open_nodes, chosen[place])
    return found


@compiled_borrowing
def last_that_may(
    workload: Workload,
    cluster: Cluster,
    machine: MachineNow,
    passes: BackfillPasses,
    order: IntArray,
    looked: int,
) -> int:
    """How many of the first `looked` places matter: up to the last job that may start now."""
    any_late = False
    for word in passes.late:
        any_late = any_late or word != 0
    while looked > 0:
        job = order[passes.looked_at[looked - 1]]
        hopeless = passes.hopeless[passes.template[job]] == passes.passes[0]
        # a call passes every array of the machine: none for who is known to be hopeless
        if not hopeless and _may_start(workload, cluster, machine, passes, job, any_late):
            return looked
        looked -= 1
    return 0
