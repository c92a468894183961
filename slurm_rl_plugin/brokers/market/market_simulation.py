"""A market over a log: every job asks for offers when it is submitted and takes the best.

Without rescheduling, as in the paper, a job starts exactly when it was agreed, and only later
requests see what others leave early. With it, see `rescheduling`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.brokers.market.agreements import (
    ATTEMPTS,
    NEXT,
    WAITING,
    Agreements,
    MarketJobs,
    end_jobs,
    next_event,
    no_agreements,
    start_planned,
)
from slurm_rl_plugin.brokers.market.compiled_formula import compile_formula
from slurm_rl_plugin.brokers.market.formula import Formula
from slurm_rl_plugin.brokers.market.functions import MACHINE_FUNCTIONS, USER_FUNCTIONS
from slurm_rl_plugin.brokers.market.lanes import Lanes, allocate, drop_ended, empty_lanes
from slurm_rl_plugin.brokers.market.offers import (
    NEVER,
    WHERE_TOO_WIDE,
    WHEREVER_BETTER,
    Offer,
    Request,
    best_offer,
)
from slurm_rl_plugin.brokers.market.prices import Terms
from slurm_rl_plugin.brokers.market.rescheduling import Draft, empty_draft, reschedule
from slurm_rl_plugin.errors import ConfigurationError, SimulationError
from slurm_rl_plugin.simulator.cluster import Workload
from slurm_rl_plugin.simulator.compilation import compiled
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: What a configuration may say of jobs on several machines.
SPLITTING = {
    "never": NEVER,
    "where too wide": WHERE_TOO_WIDE,
    "wherever better": WHEREVER_BETTER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketSettings:
    """How a market works.

    Attributes:
        machines: processors of each; each is a domain of its own.
        owner: price function of every machine.
        user: utility function of every job.
        splitting: a key of SPLITTING.
        rescheduling: whether jobs may start before the agreed time.
        reach: which domains a request of each domain gets to, shape [machines, machines]; None
            for all. Jobs are submitted to the domains in turn, as in the paper.
    """

    machines: tuple[int, ...]
    owner: Formula = MACHINE_FUNCTIONS["MF1"]
    user: Formula = USER_FUNCTIONS["UF1"]
    splitting: str = "wherever better"
    rescheduling: bool = True
    reach: BoolArray | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketSchedule:
    """What came of it; columns of shape [n].

    Attributes:
        start: seconds.
        promised: start that was agreed at submission, seconds; never before `start`.
        price: that was agreed.
        parts: processors on each machine, shape [n, machines].
        attempts: early starts that rescheduling tried.
    """

    start: FloatArray
    promised: FloatArray
    price: FloatArray
    parts: IntArray
    attempts: int


def simulate_market(workload: Workload, settings: MarketSettings) -> MarketSchedule:
    """Let every job of a workload buy its processors.

    Args:
        workload: jobs in order of submission; `estimate` is the time that they ask for and are
            given: it is at least the run time.
        settings: of the market.

    Raises:
        ConfigurationError: a job wider than the machines that it may run on.
        SimulationError: estimates below run times, or a broken agreement (our bug).
    """
    capacity = np.array(settings.machines, dtype=np.int64)
    jobs = _market_jobs(workload, settings, capacity)
    terms = Terms(compile_formula(settings.owner), compile_formula(settings.user))
    state = no_agreements(len(jobs.submit), capacity)
    lanes = empty_lanes(capacity, len(jobs.submit) + 1)
    splitting = SPLITTING[settings.splitting]
    if settings.rescheduling:
        draft = empty_draft(len(jobs.submit), capacity)
        _trade_and_reschedule(jobs, state, lanes, draft, terms, splitting)
    else:
        _trade(jobs, state, lanes, terms, splitting)
    if np.isnan(state.start).any() or (state.start > state.promised).any():
        raise SimulationError("a market broke an agreement.")
    return MarketSchedule(
        start=state.start,
        promised=state.promised,
        price=state.price,
        parts=state.parts,
        attempts=int(state.counts[ATTEMPTS]),
    )


def _market_jobs(workload: Workload, settings: MarketSettings, capacity: IntArray) -> MarketJobs:
    if (workload.estimate < workload.run_time).any():
        raise SimulationError("a job would run longer than the market gives it.")
    machines, count = len(capacity), len(workload.submit)
    reach = np.ones((machines, machines), dtype=np.bool_)
    if settings.reach is not None:
        reach = settings.reach
    open_to = reach[np.arange(count) % machines]
    sizes = open_to * capacity
    room = sizes.max(axis=1) if settings.splitting == "never" else sizes.sum(axis=1)
    if count and (workload.processors > room).any():
        raise ConfigurationError(
            "a job is wider than the machines that it may run on: let jobs be split, or leave "
            "wide ones out."
        )
    return MarketJobs(
        submit=workload.submit,
        run_time=workload.run_time,
        allocated=workload.estimate,
        processors=workload.processors,
        open_to=open_to,
    )


@compiled
def _agree(state: Agreements, lanes: Lanes, job: int, offer: Offer) -> None:
    """Take an offer: its price, its start, and processors of each machine."""
    state.price[job] = offer.worth[1]
    state.promised[job] = state.planned[job] = offer.worth[2]
    for lane in offer.lanes[: offer.used[0]]:
        machine = np.searchsorted(lanes.first, lane, side="right") - 1
        state.parts[job, machine] += 1


@compiled
def _request(jobs: MarketJobs, job: int, splitting: int) -> Request:
    return Request(
        jobs.submit[job],
        jobs.processors[job],
        jobs.allocated[job],
        jobs.open_to[job],
        splitting,
    )


@compiled
def _trade(jobs: MarketJobs, state: Agreements, lanes: Lanes, terms: Terms, splitting: int) -> None:
    """The paper's market: what is agreed happens."""
    for job in range(len(jobs.submit)):
        drop_ended(lanes, jobs.run_time, jobs.submit[job])
        offer = best_offer(lanes, _request(jobs, job, splitting), terms)
        _agree(state, lanes, job, offer)
        begin = state.start[job] = state.promised[job]
        for lane in offer.lanes[: offer.used[0]]:
            allocate(lanes, lane, begin, begin + jobs.allocated[job], job)


