"""Pending jobs in the order of their tiers and of scores made now, as far as it matters."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_inline
from slurm_rl_plugin.simulator.nodes.machine_now import MachineNow, find_room_now
from slurm_rl_plugin.simulator.nodes.node_state import GIVEN_BACK
from slurm_rl_plugin.simulator.schedules.ordered_queue import OrderedQueue
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

_UNKNOWN, _ROOM, _NO_ROOM = 0, 1, 2


@compiled_inline
def order_in_tiers(queue: OrderedQueue, tier: IntArray, count: int) -> IntArray:
    """The `count` pending jobs by tier, then by the scores made now, then by submission.

    Args:
        queue: with scores of now.
        tier: of each job, shape [n].
        count: pending jobs.
    """
    return _sorted(queue.scores[:count], queue.jobs[:count], tier)


@compiled
def _sorted(scores: FloatArray, jobs: IntArray, tier: IntArray) -> IntArray:
    # pending jobs stand in order of submission, which a stable sort keeps among equals
    order = jobs[np.argsort(-scores, kind="mergesort")]
    for place in range(1, len(order)):
        if tier[order[place]] > tier[order[place - 1]]:
            return order[np.argsort(-tier[order], kind="mergesort")]
    return order


@compiled_inline
def order_that_matters(
    machine: MachineNow,
    queue: OrderedQueue,
    tier: IntArray,
    line: IntArray,
    lines: int,
    count: int,
) -> IntArray:
    """`order_in_tiers` without jobs that can change nothing: neither start nor hold others back.

    Of the jobs without room now only the first of each line holds others back.

    Args:
        machine: where limits hold jobs back in it, the order is whole.
        queue: with scores of now.
        tier: of each job, shape [n].
        line: in which each job stands, shape [n].
        lines: how many there are.
        count: pending jobs.
    """
    if machine.limits.groups.shape[1] > 0:  # who is the first without room then changes
        return order_in_tiers(queue, tier, count)
    kept = _who_matters(machine, queue, tier, line, lines, count)
    return _sorted(queue.scores[:count][kept], queue.jobs[:count][kept], tier)


@compiled_inline
def _who_matters(
    machine: MachineNow,
    queue: OrderedQueue,
    tier: IntArray,
    line: IntArray,
    lines: int,
    count: int,
) -> BoolArray:
    """Which places of the queue hold jobs with room now, or the first without it of a line."""
    shapes = machine.requests.shape
    fails, given_back = machine.nodes.fails, machine.nodes.counts[GIVEN_BACK]
    known = np.zeros(len(fails), dtype=np.int8)
    kept = np.zeros(count, dtype=np.bool_)
    first = np.full(lines, -1)
    for place in range(count):
        job = queue.jobs[place]
        shape = shapes[job]
        if known[shape] == _UNKNOWN:  # a call passes every array of the machine: one for a shape
            has_room = fails[shape] != given_back and find_room_now(machine, shape) > 0
            known[shape] = _ROOM if has_room else _NO_ROOM
        if known[shape] == _ROOM:
            kept[place] = True
            continue
        best = first[line[job]]
        above = best < 0
        if not above:
            other = queue.jobs[best]
            above = tier[job] > tier[other]
            above = above or (tier[job] == tier[other] and queue.scores[place] > queue.scores[best])
        if above:
            first[line[job]] = place
    for best in first:
        if best >= 0:
            kept[best] = True
    return kept
