"""First come, first served with backfilling on the machines of a market.

Each job has a home machine. A job that is wider than every machine starts on several at once, at
no cost, as in the market. A waiting job holds a reservation where it is the first that waits for a
machine (EASY), or always (conservative backfilling); reservations are made anew at each event.
"""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.brokers.market.timetable import (
    NEXT,
    RUNNING,
    WAITING,
    Agreements,
    MarketJobs,
    Timetable,
    earliest,
    empty_timetable,
    end_jobs,
    next_event,
    no_agreements,
    tabulate_running,
    take,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_borrowing
from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: Home of a job that is wider than every machine.
_ALL = -1


def starts_on_machines(
    workload: Workload, machines: tuple[int, ...], *, least_loaded: bool, conservative: bool
) -> FloatArray:
    """Starts of a workload under first come, first served with backfilling, seconds, shape [n].

    Args:
        workload: jobs in order of submission; `estimate` is the time that they ask for.
        least_loaded: whether a job's home is the machine with the least work per processor, of
            those wide enough; otherwise the next in turn that is wide enough (round-robin).
    """
    capacity, count = np.array(machines, dtype=np.int64), len(workload.submit)
    jobs = MarketJobs(
        submit=workload.submit,
        run_time=workload.run_time,
        allocated=workload.estimate,
        processors=workload.processors,
        splits=workload.processors > capacity.max(),
        interactive=workload.interactive,
        reach=np.ones((count, len(capacity)), dtype=np.bool_),
    )
    state = no_agreements(count, capacity)
    table = empty_timetable(2 * (count + 1), len(capacity))
    _serve(jobs, state, table, np.full(count, _ALL), least_loaded, conservative)
    return state.start


@compiled
def _serve(
    jobs: MarketJobs,
    state: Agreements,
    table: Timetable,
    home: IntArray,
    least_loaded: bool,
    conservative: bool,
) -> None:
    counts, held = state.counts, np.zeros(len(state.capacity), dtype=np.bool_)
    load = np.zeros(len(state.capacity))
    while True:
        now = next_event(jobs, state)
        if np.isinf(now):
            return
        end_jobs(jobs, state, now)
        while counts[NEXT] < len(jobs.submit) and jobs.submit[counts[NEXT]] <= now:
            job = counts[NEXT]
            if least_loaded:
                _weigh(jobs, state, home, load, now)
            home[job] = _home(jobs, state, load, job)
            for machine in range(len(load)):
                jobs.reach[job, machine] = home[job] in (machine, _ALL)
            state.waiting[counts[WAITING]] = job
            counts[WAITING] += 1
            counts[NEXT] += 1
        _start_in_order(jobs, state, table, home, held, now, conservative)


@compiled_borrowing
def _weigh(
    jobs: MarketJobs, state: Agreements, home: IntArray, load: FloatArray, now: float
) -> None:
    """Work that each machine still has, by the time that jobs ask for, seconds a processor."""
    for machine in range(len(load)):
        work = 0.0
        for place in range(state.counts[RUNNING]):
            job = state.running[place]
            work += (state.start[job] + jobs.allocated[job] - now) * state.parts[job, machine]
        for place in range(state.counts[WAITING]):
            job = state.waiting[place]
            if home[job] == machine:
                work += jobs.allocated[job] * jobs.processors[job]
        load[machine] = work / state.capacity[machine]


@compiled_borrowing
def _home(jobs: MarketJobs, state: Agreements, load: FloatArray, job: int) -> int:
    """The machine with the least load, the next in turn of equal ones; _ALL where none is wide."""
    best, machines = _ALL, len(load)
    for turn in range(machines):
        machine = (job + turn) % machines
        if state.capacity[machine] >= jobs.processors[job] and (
            best == _ALL or load[machine] < load[best]
        ):
            best = machine
    return best


@compiled_borrowing
def _start_in_order(
    jobs: MarketJobs,
    state: Agreements,
    table: Timetable,
    home: IntArray,
    held: BoolArray,
    now: float,
    conservative: bool,
) -> None:
    """Start what fits now beside the reservations of those before it."""
    counts, kept = state.counts, 0
    tabulate_running(jobs, state, table, now)
    held[:] = False
    for place in range(counts[WAITING]):
        job = state.waiting[place]
        reserves = conservative or _is_first(held, home[job])
        latest = np.inf if reserves or home[job] == _ALL else now
        first = earliest(table, jobs, job, latest, state.parts, job)
        if first == 0:
            state.start[job] = now
            state.running[counts[RUNNING]] = job
            counts[RUNNING] += 1
        else:
            state.waiting[kept] = job
            kept += 1
            if not reserves:
                continue
            _hold(held, home[job])
        take(table, first, table.time[first] + jobs.allocated[job], state.parts, job)
    counts[WAITING] = kept


@compiled_borrowing
def _is_first(held: BoolArray, home: int) -> bool:
    """Whether nobody before a job holds a reservation on its home, on one of all for a wide job."""
    free = 0
    for machine in range(len(held)):
        if home in (machine, _ALL) and not held[machine]:
            free += 1
    return free > 0


@compiled_borrowing
def _hold(held: BoolArray, home: int) -> None:
    for machine in range(len(held)):
        if home in (machine, _ALL):
            held[machine] = True