@compiled
def _rebuild(jobs: MarketJobs, state: Agreements, lanes: Lanes) -> None:
    """The schedule of single processors as it stands: what runs, then what waits, by its start."""
    lanes.depth[:] = 0
    for lane in range(len(lanes.depth)):
        job = state.lane_job[lane]
        if job >= 0:
            begin = state.start[job]
            allocate(lanes, lane, begin, begin + jobs.allocated[job], job)
    waiting = state.waiting[: state.counts[WAITING]]
    for job in waiting[np.argsort(state.planned[waiting], kind="mergesort")]:
        _allocate_planned(jobs, state, lanes, job)


@compiled
def _allocate_planned(jobs: MarketJobs, state: Agreements, lanes: Lanes, job: int) -> None:
    """Give a waiting job the first lanes of each of its machines that are free at its start."""
    begin = state.planned[job]
    for machine in range(len(state.capacity)):
        left = state.parts[job, machine]
        for lane in range(lanes.first[machine], lanes.first[machine + 1]):
            if left == 0:
                break
            depth = lanes.depth[lane]
            if depth == 0 or lanes.finish[lane, depth - 1] <= begin:
                allocate(lanes, lane, begin, begin + jobs.allocated[job], job)
                left -= 1


@compiled
def _trade_and_reschedule(
    jobs: MarketJobs,
    state: Agreements,
    lanes: Lanes,
    draft: Draft,
    terms: Terms,
    splitting: int,
) -> None:
    """A market that starts jobs early where it can."""
    counts = state.counts
    while True:
        now = next_event(jobs, state)
        if np.isinf(now):
            return
        end_jobs(jobs, state, now)
        while counts[NEXT] < len(jobs.submit) and jobs.submit[counts[NEXT]] <= now:
            job = counts[NEXT]
            _rebuild(jobs, state, lanes)
            _agree(state, lanes, job, best_offer(lanes, _request(jobs, job, splitting), terms))
            state.waiting[counts[WAITING]] = job
            counts[WAITING] += 1
            counts[NEXT] += 1
        start_planned(state, now)
        reschedule(jobs, state, draft, now, splitting)
        start_planned(state, now)
