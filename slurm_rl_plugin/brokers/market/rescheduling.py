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

from slurm_rl_plugin.brokers.market.timetable import (
    RUNNING,
    WAITING,
    Agreements,
    MarketJobs,
    Timetable,
    copy_table,
    earliest,
    empty_timetable,
    sort_waiting,
    tabulate_running,
    take,
    take_planned,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_borrowing
from slurm_rl_plugin.units import FloatArray, IntArray

#: How many jobs may be put before the others at an event.
PUT_FIRST = 4


class Draft(NamedTuple):
    """Arrays in which a schedule is tried before it is adopted."""

    fixed: Timetable  #: timetable of what runs, and of the first jobs of an order whose places stay
    table: Timetable  #: the same with the others put in
    #: Jobs in the order in which they got a place in the adopted schedule, shape [n].
    order: IntArray
    trial: IntArray  #: the order that is tried, shape [n]
    wanted: IntArray  #: jobs by their weight, the largest first, shape [n]
    weight: FloatArray  #: less of it is more, shape [n] by job
    planned: FloatArray  #: starts in the order of the trial, shape [n]
    parts: IntArray  #: processors on each machine in that order, shape [n, machines]
    idle: IntArray  #: idle processors of each machine


def empty_draft(jobs: int, machines: int) -> Draft:
    """A draft for so many jobs on so many machines."""
    places = 2 * (jobs + 1) + 2
    return Draft(
        fixed=empty_timetable(places, machines),
        table=empty_timetable(places, machines),
        order=np.empty(jobs, dtype=np.int64),
        trial=np.empty(jobs, dtype=np.int64),
        wanted=np.empty(jobs, dtype=np.int64),
        weight=np.empty(jobs),
        planned=np.empty(jobs),
        parts=np.zeros((jobs, machines), dtype=np.int64),
        idle=np.zeros(machines, dtype=np.int64),
    )


@compiled
def reschedule(jobs: MarketJobs, state: Agreements, draft: Draft, now: float) -> None:
    """Make the schedule anew where some waiting job fits into the idle processors.

    Args:
        state: changed in place; nobody's planned start is later than promised, before or after.
        now: seconds; what is due has started.
    """
    _count_idle(state, draft.idle)
    fits, place = False, 0
    while not fits and place < state.counts[WAITING]:
        fits = _fits(jobs, draft.idle, state.waiting[place])
        place += 1
    if not fits:
        return
    tabulate_running(jobs, state, draft.fixed, now)
    if not _renew(jobs, state, draft):
        return
    for place in range(state.counts[WAITING]):
        job = state.waiting[place]
        response = now - jobs.submit[job] + jobs.allocated[job]
        draft.weight[job] = -jobs.processors[job] * response
    sort_waiting(state, draft.weight, draft.wanted)
    _put_first(jobs, state, draft)
    _start_out_of_turn(jobs, state, draft, now)


@compiled_borrowing
def _count_idle(state: Agreements, idle: IntArray) -> None:
    """Idle processors of each machine."""
    for machine in range(len(idle)):
        idle[machine] = state.capacity[machine]
        for place in range(state.counts[RUNNING]):
            idle[machine] -= state.parts[state.running[place], machine]


@compiled_borrowing
def _fits(jobs: MarketJobs, idle: IntArray, job: int) -> bool:
    """Whether a job fits into idle processors."""
    widest, total = 0, 0
    for machine in range(len(idle)):
        if jobs.reach[job, machine]:
            widest = max(widest, idle[machine])
            total += idle[machine]
    return widest >= jobs.processors[job] or (jobs.splits[job] and total >= jobs.processors[job])


@compiled_borrowing
def _keeps_promises(jobs: MarketJobs, state: Agreements, draft: Draft, fixed: int) -> bool:
    """Place the jobs of the trial behind the fixed ones; False at the first that would be late."""
    copy_table(draft.fixed, draft.table)
    for place in range(fixed, state.counts[WAITING]):
        job = draft.trial[place]
        first = earliest(draft.table, jobs, job, state.promised[job], draft.parts, place)
        if first < 0:
            return False
        start = draft.table.time[first]
        draft.planned[place] = start
        take(draft.table, first, start + jobs.allocated[job], draft.parts, place)
    return True


@compiled_borrowing
def _adopt(state: Agreements, draft: Draft, fixed: int) -> None:
    """Take over the trial behind the fixed ones."""
    for place in range(fixed, state.counts[WAITING]):
        job = draft.trial[place]
        draft.order[place] = job
        state.planned[job] = draft.planned[place]
        for machine in range(len(state.capacity)):
            state.parts[job, machine] = draft.parts[place, machine]


@compiled
def _renew(jobs: MarketJobs, state: Agreements, draft: Draft) -> bool:
    """Step 1, by the present schedule where it fails by the promises; False where both do."""
    sort_waiting(state, state.promised, draft.trial)
    kept = _keeps_promises(jobs, state, draft, 0)
    if not kept:
        sort_waiting(state, state.planned, draft.trial)
        kept = _keeps_promises(jobs, state, draft, 0)
    if kept:
        _adopt(state, draft, 0)
    return kept


@compiled_borrowing
def _move(draft: Draft, count: int, place: int, chosen: int) -> None:
    """A trial with one job moved forward to a place of the adopted order."""
    draft.trial[place] = chosen
    last = place + 1
    for earlier in range(place, count):
        job = draft.order[earlier]
        if job != chosen:
            draft.trial[last] = job
            last += 1


@compiled_borrowing
def _put_first(jobs: MarketJobs, state: Agreements, draft: Draft) -> None:
    """Try to move the most wanted jobs to the front, one by one, if every promise is still kept."""
    fixed, count = 0, state.counts[WAITING]
    for place in range(min(PUT_FIRST, count)):
        job = draft.wanted[place]
        kept = draft.order[fixed] == job
        if not kept:
            _move(draft, count, fixed, job)
            kept = _keeps_promises(jobs, state, draft, fixed)
            if kept:
                _adopt(state, draft, fixed)
        if kept:
            take_planned(jobs, state, draft.fixed, job)
            fixed += 1


@compiled_borrowing
def _fix_starting(jobs: MarketJobs, state: Agreements, draft: Draft, now: float) -> int:
    """Bring the jobs that start now to the front of the adopted order and fix them; how many."""
    count, starting, waiting = state.counts[WAITING], 0, 0
    tabulate_running(jobs, state, draft.fixed, now)
    _count_idle(state, draft.idle)
    for place in range(count):
        job = draft.order[place]
        if state.planned[job] > now:
            draft.trial[waiting] = job
            waiting += 1
            continue
        draft.order[starting] = job
        starting += 1
        take_planned(jobs, state, draft.fixed, job)
        for machine in range(len(draft.idle)):
            draft.idle[machine] -= state.parts[job, machine]
    for place in range(waiting):
        draft.order[starting + place] = draft.trial[place]
    return starting


@compiled_borrowing
def _delays_nobody_next(state: Agreements, draft: Draft, place: int, now: float) -> bool:
    """Whether the job at a place of the trial starts now, and the one behind it in time."""
    if draft.planned[place] > now:
        return False
    head = place + 1
    if head >= state.counts[WAITING]:
        return True
    return draft.planned[head] <= state.planned[draft.trial[head]]


@compiled_borrowing
def _start_out_of_turn(jobs: MarketJobs, state: Agreements, draft: Draft, now: float) -> None:
    """Start jobs now that fit, before their turn, where that breaks no promise."""
    count = state.counts[WAITING]
    starting = _fix_starting(jobs, state, draft, now)
    for place in range(count):
        job = draft.wanted[place]
        if state.planned[job] <= now or not _fits(jobs, draft.idle, job):
            continue
        _move(draft, count, starting, job)
        if not _keeps_promises(jobs, state, draft, starting):
            continue
        if _delays_nobody_next(state, draft, starting, now):
            _adopt(state, draft, starting)
            starting = _fix_starting(jobs, state, draft, now)
