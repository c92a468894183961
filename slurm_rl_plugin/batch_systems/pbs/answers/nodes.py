"""What `pbsnodes -a -F json` says: what jobs can use, and what they have of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from slurm_rl_plugin.batch_systems.pbs.answers.fields import parse_count, text
from slurm_rl_plugin.batch_systems.pbs.process import section
from slurm_rl_plugin.domain.nodes import NodeNow
from slurm_rl_plugin.domain.resources import CPUS, GPUS, MEMORY

PBSNODES = ("pbsnodes", "-a", "-F", "json")
QSTAT_QUEUES = ("qstat", "-Q", "-f", "-F", "json")
_SIZE = re.compile(r"(\d{1,18})([kmgtp]?)([bw]?)", re.ASCII | re.IGNORECASE)
_IN_MIB = {"": 2.0**-20, "k": 2.0**-10, "m": 1.0, "g": 2.0**10, "t": 2.0**20, "p": 2.0**30}
_BYTES_OF_A_WORD = 8
#: A node in one of these states takes no new job; jobs that run there may end.
_OUT_OF_USE = frozenset(
    {
        "down",
        "offline",
        "unknown",
        "state-unknown",
        "stale",
        "provisioning",
        "wait-provisioning",
        "unresolvable",
        "maintenance",
        "sleep",
    }
)


def parse_capacity(document: Mapping[str, Any]) -> int:
    """Usable processors: of nodes out of use only those that a job still has."""
    return sum(_usable(node) for node in section(document, "nodes").values())


def _usable(node: Mapping[str, Any]) -> int:
    available, assigned = node.get("resources_available"), node.get("resources_assigned")
    told = assigned if is_out_of_use(node) else available
    return parse_count(told.get("ncpus")) if isinstance(told, dict) else 0


def is_out_of_use(node: Mapping[str, Any]) -> bool:
    """Whether a node takes no new job now."""
    states = {word.strip() for word in text(node.get("state")).split(",")}
    return bool(states & _OUT_OF_USE)


def parse_nodes(document: Mapping[str, Any]) -> list[NodeNow]:
    """Each node of this moment; one that names no queue serves those that no node names."""
    return [_node(name, values) for name, values in section(document, "nodes").items()]


def _node(name: str, values: Mapping[str, Any]) -> NodeNow:
    queue = text(values.get("queue"))
    return NodeNow(
        name=name,
        partitions=frozenset({queue}) if queue else frozenset(),
        serves=not is_out_of_use(values),
        has=amounts_of(values.get("resources_available")),
        taken=amounts_of(values.get("resources_assigned")),
    )


def amounts_of(resources: Any) -> dict[str, float]:
    """Amounts of the resources that are counted here, memory in MiB; 0 for what is not told."""
    told = resources if isinstance(resources, dict) else {}
    return {
        CPUS: float(parse_count(told.get("ncpus"))),
        MEMORY: _mebibytes(text(told.get("mem"))),
        GPUS: float(parse_count(told.get("ngpus"))),
    }


def _mebibytes(size: str) -> float:
    """MiB of a size such as 4022272kb; 0 where it is none."""
    found = _SIZE.fullmatch(size)
    if found is None:
        return 0.0
    of_unit = _IN_MIB[found[2].lower()] * (_BYTES_OF_A_WORD if found[3].lower() == "w" else 1)
    return int(found[1]) * of_unit
