"""A machine from openb's list of nodes, a line each: sn, cpu_milli, memory_mib, gpu, model.

Columns of openb_node_list_*.csv as in cluster-trace-gpu-v2023/README.md of
github.com/alibaba/clusterdata: CPUs in thousandths, memory in MiB, type of GPUs.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path

from slurm_rl_plugin.domain.machine import Machine, MachinePartition
from slurm_rl_plugin.domain.resources import CPUS, GPUS, MEMORY
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.machine_files.kinds import kinds_of, resources_of
from slurm_rl_plugin.machine_files.nodes import MOST_OF_NODE, Node, check_size
from slurm_rl_plugin.machine_files.partitions import ServedPartition
from slurm_rl_plugin.whole_file import plain_file, read_whole

COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_NAME = "openb"
#: What stands for no type of GPU.
_NOTHING = ("", "nan")
_WHOLE = "jobs get whole CPUs and whole GPUs: parts that pods ask for are rounded up."


def is_node_list(path: Path) -> bool:
    """Whether a file begins with the columns of such a list."""
    try:
        with plain_file(path) as file:
            first = file.readline(1000).decode("utf-8-sig", "replace")
            return first.strip().split(",")[: len(COLUMNS)] == list(COLUMNS)
    except OSError:
        return False  # reading it tells why


def machine_of_node_list(path: Path) -> Machine:
    """The machine: one partition of all nodes; those that are alike are one kind.

    Nodes that are alike stand together, in the order in which the list first has one. The type of a
    node's GPUs is a feature.

    Raises:
        ConfigurationError: a line is not understood; says which, and the field.
    """
    nodes: dict[str, Node] = {}
    for line, node in _nodes(path):
        if node.name in nodes:
            raise _fault(path, line, "sn", node.name, "it has a line already; take one out")
        nodes[node.name] = node
    if not nodes:
        raise ConfigurationError(f"{path}: it lists no node; give the whole list.")
    grouped: dict[object, list[Node]] = {}
    for node in nodes.values():
        grouped.setdefault((tuple(node.counts.items()), node.features), []).append(node)
    nodes = {node.name: node for alike in grouped.values() for node in alike}
    check_size(nodes.values())
    resources = resources_of(nodes.values())
    whole = MachinePartition(name=_NAME, kinds=(), is_default=True)
    kinds, partitions = kinds_of(nodes, [ServedPartition(whole, frozenset(nodes))], resources)
    return Machine(
        name=_NAME,
        resources=resources,
        kinds=kinds,
        partitions=partitions,
        left_out=(f"{path.name}: {_WHOLE}",),
    )


def _nodes(path: Path) -> Iterator[tuple[int, Node]]:
    """Each node and its line."""
    try:
        text = read_whole(path).decode("utf-8-sig", "replace")
    except OSError as error:
        raise ConfigurationError(f"{path}: the list cannot be read ({error.strerror}).") from None
    rows = csv.DictReader(io.StringIO(text, newline=""))
    for row in rows:
        yield rows.line_num, _node(path, rows.line_num, row)


def _node(path: Path, line: int, row: Mapping[str, str | None]) -> Node:
    name, model = ((row[key] or "").strip() for key in ("sn", "model"))
    if not name:
        raise _fault(path, line, "sn", name, "a node needs a name; write one")
    cpus = _number(path, line, row, "cpu_milli") // 1000
    if cpus == 0:
        raise _fault(path, line, "cpu_milli", row["cpu_milli"], "write 1000 at least, one CPU")
    if cpus > MOST_OF_NODE:
        problem = f"a node has {MOST_OF_NODE} CPUs at most; write fewer"
        raise _fault(path, line, "cpu_milli", row["cpu_milli"], problem)
    gpus = _number(path, line, row, "gpu")
    counts = {CPUS: float(cpus), MEMORY: float(_number(path, line, row, "memory_mib"))}
    if gpus:
        counts[GPUS] = float(gpus)
    features = frozenset[str]() if model.lower() in _NOTHING else frozenset({model})
    return Node(name, counts, features, 1)


def _number(path: Path, line: int, row: Mapping[str, str | None], name: str) -> int:
    text = (row[name] or "").strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise _fault(path, line, name, text, "this is no whole number; write one, 0 or more")
    return int(text)


def _fault(path: Path, line: int, field: str, text: str | None, problem: str) -> ConfigurationError:
    return ConfigurationError(f"{path}:{line}: {field}={text}: {problem}.")
