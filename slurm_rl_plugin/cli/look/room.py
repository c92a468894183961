"""Whether nodes of this moment have room for what one job asks for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from slurm_rl_plugin.cli.tables import slurm_size
from slurm_rl_plugin.domain.nodes import NodeNow, most_free
from slurm_rl_plugin.domain.resources import CPUS, GPUS, LICENCE_PREFIX, MEMORY
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.simulator.workloads.node_constraints import kinds_that_meet

NONE_TOLD: Mapping[str, float] = MappingProxyType({})
#: How one and several of a resource are called.
_WORDS = {CPUS: ("processor", "processors"), GPUS: ("GPU", "GPUs")}


def amount_text(resource: str, amount: float) -> str:
    """An amount in words: `4 GPUs`, `16G of memory`, `2 gres/gpu:a100`."""
    if resource == MEMORY:
        return f"{slurm_size(amount)} of memory"
    one, several = _WORDS.get(resource, (resource, resource))
    return f"{amount:g} {one if amount == 1 else several}"


def room_of(
    nodes: Sequence[NodeNow],
    partitions: Sequence[str],
    asked: Mapping[str, float],
    count: int,
    *,
    exclusive: bool = False,
    constraint: str | None = None,
    licences: Mapping[str, float] = NONE_TOLD,
) -> dict[str, Any]:
    """What of the request is free where; how often nodes alone could start it.

    Args:
        nodes: all of the machine.
        partitions: that the job may start in.
        asked: of the whole job, by resource; what is 0 is not looked for.
        count: nodes that it is spread over; 0 counts as one.
        exclusive: it wants them for itself.
        constraint: over features of nodes; None for any node.
        licences: that are free, by resource.
    """
    of_job = [each for each in nodes if each.partitions & set(partitions)]
    of_job = of_job or [each for each in nodes if not each.partitions]
    if constraint:
        of_job = [node for node in of_job if _meets(constraint, node)]
    could_be = [node for node in of_job if node.is_idle] if exclusive else of_job
    count = max(count, 1)
    each_node = {
        name: math.ceil(amount / count)
        for name, amount in asked.items()
        if amount > 0 and not name.startswith(LICENCE_PREFIX)
    }
    return {
        "nodes": count,
        "nodes_with_room": sum(_fits(node, each_node) for node in could_be),
        "exclusive": exclusive,
        "constraint": constraint,
        "nodes_that_may": len(of_job),
        "idle_nodes": sum(node.is_idle for node in of_job),
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
        "licences": {
            name: {"asked": asked[name], "free": licences[name]}
            for name in sorted(asked.keys() & licences.keys())
        },
    }


def _meets(constraint: str, node: NodeNow) -> bool:
    """Whether a node has the features; so has any, where a constraint is not understood."""
    try:
        return kinds_that_meet(constraint, [node.features])[0]
    except ConfigurationError:
        return True


def _fits(node: NodeNow, amounts: Mapping[str, float]) -> bool:
    return all(node.free(name) >= amount for name, amount in amounts.items())


def room_sentences(room: Mapping[str, Any]) -> list[str]:
    """The same for people: what it waits for, of each resource of which too little is free."""
    count, licences = room["nodes"], [*_licences(room["licences"])]
    if room["constraint"] and room["nodes_that_may"] < count:
        return [*licences, _without(room)]
    if room["exclusive"] and room["idle_nodes"] < count:
        return [*licences, _not_idle(room)]
    scarce = [
        _scarce(name, found, count, room["constraint"])
        for name, found in room["resources"].items()
        if found["nodes_with_room"] < count
    ]
    if scarce or licences:
        return [*licences, *scarce]
    if room["nodes_with_room"] < count:
        return ["Each of these is free on enough nodes, but not together on enough of them."]
    return [
        f"{room['nodes_with_room']} of its nodes have room for it now: it waits for its turn, or "
        "for what the reason says."
    ]


def _licences(found: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    for name, amounts in found.items():
        asked, free = amounts["asked"], amounts["free"]
        if free < asked:
            what = "licence" if asked == 1 else "licences"
            verb = "is" if free == 1 else "are"
            named = name.removeprefix(LICENCE_PREFIX)
            yield f"It waits for {asked:g} {what} of {named}; {free:g} {verb} free."


def _with_features(constraint: str | None) -> str:
    return f" with {constraint}" if constraint else ""


def _without(room: Mapping[str, Any]) -> str:
    """Too few nodes of its partitions have the features at all."""
    count, some = room["nodes"], room["nodes_that_may"]
    what = "a node" if count == 1 else f"{count} nodes"
    there = f"{some or 'none'} of its partitions {'are' if some > 1 else 'is'} such"
    return f"It waits for {what}{_with_features(room['constraint'])}; {there}."


def _not_idle(room: Mapping[str, Any]) -> str:
    count, idle = room["nodes"], room["idle_nodes"]
    what = "a whole node" if count == 1 else f"{count} whole nodes"
    verb = "is" if idle == 1 else "are"
    of = f"of {room['nodes_that_may']} {idle} {verb} idle"
    return f"It waits for {what}{_with_features(room['constraint'])}; {of}."


def _scarce(name: str, found: Mapping[str, Any], count: int, constraint: str | None) -> str:
    each, best = found["on_each_node"], found["most_free"]
    spread = f" on each of {count} nodes" if count > 1 else " on a node" if constraint else ""
    spread += _with_features(constraint)
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
