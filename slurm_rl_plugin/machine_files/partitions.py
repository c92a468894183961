"""Partitions by their records: which nodes serve them, their tier, limits and defaults."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from slurm_rl_plugin.domain.machine import MachinePartition
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.machine_files.nodes import Node
from slurm_rl_plugin.machine_files.statements import ConfRecord, Statements
from slurm_rl_plugin.machine_files.values import (
    NOTHING,
    Value,
    not_modelled_of,
    weights_of,
)


@dataclass(frozen=True, slots=True)
class ServedPartition:
    """A partition without its kinds, and the names of the nodes that serve it."""

    partition: MachinePartition
    nodes: frozenset[str]


def partitions_of(
    said: Statements, nodes: Mapping[str, Node], away: Collection[str]
) -> tuple[list[ServedPartition], list[str]]:
    """Partitions in their order, and what is left out of them."""
    sets = {record.name.text: _set_members(record, nodes) for record in said.node_sets}
    found: dict[str, ServedPartition] = {}
    left_out: list[str] = []
    for record in said.partitions:
        name = record.name.text
        if name in found:
            left_out.append(f"{record.name.said}: named before, so this line has no effect.")
            continue
        served = _served(record, nodes, sets, away)
        found[name] = ServedPartition(_partition(record, said.settings), served)
        left_out += _not_modelled(record)
    if not found:
        raise ConfigurationError("there is no PartitionName line; give a whole slurm.conf")
    return list(found.values()), left_out


def _partition(record: ConfRecord, settings: Mapping[str, Value]) -> MachinePartition:
    keys = record.keys
    per_node, per_cpu = _default_memory(record.keys) or _default_memory(settings) or (0.0, 0.0)
    return MachinePartition(
        name=record.name.text,
        kinds=(),
        tier=_priority(record, "prioritytier"),
        priority_factor=_priority(record, "priorityjobfactor"),
        longest=_seconds(record, "maxtime"),
        default_time=_seconds(record, "defaulttime"),
        default_memory_per_cpu=per_cpu,
        default_memory_per_node=per_node,
        whole_nodes=_whole_nodes(record),
        widest=keys["maxnodes"].bound() if "maxnodes" in keys else math.inf,
        qos="" if record.text("qos").lower() in NOTHING else record.text("qos").lower(),
        is_default="default" in keys and keys["default"].truth(),
        billing=billing_weights(record),
    )


def billing_weights(record: ConfRecord) -> dict[str, float]:
    """TRESBillingWeights of a partition by resource; empty where it has none."""
    value = record.keys.get("tresbillingweights")
    return {} if value is None else weights_of(value)


def _priority(record: ConfRecord, key: str) -> int:
    """PriorityTier or PriorityJobFactor; the old Priority sets both, whatever they say."""
    return record.number("priority", record.number(key, 1))


def _seconds(record: ConfRecord, key: str) -> float:
    if key not in record.keys or record.text(key).lower() in NOTHING:
        return math.inf
    return record.keys[key].seconds()


def _default_memory(keys: Mapping[str, Value]) -> tuple[float, float] | None:
    """MiB for each node and each CPU, of which one is 0; None where neither is said."""
    for key, of_node in (("defmempernode", True), ("defmempercpu", False)):
        if key in keys and keys[key].text.lower() not in {"unlimited", *NOTHING}:
            memory = float(keys[key].number())
            return (memory, 0.0) if of_node else (0.0, memory)
    return None


def _whole_nodes(record: ConfRecord) -> bool:
    exclusive = record.text("exclusive").upper()
    if exclusive in ("NO", "NONE"):
        return False
    shared = record.text("oversubscribe").upper() == "EXCLUSIVE"
    return shared or exclusive in ("NODE", "TOPO") or _is_true(record, "exclusivetopo")


def _is_true(record: ConfRecord, key: str) -> bool:
    return key in record.keys and record.keys[key].truth()


def _set_members(record: ConfRecord, nodes: Mapping[str, Node]) -> list[str]:
    """Nodes of a NodeSet: those named, and those with any of its features."""
    named = record.keys["nodes"].names() if "nodes" in record.keys else []
    wanted = set(record.keys["features"].words) if "features" in record.keys else set()
    return named + [name for name, node in nodes.items() if wanted & node.features]


def _served(
    record: ConfRecord,
    nodes: Mapping[str, Node],
    sets: Mapping[str, list[str]],
    away: Collection[str],
) -> frozenset[str]:
    value = record.keys.get("nodes")
    if value is None or value.text.lower() in NOTHING:
        return frozenset()
    served: set[str] = set()
    for name in value.names():
        if name.upper() == "ALL":
            served.update(nodes)
        elif name in sets:
            served.update(sets[name])
        elif name in nodes or name in away:
            served.add(name)
        else:
            raise value.fault(
                f"no NodeName or NodeSet line has {name}; add one, or take it out here"
            )
    return frozenset(served.intersection(nodes))


def _not_modelled(record: ConfRecord) -> Iterator[str]:
    yield from not_modelled_of("partition", record.keys)
    name = record.name.text
    sharing = record.text("oversubscribe", "NO").upper()
    if sharing not in ("NO", "EXCLUSIVE", "YES:1", "FORCE:1"):
        yield f"partition {name}: OverSubscribe={sharing}: a CPU goes to one job at a time."
    if record.text("state", "UP").upper() != "UP":
        yield f"partition {name}: State={record.text('state')}: its jobs start as if it were UP."
    if _is_true(record, "exclusiveuser") or record.text("exclusive").upper() == "USER":
        yield f"partition {name}: ExclusiveUser: jobs of several users share its nodes."
    if _is_true(record, "exclusivetopo") or record.text("exclusive").upper() == "TOPO":
        yield f"partition {name}: ExclusiveTopo: jobs get whole nodes, but no whole segments."
    if _is_true(record, "lln"):
        yield f"partition {name}: LLN: nodes are not filled evenly."


def unserved(nodes: Mapping[str, Node], partitions: list[ServedPartition]) -> list[str]:
    """Names of nodes that serve no partition, so no job can have them."""
    served = frozenset[str]().union(*(each.nodes for each in partitions))
    return [name for name in nodes if name not in served]
