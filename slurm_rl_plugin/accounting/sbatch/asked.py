"""What the options of an `sbatch` line ask of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from slurm_rl_plugin.accounting.slurm.options import NO_TRES, AskedCounts, amount_of, asked_counts
from slurm_rl_plugin.accounting.slurm.resources import parse_licences, parse_memory, requested

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
    counts = asked_counts(options)
    gpus = counts.gres.get("gres/gpu", 0.0)
    tres = {"cpu": float(counts.processors), "mem": _memory(options, counts, gpus)}
    tres |= counts.gres
    tres |= amount_of(options, "licenses", parse_licences, NO_TRES)
    exclusive = "exclusive" in options and options["exclusive"] not in _SHARED
    # that much of a node is all that it has
    exclusive |= any(options.get(name) == "0" for name in ("mem", "mem-per-cpu"))
    return Asked(
        processors=counts.processors,
        amounts=requested(tres),
        nodes=counts.nodes,
        cpus_per_task=counts.cpus_per_task,
        memory_per_cpu=_memory_goes_with_cpus(options, counts.nodes),
        exclusive=exclusive,
        constraint=options.get("constraint", ""),
    )


def _memory(options: Mapping[str, str], counts: AskedCounts, gpus: float) -> float:
    """MiB of the whole job, 0 where none is asked for."""
    by_cpu = amount_of(options, "mem-per-cpu", parse_memory, 0.0)
    by_node = amount_of(options, "mem", parse_memory, 0.0)
    by_gpu = amount_of(options, "mem-per-gpu", parse_memory, 0.0)
    if "mem-per-cpu" in options:
        return by_cpu * counts.processors
    if "mem" in options:
        return by_node * max(counts.nodes, 1)
    return by_gpu * gpus


def _memory_goes_with_cpus(options: Mapping[str, str], nodes: int) -> bool:
    """Whether memory is where the CPUs are; else each node gives an equal part.

    What goes with GPUs is where these are: on as few nodes as hold the job, so on those of its
    CPUs.
    """
    if "mem-per-cpu" in options:
        return True
    return "mem" not in options and "mem-per-gpu" in options and nodes == 0
