"""Running jobs by their ends: the real ones as a binary heap, the expected ones sorted."""

from __future__ import annotations

from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.units import FloatArray, IntArray


@compiled_borrowing
def sift_down(end_time: FloatArray, end_job: IntArray, count: int) -> None:
    """Move the job at the root of a heap of `count` jobs down to its place."""
    place = 0
    while True:
        child = 2 * place + 1
        if child >= count:
            return
        if child + 1 < count and end_time[child + 1] < end_time[child]:
            child += 1
        if end_time[place] <= end_time[child]:
            return
        end_time[place], end_time[child] = end_time[child], end_time[place]
        end_job[place], end_job[child] = end_job[child], end_job[place]
        place = child


@compiled_borrowing
def sift_up(end_time: FloatArray, end_job: IntArray, place: int) -> None:
    """Move the job at `place` up to its place."""
    while place > 0:
        parent = (place - 1) // 2
        if end_time[parent] <= end_time[place]:
            return
        end_time[place], end_time[parent] = end_time[parent], end_time[place]
        end_job[place], end_job[parent] = end_job[parent], end_job[place]
        place = parent


@compiled_borrowing
def first_not_before(times: FloatArray, count: int, time: float) -> int:
    """Place of the first of `count` sorted times that is not before `time`."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if times[middle] < time:
            low = middle + 1
        else:
            high = middle
    return low
