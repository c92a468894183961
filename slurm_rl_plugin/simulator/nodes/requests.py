"""What jobs ask of nodes, as the compiled loop takes it: one row for all jobs that ask alike."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.simulator.kernel.compilation import compiled_inline
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

NodeBits = NDArray[np.uint64]
_WORD = 64
_ONE = np.uint64(1)


def words(nodes: int) -> int:
    """How many words a set of so many nodes has."""
    return -(-nodes // _WORD)


def no_nodes(nodes: int) -> NodeBits:
    """The empty set, shape [words]."""
    return np.zeros(words(nodes), dtype=np.uint64)


def bits_of(rows: BoolArray) -> NodeBits:
    """Sets as words, shape [sets, words], from shape [sets, nodes]."""
    sets = np.zeros((len(rows), words(rows.shape[1])), dtype=np.uint64)
    for place, node in np.argwhere(rows):
        sets[place, node // _WORD] |= np.uint64(1 << (int(node) % _WORD))
    return sets


@compiled_inline
def has(bits: NodeBits, node: int) -> bool:
    """Whether a node is of a set."""
    return (bits[node >> 6] >> np.uint64(node & 63)) & _ONE == _ONE


@compiled_inline
def put_in(bits: NodeBits, node: int) -> None:
    """Put a node into a set."""
    bits[node >> 6] |= _ONE << np.uint64(node & 63)


@compiled_inline
def first_of(word: np.uint64) -> int:
    """Place of the lowest bit of a word that is not 0."""
    place = 0
    for width in (32, 16, 8, 4, 2, 1):
        if word & ((_ONE << np.uint64(width)) - _ONE) == 0:
            word >>= np.uint64(width)
            place += width
    return place


@compiled_inline
def take_out(bits: NodeBits, node: int) -> None:
    """Take a node out of a set."""
    bits[node >> 6] &= ~(_ONE << np.uint64(node & 63))


#: A job may be spread over so many nodes where it names no number.
ANY_NODES = 1 << 30
#: Column of CPUs in `NodeState.free`.
CPU = 0


class NodeRequests(NamedTuple):
    """Jobs that ask for the same, of the same nodes, are of one *shape*."""

    shape: IntArray  #: of each job, shape [n]
    #: fewest, most: nodes that it is spread over, at least and at most, shape [shapes].
    fewest: IntArray
    most: IntArray
    cpus: FloatArray  #: in all, the same
    task: FloatArray  #: CPUs that have to be on one node together, the same
    #: What each node gives whatever the CPUs there, shape [shapes, resources]; 0 in the column of
    #: CPUs.
    per_node: FloatArray
    per_cpu: FloatArray  #: what each node gives for each CPU there, the same
    whole: BoolArray  #: the nodes are its own while it runs, shape [shapes]
    pool: IntArray  #: index of the nodes that may serve it, shape [shapes]
    pool_first: IntArray  #: where each pool begins in `pool_node`, shape [pools + 1]
    pool_node: IntArray  #: the nodes of all pools, in the order of their numbers within each
    serves: NodeBits  #: the nodes of each pool as a set, shape [pools, words]

    def of_jobs(self, jobs: IntArray) -> NodeRequests:
        """Those of some of the jobs, of which some may come twice; the pools stay as they are."""
        chosen, shape = np.unique(self.shape[jobs], return_inverse=True)
        of_shapes = ("fewest", "most", "cpus", "task", "per_node", "per_cpu", "whole", "pool")
        rows = {name: getattr(self, name)[chosen] for name in of_shapes}
        return self._replace(shape=shape.reshape(-1).astype(np.int64), **rows)


def node_requests(
    *,
    nodes: IntArray,
    total: FloatArray,
    cpus_per_task: IntArray,
    memory_per_cpu: BoolArray,
    memory: int,
    whole: BoolArray,
    pool: IntArray,
    pools: list[IntArray],
    node_has: FloatArray,
) -> NodeRequests:
    """The requests of n jobs; jobs of one shape share a row.

    Args:
        nodes: how many each is spread over, shape [n]; 0 for as few as hold it.
        total: of each job, shape [n, resources], CPUs first.
        cpus_per_task: CPUs that go together, shape [n].
        memory_per_cpu: its memory goes with the CPUs, shape [n].
        memory: column of memory in `total`; -1 for none.
        whole: its nodes are its own, shape [n].
        pool: index into `pools`, shape [n].
        pools: numbers of the nodes that may serve, each in rising order.
        node_has: what each node has, shape [nodes, resources].
    """
    rows = np.column_stack([nodes, cpus_per_task, memory_per_cpu, whole, pool, total])
    chosen, shape = np.unique(rows, axis=0, return_inverse=True)
    count, task, with_cpus, alone, place = chosen[:, :5].T
    whole_job = chosen[:, 5:]
    named = np.maximum(count, 1.0)
    for row in np.flatnonzero(count == 0):
        has, by_cpu = node_has[pools[int(place[row])]], bool(with_cpus[row])
        count[row] = _nodes_of_equal_parts(whole_job[row], task[row], memory, by_cpu, has)
    fewest = np.maximum(count, 1.0)
    per_node = whole_job / fewest[:, None]
    per_node[:, CPU] = 0.0
    per_cpu = np.zeros_like(per_node)
    if memory >= 0:
        per_node[:, memory] = whole_job[:, memory] / named  # asked for by node: each gives it
        cpus = np.maximum(whole_job[:, CPU], 1.0)
        per_cpu[:, memory] = np.where(with_cpus > 0, whole_job[:, memory] / cpus, 0.0)
        per_node[with_cpus > 0, memory] = 0.0
    serves = np.zeros((len(pools), len(node_has)), dtype=np.bool_)
    for index, each in enumerate(pools):
        serves[index, each] = True
    return NodeRequests(
        shape=shape.reshape(-1).astype(np.int64),
        fewest=fewest.astype(np.int64),
        most=np.where(count > 0, count, ANY_NODES).astype(np.int64),
        cpus=np.maximum(whole_job[:, CPU], 1.0),
        task=np.minimum(np.maximum(task, 1.0), np.maximum(whole_job[:, CPU], 1.0)),
        per_node=np.ascontiguousarray(per_node),
        per_cpu=np.ascontiguousarray(per_cpu),
        whole=alone > 0,
        pool=place.astype(np.int64),
        pool_first=np.concatenate([[0], np.cumsum([len(each) for each in pools])]).astype(np.int64),
        pool_node=np.concatenate(pools).astype(np.int64),
        serves=bits_of(serves),
    )


def _nodes_of_equal_parts(
    total: FloatArray, task: float, memory: int, by_cpu: bool, has: FloatArray
) -> int:
    """The least number of nodes that hold a job in equal parts, where no node has its GPUs alone.

    Slurm spreads `--gpus=8` of a job that names no nodes over two nodes of four.

    Args:
        total: of the job, shape [resources].
        task: CPUs that have to be on one node together.
        memory: column of memory; -1 for none.
        by_cpu: its memory goes with the CPUs; else each node gives all of it.
        has: what each node that may serve has, shape [nodes, resources].

    Returns:
        0 where one node has what the job asks for beside CPUs and memory, or no number holds it.
    """
    beside = [column for column in range(len(total)) if column not in (CPU, memory)]
    if (has[:, beside] >= total[beside]).all(axis=1).any():
        return 0
    cpus, task = max(total[CPU], 1.0), max(task, 1.0)
    for nodes in range(2, int(min(len(has), cpus // task)) + 1):
        own = np.ceil(cpus / task / nodes) * task
        holds = (has[:, beside] * nodes >= total[beside]).all(axis=1) & (has[:, CPU] >= own)
        if memory >= 0:
            holds &= has[:, memory] >= (total[memory] / cpus * own if by_cpu else total[memory])
        if np.count_nonzero(holds) >= nodes:
            return nodes
    return 0
