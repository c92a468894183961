"""A pass of Slurm's backfill scheduler: every job in order starts now, or is planned for later.

As sched/backfill has it in the sources of Slurm 26.05. Not modelled: what a pass that takes long
does between its pauses.
"""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.simulator.kernel.cluster import NOW, Cluster, forget_started
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing, compiled_inline
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.simulator.nodes.group_limits import within_limits
from slurm_rl_plugin.simulator.nodes.machine_now import MachineNow, is_free_now, start_on_nodes
from slurm_rl_plugin.simulator.nodes.one_node_will_run import STARTS_NEVER, one_node_will_run
from slurm_rl_plugin.simulator.nodes.placement import choose_one
from slurm_rl_plugin.simulator.nodes.several_nodes_will_run import several_nodes_will_run
from slurm_rl_plugin.simulator.nodes.slurmctld.backfill_passes import (
    BackfillPasses,
    is_looked_at,
)
from slurm_rl_plugin.simulator.nodes.slurmctld.reach_of_pass import (
    fill_looked_at,
    find_late,
    hope_again,
    last_that_may,
    takes_open,
)
from slurm_rl_plugin.simulator.nodes.slurmctld.time_slots import (
    BEGIN,
    add_plan,
    clear_slots,
    close_planned,
    overlaps_plan,
)
from slurm_rl_plugin.units import IntArray


@compiled_inline
def _plan(
    workload: Workload, cluster: Cluster, machine: MachineNow, passes: BackfillPasses, job: int
) -> tuple[float, int]:
    """When a job may start beside what is planned, on how many of `chosen`; inf for not planned."""
    now, slots, shape = cluster.clock[NOW], passes.slots, machine.requests.shape[job]
    serves = machine.requests.serves[machine.requests.pool[shape]]
    window_end = slots.window[BEGIN] + passes.window
    limit, template = workload.estimate[job], passes.template[job]
    later = now
    if passes.earliest[template, 1] == passes.passes[0]:
        later = max(passes.earliest[template, 0], now)
    while True:
        begin = later
        if begin > window_end:
            return STARTS_NEVER, 0
        later = close_planned(slots, serves, begin, begin + limit)
        if machine.requests.most[shape] == 1:
            start, node = one_node_will_run(
                cluster, machine, passes.fitting, slots.closed, shape, begin, later
            )
            count = choose_one(machine.requests, machine.nodes, shape, node)
        else:
            start, count = several_nodes_will_run(
                cluster, machine, passes.fitting, slots.closed, shape, begin, later
            )
        if count > 0:
            start = max(start, begin)
            if start > now:
                first, last = _slot_times(passes, start, limit)
                if overlaps_plan(slots, first, last, machine.nodes.chosen, count):
                    later = start + (passes.resolution if start == begin else 0.0)
                    continue
            if later == 0.0 or start <= later:
                passes.earliest[template, 0] = begin
                passes.earliest[template, 1] = passes.passes[0]
                return start, count
        if later == 0.0:
            passes.earliest[template, 0] = np.inf
            passes.earliest[template, 1] = passes.passes[0]
            return STARTS_NEVER, 0


@compiled_inline
def _slot_times(passes: BackfillPasses, start: float, limit: float) -> tuple[float, float]:
    grain = passes.resolution
    first = np.floor(start / grain) * grain
    last = np.floor((start + limit + grain - 1.0) / grain) * grain
    return first, max(last, first + grain)


@compiled_borrowing
def backfill(
    workload: Workload,
    cluster: Cluster,
    machine: MachineNow,
    passes: BackfillPasses,
    order: IntArray,
    count: int,
) -> int:
    """One pass: start what may start now, and plan the others.

    Args:
        workload: the jobs; `estimate` is their time limit.
        cluster: changed in place.
        machine: changed in place.
        passes: how; its spaces are used.
        order: job numbers by priority.
        count: how many there are.

    Returns:
        How many jobs started.
    """
    now, grain = cluster.clock[NOW], passes.resolution
    begin = np.floor(now / grain) * grain
    clear_slots(passes.slots, begin, np.floor((now + passes.window) / grain) * grain)
    passes.passes[0] += 1
    passes.changes[0] += 1
    find_late(cluster, machine, passes)
    looked_at = fill_looked_at(machine, passes, order, count)
    looked = last_that_may(workload, cluster, machine, passes, order, looked_at)
    started = tested = 0
    for place in range(count):
        if looked == 0 or place > passes.looked_at[looked - 1] or tested >= passes.most_jobs:
            break
        job = order[place]
        if not within_limits(machine.limits, job) or not is_looked_at(passes, job):
            continue
        tested += 1
        if passes.unplanned[passes.template[job]] == passes.changes[0]:
            continue
        start, found = _plan(workload, cluster, machine, passes, job)
        if found > 0 and start <= now and is_free_now(machine, job, found):
            start_on_nodes(workload, cluster, machine, job, found)
            started += 1
            passes.changes[0] += 1
            if workload.estimate[job] <= 0.0:  # it counts as ended at once, and room has grown
                looked = looked_at
                find_late(cluster, machine, passes)
                hope_again(passes)
            looked = last_that_may(workload, cluster, machine, passes, order, looked)
        elif found > 0 and start <= now + passes.window:
            first, last = _slot_times(passes, start, workload.estimate[job])
            add_plan(passes.slots, first, last, machine.nodes.chosen, found)
            passes.changes[0] += 1
            if takes_open(passes.open, machine.nodes.chosen, found):
                looked = last_that_may(workload, cluster, machine, passes, order, looked)
        else:
            passes.unplanned[passes.template[job]] = passes.changes[0]
    if started:
        forget_started(cluster)
    return started
