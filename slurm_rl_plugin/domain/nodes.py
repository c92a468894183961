"""Nodes of this moment: what each has, what jobs took of it, and what the machine has together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slurm_rl_plugin.domain.jobs import RunningJobs
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, CPUS, ResourcesNow
from slurm_rl_plugin.errors import ConfigurationError

_WORD = re.compile(r"[^\s&|,()\[\]*]+")
_COUNT = re.compile(r"\*\d+")
_SIGNS = str.maketrans("[],", "()&", " ")
#: Words that a node has (1) or has not (0), joined; within parentheses, and all in all.
_JOINED = "[01](?:[&|][01])*"
_GROUP, _WHOLE = re.compile(rf"\(({_JOINED})\)"), re.compile(_JOINED)
#: Parentheses within each other at most.
_DEEPEST = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNow:
    """One node."""

    name: str  #: of the node
    partitions: frozenset[str]  #: that it serves; none where it serves all that no node names
    serves: bool  #: takes new jobs; not while it is down, drained or fails
    #: has, taken: amounts by the names of `domain.resources`; what is not there is 0.
    has: Mapping[str, float]
    taken: Mapping[str, float]
    features: frozenset[str] = frozenset()  #: that the site has given it

    @property
    def is_idle(self) -> bool:
        """Whether it could be given whole to a new job."""
        return self.serves and not any(self.taken.values())

    def free(self, resource: str) -> float:
        """What a new job could get of it; 0 where it takes none."""
        if not self.serves:
            return 0.0
        return max(self.has.get(resource, 0.0) - self.taken.get(resource, 0.0), 0.0)

    def usable(self, resource: str) -> float:
        """What jobs have of it or could get."""
        return self.has.get(resource, 0.0) if self.serves else self.taken.get(resource, 0.0)


def resources_now(nodes: Sequence[NodeNow]) -> ResourcesNow | None:
    """What nodes have and what of it is free by their own report; None for processors alone.

    Resources of a node that one job holds exclusively are not free, even if the job does not use
    them.
    """
    others = sorted({name for node in nodes for name in node.has} - set(BASIC_RESOURCES))
    names = (*BASIC_RESOURCES, *others)
    capacity = np.array([sum(node.usable(name) for node in nodes) for name in names])
    if not capacity[1:].any():
        return None
    beside = [sum(node.usable(CPUS) for node in nodes if node.usable(name)) for name in names]
    free = np.array([sum(node.free(name) for node in nodes) for name in names])
    return ResourcesNow(names=names, capacity=capacity, free=free, beside=np.array(beside))


def with_running(
    machine: ResourcesNow,
    running: RunningJobs,
    processors: int,
    withheld: Mapping[str, float] | None = None,
) -> ResourcesNow:
    """The same where the nodes were seen before: free is what no running job has."""
    capacity = machine.capacity.copy()
    taken = np.zeros(len(capacity))
    if running.jobs.requests is not None:
        taken = np.array([running.jobs.requests.of(name).sum() for name in machine.names])
    if withheld:
        taken += np.array([withheld.get(name, 0.0) for name in machine.names])
    place = machine.names.index(CPUS)
    capacity[place] = processors
    taken[place] = running.jobs.processors.sum()
    return replace(machine, capacity=capacity, free=np.maximum(capacity - taken, 0.0))


def most_free(nodes: Sequence[NodeNow], resource: str) -> float:
    """What is free of a resource on the node that has most of it free."""
    return max((node.free(resource) for node in nodes), default=0.0)


def meets(constraint: str, features: frozenset[str]) -> bool:
    """Whether a node of these features may serve a job of this constraint.

    `&` and `,` bind stronger than `|`, as in Slurm; a number of nodes (`rack1*2`) is left out, and
    brackets, which ask that all nodes meet the same one of several, count as parentheses. What
    cannot be read raises ConfigurationError.
    """
    words = _COUNT.sub("", constraint).translate(_SIGNS)
    text = _WORD.sub(lambda word: "01"[word[0] in features], words) or "1"
    for _ in range(_DEEPEST):  # users choose how long it is: no recursion
        text, groups = _GROUP.subn(lambda group: "01"[_holds(group[1])], text)
        if not groups:
            break
    if _WHOLE.fullmatch(text) is None:
        raise ConfigurationError(
            f"the constraint {constraint!r} is no expression over features: write it as "
            "`sbatch --constraint` takes it."
        )
    return _holds(text)


def _holds(joined: str) -> bool:
    return any("0" not in all_of for all_of in joined.split("|"))
