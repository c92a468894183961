"""A market over a log: every job asks for offers when it is submitted and takes the best.

Without rescheduling, as in the paper, a job starts exactly when it was agreed, and only later
requests see what others leave early. With it, see `rescheduling`.

Each domain has machines, a MetaManager, and links to other domains. A user's request goes to the
MetaManager of the user's own domain. A MetaManager that gets a request for the first time makes
offers on its machines and forwards the request over its links, while the request has hops left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.brokers.market.formula import MACHINE_FUNCTIONS, USER_FUNCTIONS, Formula
from slurm_rl_plugin.brokers.market.offers import Offer, best_offer
from slurm_rl_plugin.brokers.market.prices import Request, Terms, compile_formula, offered_start
from slurm_rl_plugin.brokers.market.rescheduling import Draft, empty_draft, reschedule
from slurm_rl_plugin.brokers.market.timetable import (
    NEXT,
    RUNNING,
    WAITING,
    Agreements,
    Lanes,
    MarketJobs,
    Timetable,
    allocate,
    drop_ended,
    empty_lanes,
    empty_timetable,
    end_jobs,
    forget_past,
    give_back,
    next_event,
    no_agreements,
    sort_waiting,
    start_planned,
    tabulate_running,
    take_planned,
)
from slurm_rl_plugin.errors import ConfigurationError, SimulationError
from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_borrowing
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.units import HOUR, FloatArray, IntArray

#: What owners add to planned starts, seconds; see ADR 21.
MARGIN = HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketSettings:
    """Who takes part in a market, by which functions they decide, and what is allowed."""

    machines: tuple[int, ...]  #: processors of each
    owner: Formula = MACHINE_FUNCTIONS["MF1"]  #: price function of every machine
    user: Formula = USER_FUNCTIONS["UF1"]  #: utility function of every job
    #: When a job may run on several machines at once: "never", "where too wide" for any, or
    #: "wherever better" to the user.
    splitting: str = "wherever better"
    rescheduling: bool = True  #: whether jobs may start before the agreed time
    #: With rescheduling, what owners add to a planned start that is not at once before they offer
    #: it, seconds: room to reschedule others. The user's function sees the sum.
    margin: float = MARGIN
    #: How often a request is forwarded between domains of one machine each, which are linked in a
    #: ring; users' own domains take turns. None lets every request get to every machine.
    hops: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketSchedule:
    """What came of it; columns of shape [n]."""

    start: FloatArray  #: seconds
    promised: FloatArray  #: latest start, as agreed at submission, seconds; never before `start`
    price: FloatArray
    parts: IntArray  #: processors on each machine, shape [n, machines]


def simulate_market(workload: Workload, settings: MarketSettings) -> MarketSchedule:
    """Let every job of a workload buy its processors.

    Args:
        workload: jobs in order of submission; `estimate` is the time that they ask for and are
            given: it is at least the run time.

    Raises:
        ConfigurationError: a job wider than the machines that it may run on.
        SimulationError: estimates below run times, or a broken agreement (our bug).
    """
    capacity = np.array(settings.machines, dtype=np.int64)
    jobs = _market_jobs(workload, settings, capacity)
    terms = Terms(compile_formula(settings.owner), compile_formula(settings.user))
    state = no_agreements(len(jobs.submit), capacity)
    lanes = empty_lanes(capacity, len(jobs.submit) + 1)
    if settings.rescheduling:
        draft = empty_draft(len(jobs.submit), len(capacity))
        _trade_and_reschedule(jobs, state, lanes, draft, terms, settings.margin)
    else:
        table = empty_timetable(2 * (len(jobs.submit) + 1), len(capacity))
        _trade(jobs, state, lanes, table, terms)
    if np.isnan(state.start).any() or (state.start > state.promised).any():
        raise SimulationError("a market broke an agreement.")
    return MarketSchedule(
        start=state.start,
        promised=state.promised,
        price=state.price,
        parts=state.parts,
    )


def _market_jobs(workload: Workload, settings: MarketSettings, capacity: IntArray) -> MarketJobs:
    if (workload.estimate < workload.run_time).any():
        raise SimulationError("a job would run longer than the market gives it.")
    count = len(workload.submit)
    reach = np.ones((count, len(capacity)), dtype=np.bool_)
    if settings.hops is not None:
        places = np.arange(len(capacity))
        away = (places - np.arange(count)[:, None]) % len(capacity)
        reach = np.minimum(away, len(capacity) - away) <= settings.hops
        # by a directory, a domain that lacks processors within reach finds all others
        reach[(reach * capacity).sum(axis=1) < workload.processors] = True
    sizes = reach * capacity
    room = sizes.max(axis=1) if settings.splitting == "never" else sizes.sum(axis=1)
    if (workload.processors > room).any():
        raise ConfigurationError(
            "a job is wider than the machines that it may run on: let jobs be split, or leave "
            "wide ones out."
        )
    splits = np.full(count, settings.splitting == "wherever better")
    if settings.splitting == "where too wide":
        splits = workload.processors > sizes.max(axis=1)
    return MarketJobs(
        submit=workload.submit,
        run_time=workload.run_time,
        allocated=workload.estimate,
        processors=workload.processors,
        splits=splits,
        interactive=workload.interactive,
        reach=reach,
    )


@compiled
def _agree(state: Agreements, lanes: Lanes, job: int, request: Request, offer: Offer) -> None:
    """Take an offer: its price, its start, and processors of each machine."""
    state.price[job], state.planned[job] = offer.worth[1], offer.worth[2]
    state.promised[job] = offered_start(offer.worth[2], request)
    for lane in offer.lanes[: offer.used[0]]:
        machine = np.searchsorted(lanes.first, lane, side="right") - 1
        state.parts[job, machine] += 1


@compiled
def _request(jobs: MarketJobs, job: int, margin: float) -> Request:
    return Request(
        jobs.submit[job],
        jobs.processors[job],
        jobs.allocated[job],
        jobs.splits[job],
        margin,
        jobs.interactive[job],
        jobs.reach[job],
    )


@compiled
def _trade(
    jobs: MarketJobs, state: Agreements, lanes: Lanes, table: Timetable, terms: Terms
) -> None:
    """The paper's market: what is agreed happens."""
    tabulate_running(jobs, state, table, -np.inf)
    for job in range(len(jobs.submit)):
        drop_ended(lanes, jobs.run_time, jobs.submit[job])
        _give_back_ended(jobs, state, table, jobs.submit[job])
        request = _request(jobs, job, 0.0)
        offer = best_offer(lanes, table, request, terms)
        _agree(state, lanes, job, request, offer)
        begin = state.start[job] = state.planned[job]
        state.running[state.counts[RUNNING]] = job
        state.counts[RUNNING] += 1
        take_planned(jobs, state, table, job)
        for lane in offer.lanes[: offer.used[0]]:
            allocate(lanes, lane, begin, begin + jobs.allocated[job], job)


