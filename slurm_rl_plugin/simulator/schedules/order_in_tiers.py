"""Pending jobs in the order of their tiers and of scores made now, as far as it matters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_borrowing
from slurm_rl_plugin.simulator.kernel.dispatch import best_first
from slurm_rl_plugin.simulator.nodes.machine_now import MachineNow, find_room_now
from slurm_rl_plugin.simulator.nodes.node_state import GIVEN_BACK
from slurm_rl_plugin.simulator.schedules.ordered_queue import OrderedQueue
from slurm_rl_plugin.units import FloatArray, IntArray

_UNKNOWN, _ROOM, _NO_ROOM = 0, 1, 2


class OrderSpace(NamedTuple):
    """Space for an order, so that making one makes no array."""

    order: IntArray  #: job numbers, the first to be looked at first, shape [n]
    #: scores, jobs: of those that are put in order, shape [n].
    scores: FloatArray
    jobs: IntArray
    room: IntArray  #: what is known of the room of each shape, shape [shapes]
    first: IntArray  #: place in the queue of the first job without room of each line, shape [lines]


def order_space(jobs: int, shapes: int, lines: int) -> OrderSpace:
    """Space for the orders of so many jobs, of so many shapes, in so many lines."""
    return OrderSpace(
        order=np.zeros(jobs, dtype=np.int64),
        scores=np.zeros(jobs),
        jobs=np.zeros(jobs, dtype=np.int64),
        room=np.zeros(shapes, dtype=np.int64),
        first=np.zeros(lines, dtype=np.int64),
    )


@compiled_borrowing
def order_in_tiers(queue: OrderedQueue, tier: IntArray, space: OrderSpace, count: int) -> None:
    """Fill `space.order` with pending jobs by tier, then score of now, then submission.

    Args:
        tier: of each job, shape [n].
    """
    _sort(queue.scores[:count], queue.jobs[:count], tier, space.order)


@compiled
def _sort(scores: FloatArray, jobs: IntArray, tier: IntArray, order: IntArray) -> None:
    # pending jobs stand in order of submission, which a stable sort keeps among equals
    count, sorted_already = len(jobs), True
    by_score = best_first(scores, count)
    for place in range(count):
        order[place] = jobs[by_score[place]]
        if place > 0 and tier[order[place]] > tier[order[place - 1]]:
            sorted_already = False
    if not sorted_already:
        by_tier = best_first(tier[order[:count]], count)
        order[:count] = order[:count][by_tier]


@compiled_borrowing
def order_that_matters(
    machine: MachineNow,
    queue: OrderedQueue,
    tier: IntArray,
    line: IntArray,
    space: OrderSpace,
    count: int,
) -> int:
    """`order_in_tiers` of jobs that can start or hold others back; how many there are.

    Of the jobs without room now only the first of each line holds others back.

    Args:
        machine: where limits hold jobs back in it, the order is whole.
        tier: of each job, shape [n].
        line: in which each job stands, shape [n].
    """
    if machine.limits.groups.shape[1] > 0:  # who is the first without room then changes
        order_in_tiers(queue, tier, space, count)
        return count
    _find_first_of_lines(machine, queue, tier, line, space, count)
    kept = 0
    for place in range(count):
        job = queue.jobs[place]
        shape = machine.requests.shape[job]
        if space.room[shape] == _ROOM or space.first[line[job]] == place:
            space.scores[kept], space.jobs[kept] = queue.scores[place], job
            kept += 1
    _sort(space.scores[:kept], space.jobs[:kept], tier, space.order)
    return kept


@compiled_borrowing
def _find_first_of_lines(
    machine: MachineNow,
    queue: OrderedQueue,
    tier: IntArray,
    line: IntArray,
    space: OrderSpace,
    count: int,
) -> None:
    """Fill `room`, and `first` with the job of each line that is first of those without room."""
    space.room[:], space.first[:] = _UNKNOWN, -1
    fails, given_back = machine.nodes.fails, machine.nodes.counts[GIVEN_BACK]
    for place in range(count):
        job = queue.jobs[place]
        shape = machine.requests.shape[job]
        if space.room[shape] == _UNKNOWN:  # a call passes every array of the machine
            has_room = fails[shape] != given_back and find_room_now(machine, shape) > 0
            space.room[shape] = _ROOM if has_room else _NO_ROOM
        if space.room[shape] == _ROOM:
            continue
        best = space.first[line[job]]
        above = best < 0
        if not above:
            other = queue.jobs[best]
            above = tier[job] > tier[other]
            above = above or (tier[job] == tier[other] and queue.scores[place] > queue.scores[best])
        if above:
            space.first[line[job]] = place
