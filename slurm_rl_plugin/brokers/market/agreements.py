"""What a market has agreed upon: jobs, their guarantees, and where each stands now."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_borrowing
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: Indices into `Agreements.counts`.
WAITING, RUNNING, NEXT = 0, 1, 2


class MarketJobs(NamedTuple):
    """Jobs in order of submission; columns of shape [n].

    Attributes:
        submit: seconds.
        run_time: seconds that a job will really run.
        allocated: seconds that it asks for and is given; never less than it runs.
        processors: that it asks for.
        splits: whether it may run on several of them at once.
        interactive: whether it is of that class.
        reach: machines that its request gets to, shape [n, machines].
    """

    submit: FloatArray
    run_time: FloatArray
    allocated: FloatArray
    processors: IntArray
    splits: BoolArray
    interactive: BoolArray
    reach: BoolArray


class Agreements(NamedTuple):
    """The changing state of a market; functions of the market change it in place.

    Attributes:
        promised: latest start that was agreed, NaN before; shape [n]. Its end is `allocated` later.
        planned: start in the present schedule, in which every job has a place; shape [n].
        start: start, NaN until then; shape [n].
        price: that was agreed; shape [n].
        parts: processors on each machine, as planned and then as run; shape [n, machines].
        waiting: jobs with an agreement that have not started, the first counts[WAITING].
        running: jobs that run, the first counts[RUNNING].
        lane_job: the job on each processor, -1 for none; shape [lanes].
        capacity: processors of each machine.
        counts: see the index names above.
    """

    promised: FloatArray
    planned: FloatArray
    start: FloatArray
    price: FloatArray
    parts: IntArray
    waiting: IntArray
    running: IntArray
    lane_job: IntArray
    capacity: IntArray
    counts: IntArray


def no_agreements(jobs: int, capacity: IntArray) -> Agreements:
    """A market before the first request."""
    return Agreements(
        promised=np.full(jobs, np.nan),
        planned=np.full(jobs, np.inf),
        start=np.full(jobs, np.nan),
        price=np.full(jobs, np.nan),
        parts=np.zeros((jobs, len(capacity)), dtype=np.int64),
        waiting=np.empty(jobs, dtype=np.int64),
        running=np.empty(jobs, dtype=np.int64),
        lane_job=np.full(int(capacity.sum()), -1, dtype=np.int64),
        capacity=capacity,
        counts=np.zeros(NEXT + 1, dtype=np.int64),
    )


@compiled_borrowing
def next_event(jobs: MarketJobs, state: Agreements) -> float:
    """When the next job is submitted, ends, or has its planned start; inf when nothing follows."""
    counts, time = state.counts, np.inf
    if counts[NEXT] < len(jobs.submit):
        time = jobs.submit[counts[NEXT]]
    for job in state.running[: counts[RUNNING]]:
        time = min(time, state.start[job] + jobs.run_time[job])
    for job in state.waiting[: counts[WAITING]]:
        time = min(time, state.planned[job])
    return time


@compiled_borrowing
def end_jobs(jobs: MarketJobs, state: Agreements, now: float) -> None:
    """Let everything end that ends by now."""
    kept = 0
    for place in range(state.counts[RUNNING]):
        job = state.running[place]
        if state.start[job] + jobs.run_time[job] > now:
            state.running[kept] = job
            kept += 1
            continue
        for lane in range(len(state.lane_job)):
            if state.lane_job[lane] == job:
                state.lane_job[lane] = -1
    state.counts[RUNNING] = kept


@compiled_borrowing
def _settle_lanes(state: Agreements, job: int) -> None:
    """Give a starting job its processors: the first idle ones of each of its machines."""
    first = 0
    for machine in range(len(state.capacity)):
        last = first + state.capacity[machine]
        left = state.parts[job, machine]
        for lane in range(first, last):
            if left > 0 and state.lane_job[lane] < 0:
                state.lane_job[lane] = job
                left -= 1
        first = last


@compiled_borrowing
def start_planned(state: Agreements, now: float) -> None:
    """Start every job whose planned start has come."""
    counts, kept = state.counts, 0
    for place in range(counts[WAITING]):
        job = state.waiting[place]
        if state.planned[job] > now:
            state.waiting[kept] = job
            kept += 1
            continue
        state.start[job] = now
        _settle_lanes(state, job)
        state.running[counts[RUNNING]] = job
        counts[RUNNING] += 1
    counts[WAITING] = kept


@compiled
def sort_waiting(state: Agreements, key: FloatArray, found: IntArray) -> None:
    """Fill in the waiting jobs by a column of shape [n], ties in the order of their agreements."""
    count = state.counts[WAITING]
    values = np.empty(count)
    for place in range(count):
        values[place] = key[state.waiting[place]]
    order = np.argsort(values, kind="mergesort")
    for place in range(count):
        found[place] = state.waiting[order[place]]
