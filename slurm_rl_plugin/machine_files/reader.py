"""A machine from slurm.conf and other files in its folder, or from openb's list of nodes.

Columns of openb_node_list_*.csv as in cluster-trace-gpu-v2023/README.md of
github.com/alibaba/clusterdata: CPUs in thousandths, memory in MiB, type of GPUs.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from slurm_rl_plugin.domain.machine import Machine, MachinePartition, NodeKind
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, CPUS, GPUS, MEMORY
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.machine_files.database import (
    DatabaseEntry,
    database_of,
    enforced,
    files_beside,
    read_files,
)
from slurm_rl_plugin.machine_files.nodes import (
    MOST_OF_NODE,
    Counts,
    Node,
    ServedPartition,
    check_size,
    nodes_of,
    partitions_of,
    read_gres_conf,
    unserved,
)
from slurm_rl_plugin.machine_files.scheduling import (
    allocates_whole_nodes,
    backfill_of,
    licences_of,
    not_modelled,
    refused_parameters,
    selected,
    weights_of_priorities,
)
from slurm_rl_plugin.machine_files.statements import (
    Statements,
    Value,
    collect,
    compress,
    pairs_of,
    read_pairs,
)
from slurm_rl_plugin.whole_file import plain_file, read_whole


def names_of_resources(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Names of all resources of nodes, BASIC_RESOURCES first."""
    others = {name for node in nodes for name in node.counts} - set(BASIC_RESOURCES)
    return (*BASIC_RESOURCES, *sorted(others))


def kinds_of(
    nodes: Mapping[str, Node], partitions: Sequence[ServedPartition], resources: tuple[str, ...]
) -> tuple[tuple[NodeKind, ...], tuple[MachinePartition, ...]]:
    """Kinds of nodes, and partitions with the places of their kinds.

    A kind is a run of neighbours with equal resources, features, weight and partitions.
    """

    def traits(node: Node) -> tuple[tuple[float, ...], frozenset[str], int, tuple[int, ...]]:
        amounts = tuple(node.counts.get(name, 0.0) for name in resources)
        serves = tuple(at for at, each in enumerate(partitions) if node.name in each.nodes)
        return amounts, node.features, node.weight, serves

    kinds: list[NodeKind] = []
    members: list[list[int]] = [[] for _ in partitions]
    for (amounts, features, weight, serves), run in itertools.groupby(nodes.values(), traits):
        names = [node.name for node in run]
        for place in serves:
            members[place].append(len(kinds))
        kinds.append(
            NodeKind(
                name=compress(names),
                count=len(names),
                resources=amounts,
                features=features,
                weight=weight,
            )
        )
    served = zip(partitions, members, strict=True)
    return tuple(kinds), tuple(replace(each.partition, kinds=tuple(own)) for each, own in served)


COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_NAME = "openb"
#: Values for no type of GPU.
_NOTHING = ("", "nan")
_WHOLE = "jobs get whole CPUs and whole GPUs: parts that pods request are rounded up."


def is_node_list(path: Path) -> bool:
    """Whether a file begins with the columns of openb's list."""
    try:
        with plain_file(path) as file:
            first = file.readline(1000).decode("utf-8-sig", "replace")
            return first.strip().split(",")[: len(COLUMNS)] == list(COLUMNS)
    except OSError:
        return False  # reading it as a slurm.conf reports the error


def machine_of_node_list(path: Path) -> Machine:
    """The machine: one partition of all nodes; equal nodes are one kind.

    Equal nodes are neighbours, in the order of the first of each kind. The type of a node's GPUs is
    a feature.
    """
    nodes: dict[str, Node] = {}
    for name, node in _nodes(path):
        if node.name in nodes:
            raise name.fault("it has a line already; remove one")
        nodes[node.name] = node
    if not nodes:
        raise ConfigurationError(f"{path}: it lists no node; give the whole list.")
    grouped: dict[object, list[Node]] = {}
    for node in nodes.values():
        grouped.setdefault((tuple(node.counts.items()), node.features), []).append(node)
    nodes = {node.name: node for equal in grouped.values() for node in equal}
    check_size(nodes.values())
    resources = names_of_resources(nodes.values())
    whole = MachinePartition(name=_NAME, kinds=(), is_default=True)
    kinds, partitions = kinds_of(nodes, [ServedPartition(whole, frozenset(nodes))], resources)
    return Machine(
        name=_NAME,
        resources=resources,
        kinds=kinds,
        partitions=partitions,
        left_out=(f"{path.name}: {_WHOLE}",),
    )