@compiled_borrowing
def _give_back_ended(jobs: MarketJobs, state: Agreements, table: Timetable, now: float) -> None:
    """Let everything end that ends by now, and free what it had for longer."""
    forget_past(table, now)
    kept = 0
    for place in range(state.counts[RUNNING]):
        job = state.running[place]
        if state.start[job] + jobs.run_time[job] > now:
            state.running[kept] = job
            kept += 1
        else:
            give_back(table, state.start[job] + jobs.allocated[job], state.parts, job)
    state.counts[RUNNING] = kept


@compiled
def _rebuild(jobs: MarketJobs, state: Agreements, lanes: Lanes, order: IntArray) -> None:
    """The schedule of single processors as it stands: what runs, then what waits, by its start."""
    lanes.depth[:] = 0
    lanes.last[:] = -np.inf
    for lane in range(len(lanes.depth)):
        job = state.lane_job[lane]
        if job >= 0:
            begin = state.start[job]
            allocate(lanes, lane, begin, begin + jobs.allocated[job], job)
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
                allocate(lanes, lane, begin, begin + jobs.allocated[job], job)
                left -= 1


@compiled
def _sell(
    jobs: MarketJobs, state: Agreements, lanes: Lanes, draft: Draft, terms: Terms, margin: float
) -> None:
    """Let the next job take the best offer."""
    counts = state.counts
    job = counts[NEXT]
    request = _request(jobs, job, margin)
    _rebuild(jobs, state, lanes, draft.trial)
    table = draft.fixed
    tabulate_running(jobs, state, table, jobs.submit[job])
    for place in range(counts[WAITING]):
        take_planned(jobs, state, table, state.waiting[place])
    _agree(state, lanes, job, request, best_offer(lanes, table, request, terms))
    state.waiting[counts[WAITING]] = job
    counts[WAITING] += 1
    counts[NEXT] += 1


@compiled
def _trade_and_reschedule(
    jobs: MarketJobs, state: Agreements, lanes: Lanes, draft: Draft, terms: Terms, margin: float
) -> None:
    """A market that starts jobs early where it can."""
    while True:
        now = next_event(jobs, state)
        if np.isinf(now):
            return
        end_jobs(jobs, state, now)
        while state.counts[NEXT] < len(jobs.submit) and jobs.submit[state.counts[NEXT]] <= now:
            _sell(jobs, state, lanes, draft, terms, margin)
        start_planned(state, now)
        reschedule(jobs, state, draft, now)
        start_planned(state, now)
