"""What jobs ask of a machine's nodes: CPUs, memory, GPUs and what else the site counts, as columns.

A job of processors alone has no such columns; it asks for CPUs wherever they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np

from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: Columns that every machine has, in this order; memory in MiB, GPUs of all types together. What
#: follows is named as Slurm names it: "gres/gpu:a100", "license/matlab".
CPUS, MEMORY, GPUS = "cpus", "memory", "gpus"
BASIC_RESOURCES = (CPUS, MEMORY, GPUS)
LICENCE_PREFIX = "license/"


class Rows:
    """A frozen dataclass of columns that is cut and joined by rows, all columns together."""

    __slots__ = ()

    def select(self, index: IntArray | BoolArray) -> Self:
        """The rows named by an index or boolean array, in that order."""
        table: Any = self
        columns = {each.name: getattr(self, each.name) for each in fields(table)}
        chosen: dict[str, Any] = {
            name: value.select(index) if isinstance(value, Rows) else value[index]
            for name, value in columns.items()
            if isinstance(value, Rows | np.ndarray)
        }
        cut: Self = replace(table, **chosen)
        return cut

    def joined(self, *later: Self) -> Self:
        """These rows and those of other tables behind them; without columns that any lacks."""
        table: Any = self
        columns: dict[str, Any] = {}
        for each in fields(table):
            one, *others = (getattr(part, each.name) for part in (self, *later))
            if isinstance(one, Rows | np.ndarray) and any(other is None for other in others):
                columns[each.name] = None
            elif isinstance(one, Rows):
                columns[each.name] = one.joined(*others)
            elif isinstance(one, np.ndarray):
                columns[each.name] = np.concatenate([one, *others])
        whole: Self = replace(table, **columns)
        return whole


def numbers_in(known: list[str], names: Sequence[str], numbers: IntArray) -> IntArray:
    """Numbers of names as numbers in a list of known ones, which grows; -1 stays, shape [n]."""
    place = {name: number for number, name in enumerate(known)}
    for name in names:
        if name not in place:
            place[name] = len(known)
            known.append(name)
    table = np.array([place[name] for name in names] or [-1], dtype=np.int64)
    return np.where(numbers < 0, -1, table[np.maximum(numbers, 0)])


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRequests(Rows):
    """What n jobs ask of nodes; every column has shape [n] but `total`, [n, resources]."""

    names: tuple[str, ...]  #: of the columns of `total`: BASIC_RESOURCES, then others
    #: Of the whole job, float64; memory in MiB, 0 where none was asked for: who prepares a workload
    #: gives such a job what the machine's partition gives by default.
    total: FloatArray
    #: Nodes that it is spread over: those asked for, else those got, or 0: as few as hold it.
    nodes: IntArray
    cpus_per_task: IntArray  #: CPUs that must be on one node together, > 0
    memory_per_cpu: BoolArray  #: memory goes with the CPUs of each node, or in equal parts
    exclusive: BoolArray  #: it wants its nodes for itself
    constraint: IntArray  #: index into `constraints`
    #: Expressions over node features, as `sbatch --constraint` takes them; "" for any node.
    constraints: tuple[str, ...] = ("",)

    def __len__(self) -> int:
        return len(self.nodes)

    def of(self, name: str) -> FloatArray:
        """One column of `total`, shape [n]; zeros where no job is counted by that name."""
        if name not in self.names:
            return np.zeros(len(self))
        return self.total[:, self.names.index(name)]

    def joined(self, *later: Self) -> Self:
        """These requests and others behind them, by the names of all."""
        parts = (self, *later)
        names = tuple(dict.fromkeys(name for each in parts for name in each.names))
        known: list[str] = []
        alike = [
            replace(
                each,
                names=names,
                total=np.column_stack([each.of(name) for name in names]),
                constraint=numbers_in(known, each.constraints, each.constraint),
            )
            for each in parts
        ]
        return replace(Rows.joined(*alike), constraints=tuple(known))

    @classmethod
    def of_totals(
        cls, total: FloatArray, *, names: tuple[str, ...] = BASIC_RESOURCES, nodes: IntArray
    ) -> Self:
        """Requests known by totals and nodes alone: plain jobs without a constraint.

        `total` has shape [n, resources], `nodes` [n], 0 for as few as hold the job.
        """
        count = len(nodes)
        return cls(
            names=names,
            total=total,
            nodes=nodes,
            cpus_per_task=np.ones(count, dtype=np.int64),
            memory_per_cpu=np.zeros(count, dtype=np.bool_),
            exclusive=np.zeros(count, dtype=np.bool_),
            constraint=np.zeros(count, dtype=np.int64),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcesNow:
    """What the usable nodes of a machine have together, and what of it is free."""

    names: tuple[str, ...]  #: BASIC_RESOURCES, then others; memory in MiB
    capacity: FloatArray  #: of each, shape [resources]; 0 where the machine has none
    free: FloatArray  #: not taken by a job, shape [resources]; it may be on different nodes
    #: CPUs of the nodes that have any of each, shape [resources]; None if unknown.
    beside: FloatArray | None = None

    def of(self, name: str, amounts: FloatArray) -> float:
        """One of these amounts, `capacity` or `free`; 0 where the name is not among them."""
        return float(amounts[self.names.index(name)]) if name in self.names else 0.0


def shares_of_machine(
    processors: FloatArray | IntArray,
    requests: ResourceRequests | None,
    names: tuple[str, ...],
    machine: FloatArray,
) -> FloatArray:
    """The part of each resource of the machine that each job asks for, shape [n, resources].

    0 of what the machine has none of; arguments as of `weighed_processors`.
    """
    shares = np.zeros((len(processors), len(names)))
    for column, (name, whole) in enumerate(zip(names, machine.tolist(), strict=True)):
        if whole > 0.0 and name == CPUS:
            shares[:, column] = processors / whole
        elif whole > 0.0 and requests is not None:
            shares[:, column] = requests.of(name) / whole
    return shares


def weighed_processors(
    processors: FloatArray,
    requests: ResourceRequests | None,
    names: tuple[str, ...],
    machine: FloatArray,
    cpus_of_nodes: FloatArray | None = None,
) -> FloatArray:
    """Processors that jobs weigh: those asked for, more where another resource dominates; [n].

    By the dominant share, as in Dominant Resource Fairness (Ghodsi and others, NSDI 2011, section
    4): a job that asks for a quarter of the GPUs weighs as one that asks for a quarter of the
    processors of the nodes that have GPUs: so much of them others can hardly use. Jobs of
    processors alone weigh what they ask for, to the bit.

    `machine` is what all nodes have together of the resources of these names, CPUS among them;
    `cpus_of_nodes` CPUs of the nodes that have any of each, by default of all; [resources].
    """
    if requests is None:
        return processors
    if cpus_of_nodes is None:
        cpus_of_nodes = np.full(len(names), machine[names.index(CPUS)])
    weighed = processors
    for name, whole, cpus in zip(names, machine.tolist(), cpus_of_nodes.tolist(), strict=True):
        if name != CPUS and whole > 0.0:
            weighed = np.maximum(weighed, requests.of(name) * (cpus / whole))
    return weighed