def _nodes(path: Path) -> Iterator[tuple[Value, Node]]:
    try:
        text = read_whole(path).decode("utf-8-sig", "replace")
    except OSError as error:
        raise ConfigurationError(f"{path}: the list cannot be read ({error.strerror}).") from None
    rows = csv.DictReader(io.StringIO(text, newline=""))
    for row in rows:
        name, cpu_milli, memory, gpu, model = (
            Value(f"{path}:{rows.line_num}", key, (row[key] or "").strip()) for key in COLUMNS
        )
        if not name.text:
            raise name.fault("a node needs a name; write one")
        cpus = cpu_milli.number() // 1000
        if cpus == 0:
            raise cpu_milli.fault("write 1000 at least, one CPU")
        if cpus > MOST_OF_NODE:
            raise cpu_milli.fault(f"a node has {MOST_OF_NODE} CPUs at most; write fewer")
        counts = {CPUS: float(cpus), MEMORY: float(memory.number())}
        if gpus := gpu.number():
            counts[GPUS] = float(gpus)
        features = () if model.text.lower() in _NOTHING else (model.text,)
        yield name, Node(name.text, counts, frozenset(features), 1)


SLURM_CONF, GRES_CONF = "slurm.conf", "gres.conf"


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedCluster:
    """The configuration of a cluster, from which a machine is made."""

    said: Statements  #: of slurm.conf, or of a running Slurm
    gres_conf: Mapping[str, Counts] = field(default_factory=dict)  #: generic resources by node
    entries: Sequence[DatabaseEntry] = ()  #: of the accounting database

    @property
    def machine(self) -> Machine:
        """The machine of this cluster."""
        said, settings = self.said, self.said.settings
        nodes, away, of_nodes = nodes_of(said, self.gres_conf)
        partitions, of_partitions = partitions_of(said, nodes, away)
        left_out = [*said.notes, *of_nodes, *of_partitions]
        left_out += [*refused_parameters(settings), *not_modelled(settings)]
        if idle := unserved(nodes, partitions):
            left_out.append(f"{compress(idle)}: in no partition, so not part of the machine.")
        serving = {name: node for name, node in nodes.items() if name not in set(idle)}
        check_size(serving.values())
        resources = names_of_resources(serving.values())
        kinds, served = kinds_of(serving, partitions, resources)
        database = enforced(database_of(self.entries), settings, served)
        given = {each.name: getattr(database, each.name) for each in fields(database)}
        left_out += given.pop("left_out")
        return Machine(
            name=settings.text("clustername"),
            resources=resources,
            kinds=kinds,
            partitions=served,
            **given,
            licences=licences_of(settings),
            counts_memory=any(word.endswith("_memory") for word in selected(settings)),
            whole_nodes=allocates_whole_nodes(settings),
            backfill=backfill_of(settings),
            weights=weights_of_priorities(settings),
            left_out=tuple(dict.fromkeys(left_out)),
        )


def read_machine(path: Path) -> Machine:
    """The machine of a slurm.conf, with gres.conf and files of sacctmgr in its folder."""
    return machine_of_node_list(path) if is_node_list(path) else read_cluster(path).machine


def read_cluster(path: Path) -> DescribedCluster:
    """The cluster of slurm.conf, gres.conf and files of sacctmgr."""
    conf = path / SLURM_CONF if path.is_dir() else path
    notes: list[str] = []
    said = collect(read_pairs(conf, notes))
    gres_file = conf.parent / GRES_CONF
    cluster = said.settings.text("clustername")
    gres_conf = read_gres_conf(gres_file, notes, cluster) if gres_file.is_file() else {}
    return DescribedCluster(
        said=replace(said, notes=notes),
        gres_conf=gres_conf,
        entries=read_files(files_beside(conf.parent, cluster), cluster),
    )


_PLACE = "a cluster of equal processors"
#: Weights and fair share of `multifactor` in docs/research/definitions.md; else Slurm's defaults.
_LINES = (
    "ClusterName=processors SelectType=select/cons_tres SelectTypeParameters=CR_Core",
    "PriorityType=priority/multifactor",
    "PriorityWeightAge=1000 PriorityWeightFairshare=10000 PriorityWeightJobSize=1000",
    "PriorityFlags=NO_FAIR_TREE",
)


def plain_cluster(processors: int) -> DescribedCluster:
    """Nodes of one CPU each in one partition, with the weights of the rule `multifactor`."""
    lines = (
        *_LINES,
        f"NodeName=n[1-{processors}] CPUs=1 RealMemory=1",
        "PartitionName=all Nodes=ALL Default=YES",
    )
    return DescribedCluster(said=collect(pairs_of(line, _PLACE) for line in lines))
