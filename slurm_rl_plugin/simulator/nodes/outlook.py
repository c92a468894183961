"""What is free on each node at a later time, when running jobs have ended and others started."""

from __future__ import annotations

from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.simulator.nodes.machine_now import MachineNow
from slurm_rl_plugin.simulator.nodes.node_bits import has
from slurm_rl_plugin.simulator.nodes.node_state import taken
from slurm_rl_plugin.simulator.nodes.placement import usable_cpus


@compiled_borrowing
def count_as_ended(machine: MachineNow, job: int, shape: int) -> bool:
    """Count a running job as ended in the outlook; whether a node of this shape's pool gained."""
    requests, nodes, outlook = machine.requests, machine.nodes, machine.outlook
    own, part = requests.shape[job], nodes.first_part[job]
    gained = False
    while part >= 0:
        node = nodes.part_node[part]
        outlook.running[node] -= 1
        for resource in range(outlook.free.shape[1]):
            outlook.free[node, resource] += taken(requests, own, resource, nodes.part_cpus[part])
        if has(requests.serves[requests.pool[shape]], node):
            gained = (
                gained
                or usable_cpus(
                    requests, shape, outlook.free[node], nodes.whole[node], outlook.running[node]
                )
                > 0.0
            )
        part = nodes.part_next[part]
    return gained


@compiled_borrowing
def take_from_outlook(machine: MachineNow, shape: int, count: int) -> None:
    """Take the first `count` nodes of `chosen` out of what is free later."""
    requests, nodes, outlook = machine.requests, machine.nodes, machine.outlook
    for place in range(count):
        node, cpus = nodes.chosen[place], nodes.chosen_cpus[place]
        outlook.running[node] += 1
        for resource in range(outlook.free.shape[1]):
            outlook.free[node, resource] -= taken(requests, shape, resource, cpus)


@compiled_borrowing
def look_from_now(machine: MachineNow) -> None:
    """Make the outlook what is free now."""
    nodes, outlook = machine.nodes, machine.outlook
    for node in range(len(outlook.free)):
        outlook.running[node] = nodes.running[node]
        for resource in range(outlook.free.shape[1]):
            outlook.free[node, resource] = nodes.free[node, resource]
