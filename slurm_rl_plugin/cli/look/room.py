"""Whether nodes of this moment have room for what one job asks for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from slurm_rl_plugin.cli.tables import slurm_size
from slurm_rl_plugin.domain.nodes import NodeNow, most_free
from slurm_rl_plugin.domain.resources import CPUS, GPUS, MEMORY

#: How one and several of a resource are called.
_WORDS = {CPUS: ("processor", "processors"), GPUS: ("GPU", "GPUs")}


def amount_text(resource: str, amount: float) -> str:
    """An amount in words: `4 GPUs`, `16G of memory`, `2 gres/gpu:a100`."""
    if resource == MEMORY:
        return f"{slurm_size(amount)} of memory"
    one, several = _WORDS.get(resource, (resource, resource))
    return f"{amount:g} {one if amount == 1 else several}"


def room_of(
    nodes: Sequence[NodeNow], partitions: Sequence[str], asked: Mapping[str, float], count: int
) -> dict[str, Any]:
    """What of the request is free where; how often nodes alone could start it.

    Args:
        nodes: all of the machine.
        partitions: that the job may start in.
        asked: of the whole job, by resource; what is 0 is not looked for.
        count: nodes that it is spread over; 0 counts as one.
    """
    of_job = [each for each in nodes if each.partitions & set(partitions)]
    of_job = of_job or [each for each in nodes if not each.partitions]
    count = max(count, 1)
    each_node = {name: math.ceil(amount / count) for name, amount in asked.items() if amount > 0}
    return {
        "nodes": count,
        "nodes_with_room": sum(_fits(node, each_node) for node in of_job),
        "resources": {
            name: {
                "asked": asked[name],
                "on_each_node": amount,
                "most_free": most_free(of_job, name),
                "free": sum(node.free(name) for node in of_job),
                "nodes_with_room": sum(node.free(name) >= amount for node in of_job),
            }
            for name, amount in each_node.items()
        },
    }


def _fits(node: NodeNow, amounts: Mapping[str, float]) -> bool:
    return all(node.free(name) >= amount for name, amount in amounts.items())


def room_sentences(room: Mapping[str, Any]) -> list[str]:
    """The same for people: what it waits for, of each resource of which too little is free."""
    count = room["nodes"]
    scarce = [
        _scarce(name, found, count)
        for name, found in room["resources"].items()
        if found["nodes_with_room"] < count
    ]
    if scarce:
        return scarce
    if room["nodes_with_room"] < count:
        return ["Each of these is free on enough nodes, but not together on enough of them."]
    return [
        f"{room['nodes_with_room']} of its nodes have room for it now: it waits for its turn, or "
        "for what the reason says."
    ]


def _scarce(name: str, found: Mapping[str, Any], count: int) -> str:
    each, best = found["on_each_node"], found["most_free"]
    spread = f" on each of {count} nodes" if count > 1 else ""
    wanted = f"It waits for {amount_text(name, each)}{spread}"
    if not best:
        return f"{wanted}; none is free on any node."
    free = slurm_size(best) if name == MEMORY else f"{best:g}"
    if not found["nodes_with_room"]:
        verb = "is" if best == 1 or name == MEMORY else "are"
        most = slurm_size(each) if name == MEMORY else f"{each:g}"
        whole = slurm_size(found["free"]) if name == MEMORY else f"{found['free']:g}"
        return f"{wanted}; {free} {verb} free on one node, none has {most} ({whole} on all nodes)."
    verb = "has" if found["nodes_with_room"] == 1 else "have"
    return f"{wanted}; {found['nodes_with_room']} {verb} as many free."
