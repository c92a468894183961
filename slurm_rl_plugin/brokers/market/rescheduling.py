"""Rescheduling: jobs start before their time where every other agreement can still be kept.

The paper leaves this step open. Users ask for far more time than their jobs take, so that soon
after an agreement the schedule is full of holes. At every event each waiting job that fits into
the idle processors is tried, the largest first: it starts now if all other waiting jobs can then
be given places again, none later than was promised to it. The places are looked for in the order
of the promises, and where that fails in the order of the present schedule. Nothing is changed
where no such schedule is found: the present one keeps every promise by itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.brokers.market.agreements import (
    ATTEMPTS,
    RUNNING,
    WAITING,
    Agreements,
    MarketJobs,
)
from slurm_rl_plugin.brokers.market.timetable import (
    Timetable,
    earliest,
    empty_timetable,
    everything_free,
    may_be_split,
    take,
)
from slurm_rl_plugin.simulator.compilation import compiled
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray


class Draft(NamedTuple):
    """Room to try a schedule before it is adopted.

    Attributes:
        running: timetable of what runs.
        table: the same with waiting jobs put in.
        order: jobs in the order in which they get a place, shape [n].
        planned: their starts, in that order, shape [n].
        parts: their processors on each machine, shape [n, machines].
    """

    running: Timetable
    table: Timetable
    order: IntArray
    planned: FloatArray
    parts: IntArray


def empty_draft(jobs: int, capacity: IntArray) -> Draft:
    """Room for so many jobs on machines of such capacities."""
    places = 2 * (jobs + 1) + 2
    machines = len(capacity)
    return Draft(
        running=empty_timetable(places, machines),
        table=empty_timetable(places, machines),
        order=np.empty(jobs, dtype=np.int64),
        planned=np.empty(jobs),
        parts=np.zeros((jobs, machines), dtype=np.int64),
    )


@compiled
def tabulate_running(jobs: MarketJobs, state: Agreements, table: Timetable, now: float) -> None:
    """The timetable of what runs, each job for all the time that it was given."""
    everything_free(table, state.capacity, now)
    for job in state.running[: state.counts[RUNNING]]:
        take(table, now, state.start[job] + jobs.allocated[job], state.parts[job])


@compiled
def _copy(source: Timetable, target: Timetable) -> None:
    points = source.points[0]
    target.time[:points] = source.time[:points]
    target.free[:points] = source.free[:points]
    target.points[0] = points


@compiled
def _keeps_promises(
    jobs: MarketJobs, state: Agreements, draft: Draft, splitting: int
) -> bool:
    """Place the waiting jobs in the draft's order; False at the first that would be late."""
    _copy(draft.running, draft.table)
    for place in range(state.counts[WAITING]):
        job, parts = draft.order[place], draft.parts[place]
        processors, duration = jobs.processors[job], jobs.allocated[job]
        open_to = jobs.open_to[job]
        splits = may_be_split(processors, state.capacity, open_to, splitting)
        start = earliest(draft.table, processors, duration, open_to, splits, parts)
        if start > state.promised[job]:
            return False
        take(draft.table, start, start + duration, parts)
        draft.planned[place] = start
    return True


@compiled
def _adopt(state: Agreements, draft: Draft) -> None:
    for place in range(state.counts[WAITING]):
        job = draft.order[place]
        state.planned[job] = draft.planned[place]
        state.parts[job] = draft.parts[place]


@compiled
def _others_by(state: Agreements, draft: Draft, first: int, key: FloatArray) -> None:
    """Order the waiting jobs that are not among the first ones of the draft by a column."""
    waiting = state.waiting[: state.counts[WAITING]]
    ordered = waiting[np.argsort(key[waiting], kind="mergesort")]
    place = first
    for job in ordered:
        if not _among(draft.order[:first], job):
            draft.order[place] = job
            place += 1


@compiled
def _among(chosen: IntArray, job: int) -> bool:
    for each in chosen:
        if each == job:
            return True
    return False


@compiled
def _idle(state: Agreements) -> IntArray:
    idle = state.capacity.copy()
    for job in state.running[: state.counts[RUNNING]]:
        idle -= state.parts[job]
    return idle


@compiled
def _fits(processors: int, idle: IntArray, open_to: BoolArray, splits: bool) -> bool:
    room = idle * open_to
    return room.max() >= processors or (splits and room.sum() >= processors)


@compiled
def reschedule(
    jobs: MarketJobs, state: Agreements, draft: Draft, now: float, splitting: int
) -> None:
    """Set the planned start of jobs to now where all agreements can be kept with it.

    Args:
        jobs: all of them.
        state: changed in place; nobody's planned start is later than promised, before or after.
        draft: room.
        now: seconds; what is due has started.
        splitting: as in offers.
    """
    waiting = state.waiting[: state.counts[WAITING]]
    idle = _idle(state)
    if len(waiting) == 0 or jobs.processors[waiting].min() > idle.sum():
        return
    tabulate_running(jobs, state, draft.running, now)
    area = jobs.processors[waiting] * jobs.allocated[waiting]
    wanted = waiting[np.argsort(-area, kind="mergesort")].copy()
    first = 0
    for job in wanted:
        open_to = jobs.open_to[job]
        splits = may_be_split(jobs.processors[job], state.capacity, open_to, splitting)
        if not _fits(jobs.processors[job], idle, open_to, splits):
            continue
        state.counts[ATTEMPTS] += 1
        draft.order[first] = job
        for key in (state.promised, state.planned):
            _others_by(state, draft, first + 1, key)
            if _keeps_promises(jobs, state, draft, splitting):
                _adopt(state, draft)
                idle -= state.parts[job]
                first += 1
                break
