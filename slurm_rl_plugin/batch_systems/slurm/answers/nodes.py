"""The nodes in the words of `sinfo`: processors, memory, generic resources, and partitions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from slurm_rl_plugin.accounting.slurm.resources import parse_gres, requested
from slurm_rl_plugin.batch_systems.slurm.answers.fields import SEPARATOR, parse_count
from slurm_rl_plugin.batch_systems.slurm.process import not_understood

#: One line for each partition of a node: processors by state, the partition and its tier, memory in
#: MiB, generic resources.
SINFO = ("sinfo", "--noheader", "--all", "--Node", "-o", "%N|%C|%R|%p|%m|%G")
#: Which of its sockets a generic resource is bound to, as `gpu:a100:4(S:0,2)` tells.
_SOCKETS = re.compile(r"\([^)]*\)")


@dataclass(frozen=True, slots=True)
class NodeNow:
    """What a node has, and how many of its processors are of use now.

    Attributes:
        allocated, idle, other, total: processors; `other` are down or drained.
        memory: MiB, what is kept for the system included.
        gres: generic resources by the names of `domain.resources`.
    """

    allocated: int
    idle: int
    other: int
    total: int
    memory: float
    gres: dict[str, float]

    @property
    def usable(self) -> float:
        """The part of it that jobs may use or still use, by its processors."""
        return (self.allocated + self.idle) / self.total if self.total else 0.0


def parse_nodes(text: str) -> list[NodeNow]:
    """Each node once, from the answer of SINFO.

    Raises:
        BatchSystemError: a line has another form.
    """
    nodes: dict[str, NodeNow] = {}
    for line, (name, counts, _partition, _tier, memory, gres) in _lines(text):
        if name not in nodes:
            try:
                processors = (parse_count(part) for part in counts.split("/"))
                allocated, idle, other, total = processors
                has = float(parse_count(memory.rstrip("+")))
            except ValueError as error:
                raise not_understood("sinfo", line) from error
            nodes[name] = NodeNow(allocated, idle, other, total, has, _gres(gres))
    return list(nodes.values())


def usable_processors(nodes: Sequence[NodeNow]) -> int:
    """Processors that jobs use or may use: those of nodes that are down or drained are not."""
    return sum(node.allocated + node.idle for node in nodes)


def parse_capacity(text: str) -> int:
    """Usable processors from the answer of SINFO; raises as `parse_nodes` does."""
    return usable_processors(parse_nodes(text))


def parse_all_processors(text: str) -> int:
    """All processors from the same answer, those of nodes that are down or drained included.

    Raises:
        BatchSystemError: a line has another form.
    """
    return sum(node.total for node in parse_nodes(text))


def parse_tiers(text: str) -> dict[str, int]:
    """Partition -> its PriorityTier, from the same answer; those without nodes are not in it.

    Raises:
        BatchSystemError: a line has another form.
    """
    tiers: dict[str, int] = {}
    for line, (_name, _counts, partition, tier, *_rest) in _lines(text):
        try:
            tiers[partition] = int(tier)
        except ValueError as error:
            raise not_understood("sinfo", line) from error
    return tiers


def _lines(text: str) -> Iterator[tuple[str, list[str]]]:
    for line in text.splitlines():
        fields = line.split(SEPARATOR)
        if len(fields) != 6:
            raise not_understood("sinfo", line)
        yield line, fields


@lru_cache(maxsize=1000)  # nodes of one kind say the same
def _gres(text: str) -> dict[str, float]:
    """Amounts by resource; what is not consumed or written in another way is left out."""
    found: dict[str, float] = {}
    for part in _SOCKETS.sub("", text).split(","):
        if ":no_consume" in part:
            continue
        with suppress(ValueError):
            for name, amount in requested(parse_gres(part)).items():
                found[name] = found.get(name, 0.0) + amount
    return found
