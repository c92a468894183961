"""Which jobs run on each node, in the order in which they are expected to end."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.simulator.kernel.compilation import compiled_inline
from slurm_rl_plugin.units import FloatArray, IntArray

#: No part of a job.
NONE = -1


class NodeEnds(NamedTuple):
    """Parts of running jobs as a chain for each node; of equal ends who started first is first.

    Attributes:
        first: part of the job on each node that ends first, shape [nodes]; NONE for none.
        behind: part of the job that ends next on the same node, shape [parts].
        job: of each part, the same.
        end: when it is expected to end, seconds, the same.
    """

    first: IntArray
    behind: IntArray
    job: IntArray
    end: FloatArray


def no_node_ends(nodes: int, parts: int) -> NodeEnds:
    """Nothing runs on so many nodes; at most so many parts will."""
    return NodeEnds(
        first=np.full(nodes, NONE),
        behind=np.full(parts, NONE),
        job=np.full(parts, NONE),
        end=np.zeros(parts),
    )


@compiled_inline
def put_on_node(ends: NodeEnds, node: int, part: int, job: int, end: float) -> None:
    """Enter a part of a job that starts on a node and is expected to end at `end`."""
    before, after = NONE, ends.first[node]
    while after != NONE and ends.end[after] <= end:
        before, after = after, ends.behind[after]
    ends.job[part], ends.end[part], ends.behind[part] = job, end, after
    if before == NONE:
        ends.first[node] = part
    else:
        ends.behind[before] = part


@compiled_inline
def take_off_node(ends: NodeEnds, node: int, part: int) -> None:
    """Forget a part of a job that has ended."""
    before, each = NONE, ends.first[node]
    while each != part:
        before, each = each, ends.behind[each]
    if before == NONE:
        ends.first[node] = ends.behind[part]
    else:
        ends.behind[before] = ends.behind[part]
