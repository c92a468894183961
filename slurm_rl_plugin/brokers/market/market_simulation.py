"""A market over a log: every job requests offers at submission and takes the best.

Without rescheduling, as in the paper, a job starts exactly as agreed, and only later requests can
use processors that others release early. With it, see `reschedule`.

A user's request goes to the MetaManager of the user's domain. With `hops`, each machine is a domain
of its own, linked to its two neighbours, and a MetaManager that gets a request for the first time
forwards it over its links.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.brokers.market.formula import MACHINE_FUNCTIONS, USER_FUNCTIONS, Formula
from slurm_rl_plugin.brokers.market.offers import Offer, Terms, best_offer, offered_start
from slurm_rl_plugin.brokers.market.timetable import (
    NEXT,
    WAITING,
    Agreements,
    Lanes,
    MarketJobs,
    Timetable,
    allocate,
    copy_table,
    drop_ended,
    earliest,
    empty_lanes,
    empty_timetable,
    end_jobs,
    fits,
    next_event,
    no_agreements,
    sort_waiting,
    start_planned,
    tabulate_running,
    take,
    take_planned,
)
from slurm_rl_plugin.errors import ConfigurationError, SimulationError
from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_borrowing
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.units import HOUR, BoolArray, FloatArray, IntArray


def reach_in_ring(hops: int, wanted: IntArray, machines: IntArray) -> BoolArray:
    """The machines that make offers for each job, shape [n, machines]; homes take turns.

    A domain that lacks processors within reach finds all others by a directory.

    Args:
        hops: how often a request is forwarded; 0 asks the user's own domain only.
        wanted: processors that the machines within reach must have in total, shape [n].
        machines: processors of each.
    """
    count = len(machines)
    apart = (np.arange(len(wanted))[:, None] - np.arange(count)) % count
    reach: BoolArray = np.minimum(apart, count - apart) <= hops
    reach[reach @ machines < wanted] = True
    return reach


#: Maximum number of jobs that are moved to the front at an event.
PUT_FIRST = 4


class Draft(NamedTuple):
    """Arrays to try a schedule before it is adopted."""

    fixed: Timetable  #: of running jobs and of the first jobs of an order, which keep their places
    table: Timetable  #: the same with the other jobs
    order: IntArray  #: jobs in the order of their placement in the adopted schedule, shape [n]
    trial: IntArray  #: the tried order, shape [n]
    wanted: IntArray  #: jobs by their weight, the largest first, shape [n]
    weight: FloatArray  #: negative weight of each job, shape [n]
    planned: FloatArray  #: starts in the order of the trial, shape [n]
    parts: IntArray  #: processors on each machine in that order, shape [n, machines]


def empty_draft(jobs: int, machines: int) -> Draft:
    """A draft for `jobs` on `machines`."""
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
    )


@compiled
def reschedule(jobs: MarketJobs, state: Agreements, draft: Draft, now: float) -> None:
    """Make a new schedule if a waiting job fits on the idle processors.

    The paper does not specify this step. Users request far more time than their jobs take, so that
    the schedule is full of holes soon after an agreement. Each of three steps is adopted only if no
    job would start later than promised:

    1. every waiting job gets its earliest place, in the order of the promises;
    2. the jobs with the largest weight in the average weighted response time, by their wait and
       time limit, are moved to the front one by one;
    3. as in EASY, jobs start out of turn if the first waiting job is not delayed.

    If no step succeeds the present schedule stays, which keeps every promise.

    Args:
        state: changed in place; no planned start is later than promised, before or after.
        now: seconds; due jobs have started.
    """
    tabulate_running(jobs, state, draft.fixed, now)
    any_fits = False
    for job in state.waiting[: state.counts[WAITING]]:
        any_fits = any_fits or fits(jobs, draft.fixed.free[0], job)
    if not (any_fits and _renew(jobs, state, draft)):
        return
    for place in range(state.counts[WAITING]):
        job = state.waiting[place]
        response = now - jobs.rows[job].submit + jobs.rows[job].estimate
        draft.weight[job] = -jobs.rows[job].processors * response
    sort_waiting(state, draft.weight, draft.wanted)
    _put_first(jobs, state, draft)
    _start_out_of_turn(jobs, state, draft, now)


@compiled_borrowing
def _keeps_promises(jobs: MarketJobs, state: Agreements, draft: Draft, fixed: int) -> bool:
    """Place the jobs of the trial after the fixed ones; False at the first late one."""
    copy_table(draft.fixed, draft.table)
    for place in range(fixed, state.counts[WAITING]):
        job = draft.trial[place]
        first = earliest(draft.table, jobs, job, state.promised[job], draft.parts, place)
        if first < 0:
            return False
        start = draft.table.time[first]
        draft.planned[place] = start
        take(draft.table, first, start + jobs.rows[job].estimate, draft.parts, place)
    return True


@compiled_borrowing
def _adopt(state: Agreements, draft: Draft, fixed: int) -> None:
    """Adopt the trial after the fixed jobs."""
    for place in range(fixed, state.counts[WAITING]):
        job = draft.trial[place]
        draft.order[place] = job
        state.planned[job] = draft.planned[place]
        for machine in range(len(state.capacity)):
            state.parts[job, machine] = draft.parts[place, machine]


@compiled
def _renew(jobs: MarketJobs, state: Agreements, draft: Draft) -> bool:
    """Step 1, in the order of promises or else of the present schedule; False if both fail."""
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
    """Make a trial with one job moved forward in the adopted order."""
    draft.trial[place] = chosen
    last = place + 1
    for earlier in range(place, count):
        job = draft.order[earlier]
        if job != chosen:
            draft.trial[last] = job
            last += 1


@compiled_borrowing
def _put_first(jobs: MarketJobs, state: Agreements, draft: Draft) -> None:
    """Move the most wanted jobs to the front, one by one, if every promise is still kept."""
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
    """Move the jobs that start now to the front of the adopted order and fix them; their number."""
    count, starting, waiting = state.counts[WAITING], 0, 0
    tabulate_running(jobs, state, draft.fixed, now)
    for place in range(count):
        job = draft.order[place]
        if state.planned[job] > now:
            draft.trial[waiting] = job
            waiting += 1
            continue
        draft.order[starting] = job
        starting += 1
        take_planned(jobs, state, draft.fixed, job)
    for place in range(waiting):
        draft.order[starting + place] = draft.trial[place]
    return starting


@compiled_borrowing
def _delays_nobody_next(state: Agreements, draft: Draft, place: int, now: float) -> bool:
    """Whether the job at a place of the trial starts now, and the next one is not delayed."""
    if draft.planned[place] > now:
        return False
    head = place + 1
    if head >= state.counts[WAITING]:
        return True
    return draft.planned[head] <= state.planned[draft.trial[head]]


@compiled_borrowing
def _start_out_of_turn(jobs: MarketJobs, state: Agreements, draft: Draft, now: float) -> None:
    """Start fitting jobs now before their turn if that breaks no promise."""
    count = state.counts[WAITING]
    starting = _fix_starting(jobs, state, draft, now)
    for place in range(count):
        job = draft.wanted[place]
        if state.planned[job] <= now or not fits(jobs, draft.fixed.free[0], job):
            continue
        _move(draft, count, starting, job)
        if not _keeps_promises(jobs, state, draft, starting):
            continue
        if _delays_nobody_next(state, draft, starting, now):
            _adopt(state, draft, starting)
            starting = _fix_starting(jobs, state, draft, now)


#: Margin that owners add to planned starts, seconds; see ADR 21.
MARGIN = HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketSettings:
    """Machines, functions and rules of a market."""

    machines: tuple[int, ...]  #: processors of each
    owner: Formula = MACHINE_FUNCTIONS["MF1"]  #: price function of every machine
    user: Formula = USER_FUNCTIONS["UF1"]  #: utility function of every job
    #: When a job may run on several machines at once: "where too wide" for any, or "wherever
    #: better" to the user.
    splitting: str = "wherever better"
    rescheduling: bool = True  #: whether jobs may start before the agreed time
    #: With rescheduling, seconds that owners add to a later planned start before they offer it:
    #: room to reschedule others. The user's function sees the sum.
    margin: float = MARGIN
    #: How often a request is forwarded in a ring of domains of one machine each; the users' own
    #: domains take turns, as in the paper. None lets every request reach every machine.
    hops: int | None = None


def simulate_market(workload: Workload, settings: MarketSettings) -> Agreements:
    """Let every job of a workload buy its processors; no job starts later than promised.

    Args:
        workload: jobs in order of submission; `estimate` is the allocated time, at least the run
            time.

    Raises:
        ConfigurationError: a job is wider than its machines.
        SimulationError: estimates below run times, or a broken agreement (a bug).
    """
    capacity = np.array(settings.machines, dtype=np.int64)
    jobs = _market_jobs(workload, settings, capacity)
    margin = settings.margin if settings.rescheduling else 0.0
    terms = Terms(settings.owner.program, settings.user.program, margin, settings.rescheduling)
    state = no_agreements(len(jobs.rows), capacity)
    lanes = empty_lanes(capacity, len(jobs.rows) + 1)
    draft = empty_draft(len(jobs.rows), len(capacity))
    _trade(jobs, state, lanes, draft, terms)
    if np.isnan(state.start).any() or (state.start > state.promised).any():
        raise SimulationError("a market broke an agreement.")
    return state


def _market_jobs(workload: Workload, settings: MarketSettings, capacity: IntArray) -> MarketJobs:
    if (workload.estimate < workload.run_time).any():
        raise SimulationError("a job would run longer than the market gives it.")
    count = len(workload.submit)
    reach = np.ones((count, len(capacity)), dtype=np.bool_)
    if settings.hops is not None:
        reach = reach_in_ring(settings.hops, workload.processors, capacity)
    sizes = reach * capacity
    if (workload.processors > sizes.sum(axis=1)).any():
        raise ConfigurationError(
            "a job is wider than the machines that it may run on: leave wide ones out."
        )
    splits = np.full(count, settings.splitting == "wherever better")
    if settings.splitting == "where too wide":
        splits = workload.processors > sizes.max(axis=1)
    return MarketJobs(workload.jobs, splits, reach)


@compiled
def _agree(
    jobs: MarketJobs, state: Agreements, lanes: Lanes, job: int, offer: Offer, margin: float
) -> None:
    """Take an offer: its price, its start, and processors of each machine."""
    state.price[job], state.planned[job] = offer.worth[1], offer.worth[2]
    state.promised[job] = offered_start(offer.worth[2], jobs.rows[job].submit, margin)
    for lane in offer.lanes[: offer.used[0]]:
        machine = np.searchsorted(lanes.first, lane, side="right") - 1
        state.parts[job, machine] += 1


@compiled
def _rebuild(jobs: MarketJobs, state: Agreements, lanes: Lanes, order: IntArray) -> None:
    """Rebuild the schedule of single processors: running jobs, then waiting ones by start."""
    lanes.depth[:] = 0
    lanes.last[:] = -np.inf
    for lane in range(len(lanes.depth)):
        job = state.lane_job[lane]
        if job >= 0:
            begin = state.start[job]
            allocate(lanes, lane, begin, begin + jobs.rows[job].estimate, job)
    sort_waiting(state, state.planned, order)
    for place in range(state.counts[WAITING]):
        _allocate_planned(jobs, state, lanes, order[place])


@compiled_borrowing
def _allocate_planned(jobs: MarketJobs, state: Agreements, lanes: Lanes, job: int) -> None:
    """Give a waiting job the first lanes of each of its machines that are free at its start."""
    begin = state.planned[job]
    for machine in range(len(state.capacity)):
        left = state.parts[job, machine]
        for lane in range(lanes.first[machine], lanes.first[machine + 1]):
            if left == 0:
                break
            if lanes.last[lane] <= begin:
                allocate(lanes, lane, begin, begin + jobs.rows[job].estimate, job)
                left -= 1


@compiled
def _sell(jobs: MarketJobs, state: Agreements, lanes: Lanes, draft: Draft, terms: Terms) -> None:
    """Give the next job the best offer; without rescheduling it keeps the offered processors."""
    counts = state.counts
    job = counts[NEXT]
    if terms.rescheduling:
        _rebuild(jobs, state, lanes, draft.trial)
    else:
        drop_ended(lanes, jobs, jobs.rows[job].submit)
    table = draft.fixed
    tabulate_running(jobs, state, table, jobs.rows[job].submit)
    for place in range(counts[WAITING]):
        take_planned(jobs, state, table, state.waiting[place])
    offer = best_offer(lanes, table, jobs, job, terms)
    _agree(jobs, state, lanes, job, offer, terms.margin)
    if not terms.rescheduling:
        begin = state.planned[job]
        for lane in offer.lanes[: offer.used[0]]:
            allocate(lanes, lane, begin, begin + jobs.rows[job].estimate, job)
    state.waiting[counts[WAITING]] = job
    counts[WAITING] += 1
    counts[NEXT] += 1


@compiled
def _trade(jobs: MarketJobs, state: Agreements, lanes: Lanes, draft: Draft, terms: Terms) -> None:
    """The market; with rescheduling it starts jobs early if possible, else as agreed."""
    while True:
        now = next_event(jobs, state)
        if np.isinf(now):
            return
        end_jobs(jobs, state, now)
        while state.counts[NEXT] < len(jobs.rows) and jobs.rows[state.counts[NEXT]].submit <= now:
            _sell(jobs, state, lanes, draft, terms)
        start_planned(state, now)
        if terms.rescheduling:
            reschedule(jobs, state, draft, now)
            start_planned(state, now)
