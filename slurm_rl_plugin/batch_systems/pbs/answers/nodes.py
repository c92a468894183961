"""What `pbsnodes -a -F json` says: the processors that jobs can use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurm_rl_plugin.batch_systems.pbs.answers.fields import parse_count, text
from slurm_rl_plugin.batch_systems.pbs.process import section

PBSNODES = ("pbsnodes", "-a", "-F", "json")
QSTAT_QUEUES = ("qstat", "-Q", "-f", "-F", "json")
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
