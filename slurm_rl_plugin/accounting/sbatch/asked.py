"""What the options of an `sbatch` line ask of nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from slurm_rl_plugin.accounting.slurm.options import asked_count, asked_processors
from slurm_rl_plugin.accounting.slurm.resources import (
    parse_gpus,
    parse_gres,
    parse_licences,
    parse_memory,
    requested,
)

_Value = TypeVar("_Value")
_NONE: dict[str, float] = {}
#: Nodes are shared with other jobs, though of few.
_SHARED = frozenset({"user", "mcs"})


class Asked(NamedTuple):
    """What one job asks for; see `domain.resources.ResourceRequests`.

    Attributes:
        processors: CPUs of all tasks.
        amounts: of the whole job, by name; memory in MiB.
    """

    processors: int
    amounts: dict[str, float]
    nodes: int
    cpus_per_task: int
    memory_per_cpu: bool
    exclusive: bool
    constraint: str


def asked_of(options: Mapping[str, str]) -> Asked:
    """What a job asks for, of options by their long names.

    Raises:
        ValueError: says which option is not understood.
    """
    processors = asked_processors(options)
    nodes = _nodes(options, processors)
    gpus = _gpus(options, nodes, processors)
    tres = {"cpu": float(processors), "mem": _memory(options, nodes, processors, gpus)}
    tres |= gpus
    tres |= _read(options, "licenses", parse_licences, _NONE)
    exclusive = "exclusive" in options and options["exclusive"] not in _SHARED
    # that much of a node is all that it has
    exclusive |= any(options.get(name) == "0" for name in ("mem", "mem-per-cpu"))
    return Asked(
        processors=processors,
        amounts=requested(tres),
        nodes=nodes,
        cpus_per_task=asked_count(options, "cpus-per-task"),
        memory_per_cpu=_memory_goes_with_cpus(options, nodes),
        exclusive=exclusive,
        constraint=options.get("constraint", ""),
    )


def _nodes(options: Mapping[str, str], processors: int) -> int:
    """Nodes that a job asks for, 0 for as few as hold it; no more than it has tasks."""
    tasks = processors // asked_count(options, "cpus-per-task")
    if "nodes" in options:
        return min(asked_count(options, "nodes"), tasks)
    if "ntasks-per-node" in options:
        return math.ceil(tasks / asked_count(options, "ntasks-per-node"))
    return 0


def _memory(
    options: Mapping[str, str], nodes: int, processors: int, gpus: Mapping[str, float]
) -> float:
    """MiB of the whole job, 0 where none is asked for."""
    by_cpu = _read(options, "mem-per-cpu", parse_memory, 0.0)
    by_node = _read(options, "mem", parse_memory, 0.0)
    by_gpu = _read(options, "mem-per-gpu", parse_memory, 0.0)
    if "mem-per-cpu" in options:
        return by_cpu * processors
    if "mem" in options:
        return by_node * max(nodes, 1)
    return by_gpu * gpus.get("gres/gpu", 0.0)


def _memory_goes_with_cpus(options: Mapping[str, str], nodes: int) -> bool:
    """Whether memory is where the CPUs are; else each node gives an equal part.

    What goes with GPUs is where these are: on as few nodes as hold the job, so on those of its
    CPUs.
    """
    if "mem-per-cpu" in options:
        return True
    return "mem" not in options and "mem-per-gpu" in options and nodes == 0


def _gpus(options: Mapping[str, str], nodes: int, processors: int) -> dict[str, float]:
    """Generic resources of the whole job, by Slurm's names; of two words for one the larger."""
    tasks = processors // asked_count(options, "cpus-per-task")
    found: dict[str, float] = {}
    for name, parse, times in (
        ("gres", parse_gres, max(nodes, 1)),
        ("gpus-per-node", parse_gpus, max(nodes, 1)),
        ("gpus-per-task", parse_gpus, tasks),
        ("gpus", parse_gpus, 1),
    ):
        for each, count in _read(options, name, parse, _NONE).items():
            found[each] = max(found.get(each, 0.0), times * count)
    return found


def _read(
    options: Mapping[str, str], name: str, parse: Callable[[str], _Value], default: _Value
) -> _Value:
    if not options.get(name):
        return default
    try:
        return parse(options[name])
    except ValueError as error:
        raise ValueError(f"--{name} {error}.") from None
