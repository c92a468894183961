"""Which running jobs the will-run test of select/cons_tres counts as ended between two looks."""

from __future__ import annotations

from slurm_rl_plugin.simulator.kernel.cluster import RUNNING, Cluster
from slurm_rl_plugin.simulator.kernel.compilation import compiled_inline
from slurm_rl_plugin.simulator.nodes.node_bits import NodeBits, has
from slurm_rl_plugin.simulator.nodes.node_state import NodeState
from slurm_rl_plugin.units import FloatArray

#: Seconds within which ends of running jobs count together at first; doubled with every look.
FIRST_WINDOW = 30.0
#: So many jobs that end close to each other count together at most.
_MOST_TOGETHER = 200


@compiled_inline
def touches(nodes: NodeState, closed: NodeBits, job: int) -> bool:
    """Whether a running job holds a node that is not closed."""
    part = nodes.first_part[job]
    while part >= 0:
        if not has(closed, nodes.part_node[part]):
            return True
        part = nodes.part_next[part]
    return False


@compiled_inline
def first_after(times: FloatArray, begin: int, end: int, time: float) -> int:
    """The first place from `begin` on, before `end`, whose time is later; `end` for none."""
    low, high = begin, end
    while low < high:
        middle = (low + high) // 2
        if times[middle] > time:
            high = middle
        else:
            low = middle + 1
    return low


@compiled_inline
def first_that_matters(
    cluster: Cluster, nodes: NodeState, closed: NodeBits, begin: int, end: int
) -> int:
    """The place from `begin` on of the first job that holds an open node; `end` for none."""
    place = begin
    while place < end and not touches(nodes, closed, cluster.expected_job[place]):
        place += 1
    return place


@compiled_inline
def end_of_group(
    cluster: Cluster, nodes: NodeState, closed: NodeBits, begin: int, last: float, stop: int
) -> tuple[int, bool]:
    """The place behind the running jobs from `begin` on that count as ended together.

    They are those that end by `last`. As in Slurm only the job behind one that holds open nodes
    is asked that: behind one that holds none the next is taken whenever it ends, and a job that
    waits for it may be planned late.

    Args:
        cluster: read only.
        nodes: read only.
        closed: nodes that do not count.
        begin: place of the first.
        last: seconds.
        stop: place behind the last job that may be counted.

    Returns:
        The place, and whether there were so many that Slurm goes on without a look at them.
    """
    place = first_after(cluster.expected_end, begin, stop, last)
    if place < stop and not (
        place > begin and touches(nodes, closed, cluster.expected_job[place - 1])
    ):
        place = min(first_that_matters(cluster, nodes, closed, place, stop) + 1, stop)
    if place - begin > _MOST_TOGETHER:
        ended = 0
        for each in range(begin, place):
            ended += touches(nodes, closed, cluster.expected_job[each])
            if ended > _MOST_TOGETHER:
                return each + 1, True
    return place, False


@compiled_inline
def next_window(cluster: Cluster, place: int, origin: float, window: float) -> float:
    """The window of the next look, so wide that the job at `place` ends within it."""
    window *= 2.0
    while place < cluster.counts[RUNNING] and cluster.expected_end[place] > origin + window:
        window *= 2.0
    return window
