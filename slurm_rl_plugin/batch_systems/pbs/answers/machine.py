"""The machine that a running OpenPBS has: vnodes by pbsnodes, queues by qstat."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from slurm_rl_plugin.accounting.pbs.fields import parse_duration
from slurm_rl_plugin.batch_systems.pbs.answers.fair_share_files import (
    FairShareFiles,
    read_fair_share,
)
from slurm_rl_plugin.batch_systems.pbs.answers.fields import parse_count, text
from slurm_rl_plugin.batch_systems.pbs.answers.nodes import (
    PBSNODES,
    QSTAT_QUEUES,
    amounts_of,
    is_out_of_use,
)
from slurm_rl_plugin.batch_systems.pbs.answers.server import QSTAT_SERVER, parse_server
from slurm_rl_plugin.batch_systems.pbs.process import not_understood, section
from slurm_rl_plugin.batch_systems.pbs.sort_formula import without_ours
from slurm_rl_plugin.domain.machine import Machine, MachinePartition, PriorityWeights
from slurm_rl_plugin.domain.site_priority import CLASSIC
from slurm_rl_plugin.domain.sort_formula import check_formula
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.machine_files.hostlists import compress
from slurm_rl_plugin.machine_files.kinds import kinds_of, resources_of
from slurm_rl_plugin.machine_files.nodes import Node
from slurm_rl_plugin.machine_files.partitions import ServedPartition

_NOT_READ = (
    "limits of queues and of the server and how pbs_sched plans are not read: jobs start as under "
    "Slurm's backfill, in one order for all queues."
)
#: Points of the best place in the order of `fair_share`: each rank is another whole number.
_FAIR_SHARE_POINTS = 1e6


def read_running_machine(
    read_json: Callable[[Sequence[str]], Mapping[str, Any]], folder: Path
) -> Machine:
    """Ask a running OpenPBS for its machine; vnodes that are out of use now are counted.

    Args:
        read_json: runs a command and gives the document that it prints.
        folder: `sched_priv`, whose files make fair share.

    Raises:
        BatchSystemUnavailable: no answer in time, or the server cannot be reached.
        BatchSystemError: an answer that cannot be understood.
    """
    nodes, queues, server = (read_json(each) for each in (PBSNODES, QSTAT_QUEUES, QSTAT_SERVER))
    formula, files = parse_server(server).formula, read_fair_share(folder)
    return with_order(parse_machine(nodes, queues), formula, files)


def with_order(machine: Machine, formula: str, files: FairShareFiles) -> Machine:
    """The machine whose jobs are sorted as pbs_sched does it: by formula, else by fair share.

    With a formula that replays cannot follow jobs go in the order of their submission.

    Args:
        machine: without an order.
        formula: job_sort_formula, of which the site's own terms count.
        files: what the scheduler's files say.
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
    """The machine of both answers.

    Raises:
        BatchSystemError: there is no node or no execution queue in them.
    """
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
