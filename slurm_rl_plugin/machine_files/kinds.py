"""Nodes that are alike as one kind, in the order in which Slurm numbers nodes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from slurm_rl_plugin.domain.machine import MachinePartition, NodeKind
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES
from slurm_rl_plugin.machine_files.hostlists import compress
from slurm_rl_plugin.machine_files.nodes import Node
from slurm_rl_plugin.machine_files.partitions import ServedPartition


def resources_of(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Names of all that nodes have, BASIC_RESOURCES first."""
    others = {name for node in nodes for name in node.counts} - set(BASIC_RESOURCES)
    return (*BASIC_RESOURCES, *sorted(others))


def kinds_of(
    nodes: Mapping[str, Node], partitions: Sequence[ServedPartition], resources: tuple[str, ...]
) -> tuple[tuple[NodeKind, ...], tuple[MachinePartition, ...]]:
    """Kinds, and partitions with the places of theirs.

    Neighbours with the same resources, features, weight and partitions are one kind; where others
    stand between, they are several.

    Args:
        nodes: in Slurm's order.
        partitions: with the names of their nodes.
        resources: names of what nodes have.
    """
    serves = {
        name: tuple(place for place, each in enumerate(partitions) if name in each.nodes)
        for name in nodes
    }

    def likeness(node: Node) -> tuple[object, ...]:
        amounts = tuple(node.counts.get(name, 0.0) for name in resources)
        return amounts, node.features, node.weight, serves[node.name]

    kinds: list[NodeKind] = []
    members: list[list[int]] = [[] for _ in partitions]
    for _, run in itertools.groupby(nodes.values(), likeness):
        alike = list(run)
        for place in serves[alike[0].name]:
            members[place].append(len(kinds))
        kinds.append(_kind(alike, resources))
    served = zip(partitions, members, strict=True)
    return tuple(kinds), tuple(replace(each.partition, kinds=tuple(own)) for each, own in served)


def _kind(alike: Sequence[Node], resources: tuple[str, ...]) -> NodeKind:
    first = alike[0]
    return NodeKind(
        name=compress(node.name for node in alike),
        count=len(alike),
        resources=tuple(first.counts.get(name, 0.0) for name in resources),
        features=first.features,
        weight=first.weight,
    )
