"""What nodes have free for one pending job."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from slurm_rl_plugin.batch_systems.port import BatchSystemKind
from slurm_rl_plugin.domain.nodes import NodeNow, meets, most_free
from slurm_rl_plugin.domain.resources import LICENCE_PREFIX
from slurm_rl_plugin.errors import ConfigurationError


class Requests(NamedTuple):
    """What the whole job asks for, memory in MiB; 0 is not looked for."""

    amounts: dict[str, float]
    nodes: int
    exclusive: bool = False
    constraint: str | None = None  #: over features of nodes


class ResourceRoom(NamedTuple):
    """One resource: what is asked of it, what is free, and on how many nodes there is enough."""

    asked: float
    on_each_node: float
    most_free: float
    free: float
    nodes_with_room: int


class LicenceRoom(NamedTuple):
    """Licences asked for, and free ones."""

    asked: float
    free: float


class Room(NamedTuple):
    """What of the request is free where; how often nodes alone could start it."""

    nodes: int
    nodes_with_room: int
    exclusive: bool
    constraint: str | None
    nodes_that_may: int
    idle_nodes: int
    resources: dict[str, ResourceRoom]
    licences: dict[str, LicenceRoom]


def kind_room(
    kind: BatchSystemKind, timeout: float, asked: Requests, partitions: str
) -> Room | None:
    """What nodes have now for a request; None if the batch system shows no nodes."""
    if kind.nodes is None:
        return None
    wants_licences = any(name.startswith(LICENCE_PREFIX) for name in asked.amounts)
    licences = kind.licences(timeout) if wants_licences and kind.licences else {}
    return room_of(kind.nodes(timeout), partitions.split(","), asked, licences)


def room_of(
    nodes: Sequence[NodeNow],
    partitions: Sequence[str],
    request: Requests,
    licences: Mapping[str, float],
) -> Room:
    """What nodes of these partitions, and licences, have for a request; 0 nodes count as one."""
    asked, exclusive, constraint = request.amounts, request.exclusive, request.constraint
    of_job = [each for each in nodes if each.partitions & set(partitions)]
    of_job = of_job or [each for each in nodes if not each.partitions]
    if constraint:
        of_job = [node for node in of_job if _meets(constraint, node)]
    could_be = [node for node in of_job if node.is_idle] if exclusive else of_job
    count = max(request.nodes, 1)
    each_node = {
        name: math.ceil(amount / count)
        for name, amount in asked.items()
        if amount > 0 and not name.startswith(LICENCE_PREFIX)
    }
    return Room(
        nodes=count,
        nodes_with_room=sum(
            all(node.free(name) >= amount for name, amount in each_node.items())
            for node in could_be
        ),
        exclusive=exclusive,
        constraint=constraint,
        nodes_that_may=len(of_job),
        idle_nodes=sum(node.is_idle for node in of_job),
        resources={
            name: ResourceRoom(
                asked=asked[name],
                on_each_node=amount,
                most_free=most_free(of_job, name),
                free=sum(node.free(name) for node in of_job),
                nodes_with_room=sum(node.free(name) >= amount for node in of_job),
            )
            for name, amount in each_node.items()
        },
        licences={
            name: LicenceRoom(asked=asked[name], free=free)
            for name, free in sorted(licences.items())
            if name in asked
        },
    )


def _meets(constraint: str, node: NodeNow) -> bool:
    """Whether a node has the features; so has any, where a constraint is not understood."""
    try:
        return meets(constraint, node.features)
    except ConfigurationError:
        return True
