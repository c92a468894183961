"""Who is first by score: numba's own sort takes two to four times as long to compile."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_borrowing
from slurm_rl_plugin.units import FloatArray, IntArray

#: Places that are sorted one by one before such runs are merged.
_RUN = 16


@compiled
def best_first(scores: FloatArray | IntArray, count: int) -> IntArray:
    """Places of scores, the best first and equal ones as they stand.

    Args:
        scores: none of them NaN, shape [at least count].
        count: of the first scores that are looked at.

    Returns:
        Shape [count].
    """
    order, merged = np.empty(count, np.int64), np.empty(count, np.int64)
    for begin in range(0, count, _RUN):
        _sort_run(scores, order, begin, min(begin + _RUN, count))
    width = _RUN
    while width < count:
        for begin in range(0, count, 2 * width):
            _merge(scores, order, merged, begin, min(begin + width, count), width)
        order, merged = merged, order
        width *= 2
    return order


@compiled_borrowing
def _sort_run(scores: FloatArray, order: IntArray, begin: int, end: int) -> None:
    for place in range(begin, end):
        score, to = scores[place], place
        while to > begin and scores[order[to - 1]] < score:
            order[to] = order[to - 1]
            to -= 1
        order[to] = place


@compiled_borrowing
def _merge(
    scores: FloatArray, order: IntArray, merged: IntArray, begin: int, middle: int, width: int
) -> None:
    left, right, end = begin, middle, min(middle + width, len(order))
    for place in range(begin, end):
        if left < middle and (right >= end or scores[order[left]] >= scores[order[right]]):
            merged[place] = order[left]
            left += 1
        else:
            merged[place] = order[right]
            right += 1
