"""What a job asks nodes for, as `squeue` tells it; all releases from 22.05 on print these fields.

The total of what accounting tracks stands in `tres-alloc`, also of a job that waits. GPUs that
AccountingStorageTRES does not name, and types of GPUs, stand only in what the user wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.accounting.slurm.resources import (
    parse_gres,
    parse_licences,
    parse_memory,
    parse_tres,
    requested,
)
from slurm_rl_plugin.domain.resources import CPUS, ResourceRequests
from slurm_rl_plugin.units import IntArray

#: The last six are what the user wrote, a separator among it on any release. They stand behind all
#: other fields but the name, so that it shifts nothing but that job's own request and name.
REQUEST_FIELDS = (
    *("tres-alloc", "NumTasks", "cpus-per-task", "MinMemory", "OverSubscribe"),
    *("Sockets", "cpus-per-tres"),
    *("tres-per-job", "tres-per-node", "tres-per-socket", "tres-per-task", "Licenses", "Feature"),
)
#: Of these, what may hold `|` in its own right: `a100|v100` is a constraint.
ALTERNATIVES = frozenset({"Licenses", "Feature"})
#: What takes the place of OverSubscribe from 26.05 on, where that is NO for each job that shares as
#: jobs do unless they ask for more.
EXCLUSIVE = "Exclusive"
#: What a job has that wants its nodes for itself: NO of OverSubscribe, NODE of EXCLUSIVE, TOPO of
#: both. One that shares them with jobs of its user or label alone shares them here.
_ALONE = {"OverSubscribe": frozenset({"NO", "TOPO"}), EXCLUSIVE: frozenset({"NODE", "TOPO"})}
#: `gres:gpu:a100:2` of 22.05, `gres/gpu:a100:2` and `gres/gpu=2` of later releases.
_GRES = re.compile(r"gres[:/][\w.-]+(?:[:=][\w.-]+){0,2}", re.ASCII)
_COUNT = re.compile(r"\d{1,9}", re.ASCII)
_NONE = frozenset({"", "(null)", "N/A"})


class NodeRequest(NamedTuple):
    """What one job asks nodes for."""

    amounts: tuple[tuple[str, float], ...] = ()  #: of the whole job beside CPUs; sorted
    nodes: int = 0  #: 0 where none are told
    cpus_per_task: int = 1  #: > 0
    memory_per_cpu: bool = False  #: see `ResourceRequests`
    exclusive: bool = False  #: it wants its nodes for itself
    constraint: str = ""  #: over features of nodes, "" for any node


#: Of a job of which only processors are told.
PROCESSORS_ALONE = NodeRequest()


@lru_cache(maxsize=1 << 14)
def node_request(values: tuple[str, ...], alone: str = REQUEST_FIELDS[4]) -> NodeRequest:
    """Read the fields of REQUEST_FIELDS; what is not understood of them is left out."""
    total, tasks, cpus_per_task, memory, shares, sockets, _, *per, licences, constraint = values
    tres = parse_tres(total)
    nodes = int(tres.get("node", 0))
    amounts = requested(tres)
    amounts.pop(CPUS, None)
    of_nodes = max(nodes, 1)
    of_sockets = of_nodes * max(_number(sockets), 1)
    for text, times in zip(per, (1, of_nodes, of_sockets, max(_number(tasks), 1)), strict=True):
        for name, count in requested(parse_gres(",".join(_asked_gres(text)))).items():
            amounts[name] = max(amounts.get(name, 0.0), count * times)
    amounts |= _licences(licences)
    return NodeRequest(
        amounts=tuple(sorted(amounts.items())),
        nodes=nodes,
        cpus_per_task=max(_number(cpus_per_task), 1),
        memory_per_cpu=_goes_with_cpus(memory, tres, nodes),
        exclusive=shares in _ALONE[alone],
        constraint="" if constraint in _NONE else constraint,
    )


@lru_cache(maxsize=1 << 12)
def cpus_with_gpus(text: str, gpus: float) -> int:
    """CPUs that a job gets at least, which squeue counts only once it runs."""
    return int(gpus * parse_gres(",".join(_asked_gres(text))).get("gres/gpu", 0.0))


def _licences(text: str) -> dict[str, float]:
    """By name; none where any of several would do, as from 25.05 on."""
    try:
        return {} if text in _NONE or "|" in text else parse_licences(text)
    except ValueError:
        return {}


@lru_cache(maxsize=1 << 14)
def request_of_tres(text: str) -> NodeRequest:
    """The same from TRES alone, as accounting keeps them."""
    tres = parse_tres(text)
    amounts = requested(tres)
    amounts.pop(CPUS, None)
    return NodeRequest(tuple(sorted(amounts.items())), nodes=int(tres.get("node", 0)))


def _asked_gres(text: str) -> Iterator[str]:
    for part in text.split(","):
        if _GRES.fullmatch(part):
            yield part.replace("=", ":")


def _goes_with_cpus(least: str, tres: dict[str, float], nodes: int) -> bool:
    """Whether MinMemory is of each CPU: squeue does not say, but it makes up the total."""
    try:
        each = parse_memory(least)
    except ValueError:
        return False
    whole = tres.get("mem", 0.0)
    return abs(each * tres.get("cpu", 0.0) - whole) < abs(each * nodes - whole)


def _number(text: str) -> int:
    return int(text) if _COUNT.fullmatch(text) else 0


def together(parts: Sequence[NodeRequest | None]) -> NodeRequest | None:
    """What the components of a heterogeneous job ask for as one; None where any tells nothing.

    A constraint that not all of them have is none of the whole.
    """
    known = [part for part in parts if part is not None]
    if len(known) != len(parts) or not known:
        return None
    amounts: dict[str, float] = {}
    for part in known:
        for name, amount in part.amounts:
            amounts[name] = amounts.get(name, 0.0) + amount
    constraints = {part.constraint for part in known}
    return known[0]._replace(
        amounts=tuple(sorted(amounts.items())),
        nodes=sum(part.nodes for part in known),
        constraint=constraints.pop() if len(constraints) == 1 else "",
    )


def request_columns(
    asked: Sequence[NodeRequest | None],
    processors: IntArray,
    names: tuple[str, ...],
    uncounted: tuple[str, ...] = (),
) -> ResourceRequests | None:
    """What jobs ask for as columns; None where the machine has nothing but processors."""
    if not names:
        return None
    places: dict[int, int] = {}  # by identity: rows share their requests, and to compare is slow
    index = [places.setdefault(id(each), len(places)) for each in asked]
    distinct = [PROCESSORS_ALONE] * len(places)
    for each, found in zip(asked, index, strict=True):
        distinct[found] = each or PROCESSORS_ALONE
    place = np.array(index, dtype=np.int64)
    amounts = np.zeros((len(distinct), len(names)))
    for row, request in zip(amounts, distinct, strict=True):
        told = dict(request.amounts)
        row[:] = [0.0 if name in uncounted else told.get(name, 0.0) for name in names]
    total = amounts[place]
    total[:, names.index(CPUS)] = processors
    constraints: dict[str, int] = {"": 0}
    wanted = [constraints.setdefault(each.constraint, len(constraints)) for each in distinct]
    return ResourceRequests(
        names=names,
        total=total,
        nodes=np.array([each.nodes for each in distinct], dtype=np.int64)[place],
        cpus_per_task=np.array([each.cpus_per_task for each in distinct], dtype=np.int64)[place],
        memory_per_cpu=np.array([each.memory_per_cpu for each in distinct], dtype=np.bool_)[place],
        exclusive=np.array([each.exclusive for each in distinct], dtype=np.bool_)[place],
        constraint=np.array(wanted, dtype=np.int64)[place],
        constraints=tuple(constraints),
    )
