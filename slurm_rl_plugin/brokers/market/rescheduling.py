"""Rescheduling: jobs start before their time where every other agreement can still be kept.

The paper leaves this step open. Users ask for far more time than their jobs take, so that soon
after an agreement the schedule is full of holes. At every event at which some waiting job fits
into the idle processors the schedule is made anew, in three steps, each of which is adopted only
if no job would start later than was promised to it:

1. every waiting job gets its earliest place, in the order of the promises;
2. the jobs that weigh most in the average weighted response time, by the time that they have
   waited and asked for, are put before the others one by one;
3. as in EASY, jobs start out of turn now if the first that has to wait is not delayed.

Where no step succeeds the present schedule stays, which keeps every promise by itself.
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
from slurm_rl_plugin.units import FloatArray, IntArray

#: How many jobs may be put before the others at an event.
PUT_FIRST = 16


class Draft(NamedTuple):
    """Room to try a schedule before it is adopted.

    Attributes:
        running: timetable of what runs.
        table: the same with waiting jobs put in.
        order: jobs in the order in which they got a place in the adopted schedule, shape [n].
        trial: the order that is tried, shape [n].
        planned: starts in the order of the trial, shape [n].
        parts: processors on each machine in that order, shape [n, machines].
    """

    running: Timetable
    table: Timetable
    order: IntArray
    trial: IntArray
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
        trial=np.empty(jobs, dtype=np.int64),
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
def _keeps_promises(jobs: MarketJobs, state: Agreements, draft: Draft, splitting: int) -> bool:
    """Place the waiting jobs in the order of the trial; False at the first that would be late."""
    state.counts[ATTEMPTS] += 1
    _copy(draft.running, draft.table)
    for place in range(state.counts[WAITING]):
        job, parts = draft.trial[place], draft.parts[place]
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
        job = draft.trial[place]
        draft.order[place] = job
        state.planned[job] = draft.planned[place]
        state.parts[job] = draft.parts[place]


@compiled
def _sorted_by(waiting: IntArray, key: FloatArray) -> IntArray:
    """Waiting jobs by a column, ties in the order of their agreements."""
    return waiting[np.argsort(key[waiting], kind="mergesort")]


@compiled
def _try_first(draft: Draft, count: int, place: int, chosen: int) -> None:
    """A trial with one job moved forward to a place of the adopted order."""
    draft.trial[:place] = draft.order[:place]
    draft.trial[place] = chosen
    last = place + 1
    for job in draft.order[place:count]:
        if job != chosen:
            draft.trial[last] = job
            last += 1


@compiled
def _renew(jobs: MarketJobs, state: Agreements, draft: Draft, splitting: int) -> bool:
    """Step 1; False where neither order keeps every promise."""
    waiting = state.waiting[: state.counts[WAITING]]
    for key in (state.promised, state.planned):
        draft.trial[: len(waiting)] = _sorted_by(waiting, key)
        if _keeps_promises(jobs, state, draft, splitting):
            _adopt(state, draft)
            return True
    return False


@compiled
def _put_first(
    jobs: MarketJobs, state: Agreements, draft: Draft, wanted: IntArray, splitting: int
) -> None:
    """Step 2."""
    first = 0
    for job in wanted[:PUT_FIRST]:
        if draft.order[first] == job:
            first += 1
            continue
        _try_first(draft, len(wanted), first, job)
        if _keeps_promises(jobs, state, draft, splitting):
            _adopt(state, draft)
            first += 1


@compiled
def _starting_first(state: Agreements, draft: Draft, now: float) -> int:
    """Bring the jobs that start now to the front of the adopted order; how many there are."""
    count = state.counts[WAITING]
    starting = state.planned[draft.order[:count]] <= now
    draft.order[:count] = np.concatenate(
        (draft.order[:count][starting], draft.order[:count][~starting])
    )
    return starting.sum()


@compiled
def _harmless(state: Agreements, draft: Draft, starting: int, now: float) -> bool:
    """Whether in the trial the moved job and those before it start now, and the head in time."""
    for place in range(starting + 1):
        if draft.planned[place] > now:
            return False
    head = starting + 1  # the first of the others
    if head >= state.counts[WAITING]:
        return True
    return draft.planned[head] <= state.planned[draft.trial[head]]


@compiled
def _start_out_of_turn(
    jobs: MarketJobs,
    state: Agreements,
    draft: Draft,
    wanted: IntArray,
    now: float,
    splitting: int,
) -> None:
    """Step 3."""
    starting = _starting_first(state, draft, now)
    idle = _idle(state)
    for job in draft.order[:starting]:
        idle -= state.parts[job]
    for job in wanted:
        if state.planned[job] <= now or not _fits(jobs, state, job, idle, splitting):
            continue
        _try_first(draft, len(wanted), starting, job)
        if _keeps_promises(jobs, state, draft, splitting) and _harmless(
            state, draft, starting, now
        ):
            _adopt(state, draft)
            starting = _starting_first(state, draft, now)
            idle = _idle(state)
            for each in draft.order[:starting]:
                idle -= state.parts[each]


@compiled
def _idle(state: Agreements) -> IntArray:
    """Idle processors of each machine."""
    idle = state.capacity.copy()
    for job in state.running[: state.counts[RUNNING]]:
        idle -= state.parts[job]
    return idle


@compiled
def _fits(jobs: MarketJobs, state: Agreements, job: int, idle: IntArray, splitting: int) -> bool:
    """Whether a job fits into idle processors that it may use."""
    processors, open_to = jobs.processors[job], jobs.open_to[job]
    room = idle * open_to
    splits = may_be_split(processors, state.capacity, open_to, splitting)
    return room.max() >= processors or (splits and room.sum() >= processors)


@compiled
def reschedule(
    jobs: MarketJobs, state: Agreements, draft: Draft, now: float, splitting: int
) -> None:
    """Make the schedule anew where some waiting job fits into the idle processors.

    Args:
        jobs: all of them.
        state: changed in place; nobody's planned start is later than promised, before or after.
        draft: room.
        now: seconds; what is due has started.
        splitting: as in offers.
    """
    waiting, idle = state.waiting[: state.counts[WAITING]], _idle(state)
    fits = False
    for job in waiting:
        fits = fits or _fits(jobs, state, job, idle, splitting)
    if not fits:
        return
    tabulate_running(jobs, state, draft.running, now)
    if not _renew(jobs, state, draft, splitting):
        return
    waited = now - jobs.submit[waiting]
    weight = jobs.processors[waiting] * (waited + jobs.allocated[waiting])
    wanted = waiting[np.argsort(-weight, kind="mergesort")]
    _put_first(jobs, state, draft, wanted, splitting)
    _start_out_of_turn(jobs, state, draft, wanted, now, splitting)
