"""Nodes as `sinfo` shows them: processors, memory and generic resources, and what jobs took."""

from __future__ import annotations

import re

from slurm_rl_plugin.batch_systems.slurm.answers.fields import SEPARATOR, parse_count
from slurm_rl_plugin.batch_systems.slurm.process import not_understood
from slurm_rl_plugin.domain.nodes import NodeNow
from slurm_rl_plugin.domain.resources import CPUS, MEMORY
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.machine_files.gres import gres_of
from slurm_rl_plugin.machine_files.values import Value

_FIELDS = (
    "NodeList",
    "PartitionName",
    "CPUsState",
    "Memory",
    "AllocMem",
    "Gres",
    "GresUsed",
    "Features",
)
_FORM = ",".join(f"{field}:{SEPARATOR}" for field in (*_FIELDS, "StateLong"))
SHOW_NODES_NOW = ("sinfo", "--noheader", "--all", "--Node", "-O", _FORM)
#: States in which a node takes no job, as `sinfo` counts processors.
_AWAY = re.compile(r"down|drain|fail|error|future|inval", re.IGNORECASE)


def parse_nodes(text: str, *, counts_memory: bool) -> list[NodeNow]:
    """Read the answer of SHOW_NODES_NOW, in which a node has a line for each of its partitions.

    Args:
        text: the answer.
        counts_memory: Slurm gives memory out as it does CPUs; else jobs share it uncounted.

    Raises:
        BatchSystemError: a line has another form.
    """
    lines: dict[str, list[str]] = {}
    partitions: dict[str, set[str]] = {}
    for line in text.splitlines():
        name, partition, *rest = line.split(SEPARATOR)[:-1] or [""]
        if len(rest) != len(_FIELDS) - 1:
            raise not_understood("sinfo", line)
        lines[name] = rest
        partitions.setdefault(name, set()).add(partition)
    return [
        _node(name, frozenset(partitions[name]), rest, counts_memory=counts_memory)
        for name, rest in lines.items()
    ]


def _node(
    name: str, partitions: frozenset[str], fields: list[str], *, counts_memory: bool
) -> NodeNow:
    cpus, memory, taken_memory, gres, taken_gres, features, state = fields
    try:
        taken, idle, _other, whole = (float(parse_count(part)) for part in cpus.split("/"))
        has = {CPUS: whole, **gres_of(Value(f"sinfo: node {name}", "Gres", gres))}
        in_use = {CPUS: taken, **gres_of(Value(f"sinfo: node {name}", "GresUsed", taken_gres))}
        if counts_memory:
            has[MEMORY] = float(memory)
            in_use[MEMORY] = float(taken_memory)
    except (ValueError, ConfigurationError) as error:
        raise not_understood("sinfo", SEPARATOR.join([name, *fields])) from error
    serves = _AWAY.match(state) is None
    if serves and not idle:  # nobody can get the memory and GPUs that are left there
        in_use = {resource: max(has[resource], in_use.get(resource, 0.0)) for resource in has}
    return NodeNow(
        name=name,
        partitions=partitions,
        serves=serves,
        has={resource: amount for resource, amount in has.items() if amount},
        taken={resource: amount for resource, amount in in_use.items() if amount},
        features=frozenset(features.split(",")) - {"", "(null)"},
    )
