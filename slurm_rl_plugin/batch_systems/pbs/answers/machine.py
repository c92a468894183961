"""The machine of a running OpenPBS: what `pbsnodes` says of its nodes, and `qstat` of queues."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from slurm_rl_plugin.accounting.pbs.records import parse_duration
from slurm_rl_plugin.batch_systems.pbs.answers.fair_share import (
    FairShareFiles,
    read_fair_share,
)
from slurm_rl_plugin.batch_systems.pbs.answers.fields import parse_count, text
from slurm_rl_plugin.batch_systems.pbs.answers.server import (
    QSTAT_SERVER,
    parse_server,
    without_ours,
)
from slurm_rl_plugin.batch_systems.pbs.process import QSTAT_QUEUES, not_understood, section
from slurm_rl_plugin.domain.machine import Machine, MachinePartition, PriorityWeights
from slurm_rl_plugin.domain.nodes import NodeNow
from slurm_rl_plugin.domain.resources import CPUS, GPUS, MEMORY
from slurm_rl_plugin.domain.site_priority import CLASSIC
from slurm_rl_plugin.domain.sort_formula import check_formula
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.machine_files.nodes import Node, ServedPartition
from slurm_rl_plugin.machine_files.reader import kinds_of, resources_of
from slurm_rl_plugin.machine_files.statements import compress

#: Hosts, each with what its vnodes have together.
PBSNODES = ("pbsnodes", "-a", "-F", "json")
#: Each vnode: only so is told which of a host's are out of use or taken whole.
VNODES_NOW = ("pbsnodes", "-a", "-v", "-F", "json")
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


_NOT_READ = (
    "limits of queues and of the server and how pbs_sched plans are not read: jobs start as under "
    "Slurm's backfill, in one order for all queues."
)
#: Points of the best place in the order of `fair_share`: each rank is another whole number.
_FAIR_SHARE_POINTS = 1e6


def read_running_machine(
    read_json: Callable[[Sequence[str]], Mapping[str, Any]], folder: Path
) -> Machine:
    """Ask a running OpenPBS for its machine; vnodes that are out of use now are counted."""
    nodes, queues, server = (read_json(each) for each in (PBSNODES, QSTAT_QUEUES, QSTAT_SERVER))
    formula, files = parse_server(server).formula, read_fair_share(folder)
    return with_order(parse_machine(nodes, queues), formula, files)


def with_order(machine: Machine, formula: str, files: FairShareFiles) -> Machine:
    """The machine whose jobs are sorted as pbs_sched does it: by formula, else by fair share.

    With a formula that replays cannot follow jobs go in the order of their submission.
    """
    notes = [*machine.left_out, *files.notes]
    weights = replace(
        machine.weights,
        half_life=files.decay_every * math.log(0.5) / math.log(files.decay_factor),
        decay_every=files.decay_every,
        decay_factor=files.decay_factor,
        period=0.0,
    )
    try:
        own = without_ours(formula)
        if own:
            check_formula(own)
    except ConfigurationError as error:
        notes.append(f"{error} Replays sort without it.")
    else:
        weights = _ordered(weights, own, files)
    return replace(
        machine,
        associations=files.associations,
        entity=files.entity,
        partitions=tuple(replace(each, billing=files.usage) for each in machine.partitions),
        weights=weights,
        left_out=tuple(notes),
    )


def _ordered(weights: PriorityWeights, formula: str, files: FairShareFiles) -> PriorityWeights:
    if not formula and files.sorts_by_usage:
        return replace(weights, fairshare=_FAIR_SHARE_POINTS)
    return replace(weights, formula=formula or files.sort_key, flags=frozenset({CLASSIC}))


def parse_machine(told_nodes: Mapping[str, Any], told_queues: Mapping[str, Any]) -> Machine:
    """The machine of both answers."""
    found = section(told_nodes, "nodes")
    queues = {
        name: values
        for name, values in section(told_queues, "Queue").items()
        if text(values.get("queue_type")).lower().startswith("e")
    }
    if not found or not queues:
        command = PBSNODES if not found else QSTAT_QUEUES
        raise not_understood(" ".join(command), str(told_queues if found else told_nodes))
    nodes = {name: _node(name, values) for name, values in found.items()}
    partitions = [_served(name, values, found) for name, values in queues.items()]
    resources = resources_of(nodes.values())
    kinds, served = kinds_of(nodes, partitions, resources)
    return Machine(
        name=text(told_nodes.get("pbs_server")),
        resources=resources,
        kinds=kinds,
        partitions=served,
        left_out=(_NOT_READ, *_notes(found, queues)),
    )


def _node(name: str, values: Mapping[str, Any]) -> Node:
    return Node(name, amounts_of(values.get("resources_available")), frozenset(), 1)


def _served(
    name: str, values: Mapping[str, Any], nodes: Mapping[str, Mapping[str, Any]]
) -> ServedPartition:
    """A queue; the vnodes that name it serve it alone, and a queue that none names has the rest."""
    own = frozenset(node for node, told in nodes.items() if text(told.get("queue")) == name)
    rest = frozenset(node for node, told in nodes.items() if not text(told.get("queue")))
    partition = MachinePartition(
        name=name,
        kinds=(),
        priority_factor=_priority(values),
        longest=_seconds(values, "resources_max"),
        default_time=_seconds(values, "resources_default"),
        widest=_widest(values),
    )
    return ServedPartition(partition, own or rest)


def _priority(values: Mapping[str, Any]) -> int:
    """`queue_priority` of formulas; 0 where none is set."""
    said = text(values.get("Priority"))
    return int(said) if re.fullmatch(r"-?\d{1,6}", said, re.ASCII) else 0


def _seconds(values: Mapping[str, Any], key: str) -> float:
    told = values.get(key)
    seconds = parse_duration(text(told.get("walltime"))) if isinstance(told, dict) else math.nan
    return math.inf if math.isnan(seconds) else seconds


def _widest(values: Mapping[str, Any]) -> float:
    told = values.get("resources_max")
    nodes = parse_count(told.get("nodect")) if isinstance(told, dict) else 0
    return float(nodes) if nodes else math.inf


def _notes(
    nodes: Mapping[str, Mapping[str, Any]], queues: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    if away := [name for name, values in nodes.items() if is_out_of_use(values)]:
        yield f"{compress(away)}: out of use now, and counted all the same."
    whole = [n for n, values in nodes.items() if "excl" in text(values.get("sharing")).lower()]
    if whole:
        yield f"{compress(whole)}: given out whole by its sharing; jobs share it here."
    for name, values in queues.items():
        if text(values.get("started")) == "False" or text(values.get("enabled")) == "False":
            yield f"queue {name}: stopped or closed now; its jobs start all the same."
