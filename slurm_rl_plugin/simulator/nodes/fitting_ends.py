"""After whose end each node can give a job what it must, kept for the shapes looked at last.

A node is looked at again only when it has changed since its shape was last asked for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing, compiled_inline
from slurm_rl_plugin.simulator.nodes.node_bits import has
from slurm_rl_plugin.simulator.nodes.node_state import NO_PART, NodeState, taken
from slurm_rl_plugin.simulator.nodes.placement import usable_cpus
from slurm_rl_plugin.simulator.nodes.requests import CPU, NodeRequests
from slurm_rl_plugin.units import FloatArray, IntArray

#: Shapes that are kept at most: so much memory for each node.
_MOST_ROWS = 256
_NEVER = -1


class FittingEnds(NamedTuple):
    """A row for each of some shapes.

    Attributes:
        shape: whose each row is, shape [rows]; -1 for nobody's.
        seen: how many changes of nodes each row counts, shape [rows].
        end: when the job ends after which a node has `least` for the shape, shape [rows, nodes]:
            -inf where it has them now, inf where it never will.
        job: that job, the same.
        least: CPUs that each node of a job of the shape gives, shape [shapes]: of one node all.
        by_weight: nodes of all pools, as `NodeRequests.pool_node`, but in the order in which they
            are taken.
        free: space for what a node has free, shape [resources].
    """

    shape: IntArray
    seen: IntArray
    end: FloatArray
    job: IntArray
    least: FloatArray
    by_weight: IntArray
    free: FloatArray


def fitting_ends(whole: FloatArray, weight: IntArray, requests: NodeRequests) -> FittingEnds:
    """Nothing is known yet.

    Args:
        whole: what each node has, shape [nodes, resources].
        weight: of each node, shape [nodes].
        requests: of the jobs to come.
    """
    nodes, rows = len(weight), min(len(requests.fewest), _MOST_ROWS)
    # however much the others give
    left = requests.cpus - (requests.most - 1) * whole[:, CPU].max(initial=0.0)
    pools = zip(requests.pool_first[:-1], requests.pool_first[1:], strict=True)
    serving = [requests.pool_node[begin:end] for begin, end in pools]
    by_weight = [pool[np.argsort(weight[pool], kind="stable")] for pool in serving]
    return FittingEnds(
        shape=np.full(rows, _NEVER),
        seen=np.zeros(rows, dtype=np.int64),
        end=np.zeros((rows, nodes)),
        job=np.zeros((rows, nodes), dtype=np.int64),
        least=np.maximum(left, requests.task),
        by_weight=np.concatenate(by_weight).astype(np.int64),
        free=np.zeros(whole.shape[1]),
    )


@compiled_borrowing
def _look_at_node(
    requests: NodeRequests, nodes: NodeState, fitting: FittingEnds, shape: int, row: int, node: int
) -> None:
    """Enter after whose end a node holds a shape, as `outlook.count_as_ended` would add it up."""
    free, whole, running = fitting.free, nodes.whole[node], nodes.running[node]
    for resource in range(len(free)):
        free[resource] = nodes.free[node, resource]
    part, end, job = nodes.ends.first[node], -np.inf, NO_PART
    while usable_cpus(requests, shape, free, whole, running) < fitting.least[shape]:
        if part == NO_PART:
            end = np.inf
            break
        end, job = nodes.ends.end[part], nodes.ends.job[part]
        running -= 1
        own = requests.shape[job]
        for resource in range(len(free)):
            free[resource] += taken(requests, own, resource, nodes.part_cpus[part])
        part = nodes.ends.behind[part]
    fitting.end[row, node], fitting.job[row, node] = end, job


@compiled_borrowing
def _bring_row_up(
    requests: NodeRequests, nodes: NodeState, fitting: FittingEnds, shape: int
) -> None:
    row, pool, changes = shape % len(fitting.shape), requests.pool[shape], nodes.room.changes[0]
    first, last = requests.pool_first[pool], requests.pool_first[pool + 1]
    if fitting.shape[row] != shape or changes - fitting.seen[row] >= last - first:
        for place in range(first, last):
            _look_at_node(requests, nodes, fitting, shape, row, requests.pool_node[place])
    else:
        changed = nodes.room.changed
        for change in range(fitting.seen[row], changes):
            node = changed[change % len(changed)]
            if has(requests.serves[pool], node):
                _look_at_node(requests, nodes, fitting, shape, row, node)
    fitting.shape[row], fitting.seen[row] = shape, changes


@compiled_inline
def row_of(requests: NodeRequests, nodes: NodeState, fitting: FittingEnds, shape: int) -> int:
    """The row of a shape, brought up to now."""
    row = shape % len(fitting.shape)
    if fitting.shape[row] != shape or fitting.seen[row] != nodes.room.changes[0]:
        _bring_row_up(requests, nodes, fitting, shape)
    return row
