"""What `pbsnodes` says as JSON: what jobs can use, and what they have of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from slurm_rl_plugin.batch_systems.pbs.answers.fields import parse_count, text
from slurm_rl_plugin.batch_systems.pbs.process import section
from slurm_rl_plugin.domain.nodes import NodeNow
from slurm_rl_plugin.domain.resources import CPUS, GPUS, MEMORY

#: Hosts, each with what its vnodes have together.
PBSNODES = ("pbsnodes", "-a", "-F", "json")
#: Each vnode: only so is told which of a host's are out of use or taken whole.
VNODES_NOW = ("pbsnodes", "-a", "-v", "-F", "json")
QSTAT_QUEUES = ("qstat", "-Q", "-f", "-F", "json")
_SIZE = re.compile(r"(\d{1,18})([kmgtp]?)([bw]?)", re.ASCII | re.IGNORECASE)
_IN_MIB = {"": 2.0**-20, "k": 2.0**-10, "m": 1.0, "g": 2.0**10, "t": 2.0**20, "p": 2.0**30}
_BYTES_OF_A_WORD = 8
#: A node in one of these states takes no new job; jobs that run there may end. `busy` is one whose
#: load is above its max_load.
_OUT_OF_USE = frozenset(
    {
        "down",
        "offline",
        "busy",
        "initializing",
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
#: A job, or a reservation, has it for itself.
_TAKEN_WHOLE = frozenset({"job-exclusive", "resv-exclusive"})


def parse_capacity(document: Mapping[str, Any]) -> int:
    """Usable processors: of nodes out of use only those that a job still has."""
    return sum(_usable(node) for node in section(document, "nodes").values())


def _usable(node: Mapping[str, Any]) -> int:
    available, assigned = node.get("resources_available"), node.get("resources_assigned")
    told = assigned if is_out_of_use(node) else available
    return parse_count(told.get("ncpus")) if isinstance(told, dict) else 0


def is_out_of_use(node: Mapping[str, Any]) -> bool:
    """Whether a node takes no new job now."""
    return bool(_states(node) & _OUT_OF_USE)


def _states(node: Mapping[str, Any]) -> set[str]:
    """PBS writes all of them small but `Stale`."""
    return {word.strip().lower() for word in text(node.get("state")).split(",")}


def parse_nodes(document: Mapping[str, Any]) -> list[NodeNow]:
    """Each host of this moment; one that names no queue serves those that no host names.

    Vnodes of a host that serve the same queue count as one node: a chunk of a job may have parts of
    several (seen on 23.06).

    Args:
        document: the answer to VNODES_NOW.
    """
    hosts: dict[tuple[str, str], list[NodeNow]] = {}
    for name, values in section(document, "nodes").items():
        queue = text(values.get("queue"))
        resources = values.get("resources_available")
        host = text(resources.get("host")) if isinstance(resources, dict) else ""
        hosts.setdefault((host or name, queue), []).append(_vnode(host or name, queue, values))
    return [_host(vnodes) for vnodes in hosts.values()]


def _vnode(host: str, queue: str, values: Mapping[str, Any]) -> NodeNow:
    has = amounts_of(values.get("resources_available"))
    taken = amounts_of(values.get("resources_assigned"))
    return NodeNow(
        name=host,
        partitions=frozenset({queue}) if queue else frozenset(),
        serves=not is_out_of_use(values),
        has=has,
        taken=has if _states(values) & _TAKEN_WHOLE else taken,
    )


def _host(vnodes: Sequence[NodeNow]) -> NodeNow:
    """Vnodes together; those that are out of use count with what jobs still have there."""
    first = vnodes[0]
    if len(vnodes) == 1:
        return first
    serves = any(each.serves for each in vnodes)
    counts = NodeNow.usable if serves else (lambda each, name: each.has.get(name, 0.0))
    return NodeNow(
        name=first.name,
        partitions=first.partitions,
        serves=serves,
        has={name: sum(counts(each, name) for each in vnodes) for name in first.has},
        taken={name: sum(each.taken[name] for each in vnodes) for name in first.has},
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
