"""Which processors a schedule's jobs could have had: rows of a Gantt chart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray
from slurm_rl_plugin.utility.summary import ScheduledJobs

#: Jobs that start in the window that is shown.
_WINDOW_JOBS = 100
#: Rounding of epoch seconds must not make a job end after its successor starts.
_ROUNDING = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A stretch of processors [bottom, top) that a job holds in [begin, end), seconds.

    `began_before` and `ends_after` say that the job goes beyond the window.
    """

    begin: float
    end: float
    bottom: int
    top: int
    interactive: bool
    began_before: bool
    ends_after: bool


def busiest_window(jobs: ScheduledJobs, window_jobs: int = _WINDOW_JOBS) -> tuple[float, float]:
    """Begin and end, in seconds, of the stretch of job starts around the longest queue.

    Args:
        jobs: the schedule.
        window_jobs: how many jobs start in the stretch, where there are as many.
    """
    starts = np.sort(jobs.start)
    come = np.searchsorted(np.sort(jobs.submit), starts, side="right")
    gone = np.searchsorted(starts, starts, side="left")
    peak = int(np.argmax(come - gone))  # a queue is longest just before a start
    first = min(max(peak - window_jobs // 2, 0), max(len(starts) - window_jobs, 0))
    last = min(first + window_jobs, len(starts)) - 1
    begin, end = float(starts[first]), float(starts[last])
    if end <= begin:  # all start at once: show the shortest of them whole
        end = begin + float(jobs.run_time[(jobs.start >= begin) & (jobs.start <= end)].min())
    return begin, end


def processor_rows(jobs: ScheduledJobs, begin: float, end: float) -> list[Block]:
    """Give the jobs that run in a window rows of processors, greedily in order of their starts.

    Jobs that run all through it lie at the bottom. A job takes the lowest gap that holds it whole,
    else the lowest free rows, in pieces. Rows beyond the capacity are used only where a recorded
    schedule ran more than it.

    Args:
        jobs: the schedule.
        begin: of the window, seconds; blocks are cut to it.
        end: of the window, seconds.
    """
    ends = jobs.start + jobs.run_time
    inside = np.flatnonzero((jobs.start < end) & (ends > begin))
    shown = np.maximum(jobs.start, begin)  # all that began before run at the begin of the window
    throughout = (jobs.start <= begin) & (ends >= end)
    inside = inside[np.lexsort((jobs.start[inside], shown[inside], ~throughout[inside]))]
    needed = _most_in_use(shown[inside], ends[inside], jobs.processors[inside])
    held_until = np.full(max(needed, jobs.capacity), -np.inf)
    blocks = []
    for job in inside.tolist():
        rows = _lowest(held_until <= shown[job] + _ROUNDING, int(jobs.processors[job]))
        held_until[rows] = ends[job]
        blocks += [
            Block(
                begin=float(shown[job]),
                end=min(float(ends[job]), end),
                bottom=bottom,
                top=top,
                interactive=bool(jobs.interactive[job]),
                began_before=bool(jobs.start[job] < begin),
                ends_after=bool(ends[job] > end),
            )
            for bottom, top in _pieces(rows)
        ]
    return blocks


def _most_in_use(begin: FloatArray, end: FloatArray, processors: IntArray) -> int:
    times = np.concatenate([begin + _ROUNDING, end])
    order = np.argsort(times, kind="stable")
    change = np.concatenate([processors, -processors])[order]
    return int(np.cumsum(change).max(initial=0))


def _lowest(free: BoolArray, width: int) -> IntArray:
    """Rows for a job of that width: the lowest gap that holds it, else the lowest free rows."""
    rows = np.flatnonzero(free)
    if width <= len(rows):
        whole = np.flatnonzero(rows[width - 1 :] - rows[: len(rows) - width + 1] == width - 1)
        if len(whole):
            return rows[whole[0] : whole[0] + width]
    return rows[:width]


def _pieces(rows: FloatArray | IntArray) -> Iterator[tuple[int, int]]:
    """Stretches of rows without a gap, as [bottom, top)."""
    for piece in np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1):
        if len(piece):
            yield int(piece[0]), int(piece[-1]) + 1
