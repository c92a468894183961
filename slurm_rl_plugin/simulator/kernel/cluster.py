"""The simulated cluster: the arrays that change while it runs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.simulator.kernel.workload import Workload, charge_of, size_of
from slurm_rl_plugin.units import FloatArray, IntArray

#: Indices into `Cluster.counts`.
NEXT_ARRIVAL, PENDING, RUNNING, IDLE, PENDING_INTERACTIVE, PENDING_PROCESSORS = 0, 1, 2, 3, 4, 5
RUNNING_INTERACTIVE, DECISIONS, STARTED, ENDED = 6, 7, 8, 9
#: Indices into `Cluster.clock`.
NOW, PENDING_WORK = 0, 1
#: Indices into `Cluster.limit`.
LIMITED, WIDEST, CHANGE_INTERVAL, LIFT_AFTER, IDLE_AFTER = 0, 1, 2, 3, 4
IN_FORCE, SET_AT, WAKE, STARVING, LAST_CAME, CAME, NARROW_FIRST, MOST = 5, 6, 7, 8, 9, 10, 11, 12
#: What is wanted free of batch work after all bounds; behind it, where other resources than
#: processors are limited too, 1 for each job that asks for much of one.
WANTED = 13


@compiled_borrowing
def _sift_down(end_time: FloatArray, end_job: IntArray, count: int) -> None:
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
def _sift_up(end_time: FloatArray, end_job: IntArray, place: int) -> None:
    """Move the job at `place` up to its place."""
    while place > 0:
        parent = (place - 1) // 2
        if end_time[parent] <= end_time[place]:
            return
        end_time[place], end_time[parent] = end_time[parent], end_time[place]
        end_job[place], end_job[parent] = end_job[parent], end_job[place]
        place = parent


@compiled_borrowing
def _first_not_before(times: FloatArray, count: int, time: float) -> int:
    """Place of the first of `count` sorted times that is not before `time`."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if times[middle] < time:
            low = middle + 1
        else:
            high = middle
    return low


class Cluster(NamedTuple):
    """The changing state of a simulated cluster; functions of this module change it in place.

    Attributes:
        clock: [now, estimated work pending].
        counts: see the index names above.
        capacity: processors, shape [1].
        limit: how the reserve is kept; see `class_limit.limit_state`.
        pending: job numbers waiting, the first counts[PENDING] entries.
        start: start of each job, NaN until it starts, shape [n].
        end_time, end_job: heap of running jobs by their real end.
        expected_end, expected_job: running jobs sorted by their estimated end.
        usage_time: time up to which usage is accounted, shape [1].
        account_rate: what running jobs of each account are charged for a second: processors, or
            what the site bills.
        account_usage: what each account was charged, decayed.
        half_life: seconds after which usage counts half, shape [1]; inf for no decay.
        started, ended: job numbers in the order of their start and end, ties by number, the first
            counts[STARTED] and counts[ENDED] entries.
    """

    clock: FloatArray
    counts: IntArray
    capacity: IntArray
    limit: FloatArray
    pending: IntArray
    start: FloatArray
    end_time: FloatArray
    end_job: IntArray
    expected_end: FloatArray
    expected_job: IntArray
    usage_time: FloatArray
    account_rate: FloatArray
    account_usage: FloatArray
    half_life: FloatArray
    started: IntArray
    ended: IntArray


def empty_cluster(
    workload: Workload,
    capacity: int,
    half_life: float = np.inf,
    beside: Cluster | None = None,
    limit: FloatArray | None = None,
) -> Cluster:
    """A cluster with every processor idle, before the first submission.

    Args:
        workload: the jobs.
        capacity: processors.
        half_life: of past usage, seconds.
        beside: another partition of the same site, which keeps account of usage with this one.
        limit: how the reserve is kept; by default free processors, as the papers' hold action.

    Raises:
        SimulationError: no processors, or a job wider than the machine.
    """
    jobs = len(workload.submit)
    if capacity < 1:
        raise SimulationError(f"a machine with {capacity} processors cannot run jobs.")
    if jobs and int(workload.processors.max()) > capacity:
        raise SimulationError("a job wider than the machine must be dropped before simulating.")
    places = min(jobs, capacity) + 1
    accounts = len(workload.shares)
    counts = np.zeros(ENDED + 1, dtype=np.int64)
    counts[IDLE] = capacity
    first = float(workload.submit[0]) if jobs else 0.0
    return Cluster(
        clock=np.array([first, 0.0]),
        counts=counts,
        capacity=np.array([capacity], dtype=np.int64),
        limit=np.zeros(WANTED + 1) if limit is None else limit,
        pending=np.zeros(jobs + 1, dtype=np.int64),
        start=np.full(jobs, np.nan),
        end_time=np.zeros(places),
        end_job=np.zeros(places, dtype=np.int64),
        expected_end=np.zeros(places),
        expected_job=np.zeros(places, dtype=np.int64),
        usage_time=np.array([first]) if beside is None else beside.usage_time,
        account_rate=np.zeros(accounts) if beside is None else beside.account_rate,
        account_usage=np.zeros(accounts) if beside is None else beside.account_usage,
        half_life=np.array([half_life]),
        started=np.zeros(jobs, dtype=np.int64),
        ended=np.zeros(jobs, dtype=np.int64),
    )


@compiled_borrowing
def account_usage_until(cluster: Cluster, time: float) -> None:
    """Charge running jobs to their accounts up to `time`, with the configured decay."""
    elapsed = time - cluster.usage_time[0]
    if elapsed <= 0.0:
        return
    kept, charged = 1.0, elapsed
    if not np.isinf(cluster.half_life[0]):
        rate = np.log(2.0) / cluster.half_life[0]
        kept = np.exp(-rate * elapsed)
        charged = (1.0 - kept) / rate
    for account in range(len(cluster.account_rate)):
        usage = cluster.account_usage[account] * kept
        cluster.account_usage[account] = usage + cluster.account_rate[account] * charged
    cluster.usage_time[0] = time


@compiled_borrowing
def whole_usage(cluster: Cluster) -> float:
    """Decayed usage of all accounts together."""
    whole = 0.0
    for account in range(len(cluster.account_usage)):
        whole += cluster.account_usage[account]
    return whole


@compiled_borrowing
def _note_start(cluster: Cluster, job: int) -> None:
    """Append to `started`, starts of the same time by number: no batch system tells more."""
    place = cluster.counts[STARTED]
    while place > 0 and cluster.started[place - 1] > job:
        before = cluster.started[place - 1]
        if cluster.start[before] < cluster.clock[NOW]:
            break
        cluster.started[place] = before
        place -= 1
    cluster.started[place] = job
    cluster.counts[STARTED] += 1


@compiled_borrowing
def start_job(workload: Workload, cluster: Cluster, job: int) -> None:
    """Start a pending job now; the caller removes it from `pending` with `forget_started`."""
    counts, now = cluster.counts, cluster.clock[NOW]
    processors = workload.processors[job]
    cluster.start[job] = now
    _note_start(cluster, job)
    counts[IDLE] -= processors
    counts[PENDING_PROCESSORS] -= processors
    cluster.clock[PENDING_WORK] -= workload.estimate[job] * size_of(workload, job)
    if workload.interactive[job]:
        counts[PENDING_INTERACTIVE] -= 1
        counts[RUNNING_INTERACTIVE] += processors
    cluster.account_rate[workload.account[job]] += charge_of(workload, job)
    running = counts[RUNNING]
    cluster.end_time[running] = now + workload.run_time[job]
    cluster.end_job[running] = job
    _sift_up(cluster.end_time, cluster.end_job, running)
    expected = now + workload.estimate[job]
    place = running
    while place > 0 and cluster.expected_end[place - 1] > expected:
        cluster.expected_end[place] = cluster.expected_end[place - 1]
        cluster.expected_job[place] = cluster.expected_job[place - 1]
        place -= 1
    cluster.expected_end[place] = expected
    cluster.expected_job[place] = job
    counts[RUNNING] = running + 1


@compiled_borrowing
def _note_end(workload: Workload, cluster: Cluster, job: int) -> None:
    """Append to `ended`; the heap gives ends at the same time in any order."""
    place = cluster.counts[ENDED]
    end = cluster.start[job] + workload.run_time[job]
    while place > 0:
        before = cluster.ended[place - 1]
        if before < job or cluster.start[before] + workload.run_time[before] < end:
            break
        cluster.ended[place] = before
        place -= 1
    cluster.ended[place] = job
    cluster.counts[ENDED] += 1


@compiled_borrowing
def end_next_job(workload: Workload, cluster: Cluster) -> None:
    """End the job at the root of the heap."""
    counts = cluster.counts
    job = cluster.end_job[0]
    _note_end(workload, cluster, job)
    processors = workload.processors[job]
    last = counts[RUNNING] - 1
    cluster.end_time[0] = cluster.end_time[last]
    cluster.end_job[0] = cluster.end_job[last]
    _sift_down(cluster.end_time, cluster.end_job, last)
    expected = cluster.start[job] + workload.estimate[job]
    place = _first_not_before(cluster.expected_end, last + 1, expected)
    while cluster.expected_job[place] != job:
        place += 1
    for index in range(place, last):
        cluster.expected_end[index] = cluster.expected_end[index + 1]
        cluster.expected_job[index] = cluster.expected_job[index + 1]
    counts[RUNNING] = last
    counts[IDLE] += processors
    if workload.interactive[job]:
        counts[RUNNING_INTERACTIVE] -= processors
    cluster.account_rate[workload.account[job]] -= charge_of(workload, job)


@compiled_borrowing
def arrive(workload: Workload, cluster: Cluster, rank: IntArray) -> None:
    """Queue the next job; with ranks given, `pending` stays sorted by them."""
    counts = cluster.counts
    job = counts[NEXT_ARRIVAL]
    counts[NEXT_ARRIVAL] += 1
    place = counts[PENDING]
    if len(rank):
        low, high = 0, place
        while low < high:
            middle = (low + high) // 2
            if rank[cluster.pending[middle]] < rank[job]:
                low = middle + 1
            else:
                high = middle
        for index in range(place, low, -1):
            cluster.pending[index] = cluster.pending[index - 1]
        place = low
    cluster.pending[place] = job
    counts[PENDING] += 1
    counts[PENDING_PROCESSORS] += workload.processors[job]
    counts[PENDING_INTERACTIVE] += workload.interactive[job]
    cluster.clock[PENDING_WORK] += workload.estimate[job] * size_of(workload, job)


@compiled_borrowing
def next_event(workload: Workload, cluster: Cluster) -> float:
    """Time of the next end, arrival or change of the limit; inf when nothing more will happen."""
    time = np.inf
    if cluster.counts[RUNNING] > 0:
        time = cluster.end_time[0]
    arrival = cluster.counts[NEXT_ARRIVAL]
    if arrival < len(workload.submit) and workload.submit[arrival] < time:
        time = workload.submit[arrival]
    if cluster.limit[LIMITED] > 0.0 and cluster.limit[WAKE] < time:
        time = cluster.limit[WAKE]
    return time


@compiled_borrowing
def decision_time(event: float, cycle: float) -> float:
    """When the batch system looks at its queue after an event: at once, or at the next cycle."""
    if cycle <= 0.0:
        return event
    # rounding can put the multiple just below the event, which would then never happen
    return max(np.ceil(event / cycle) * cycle, event)


@compiled_borrowing
def advance(workload: Workload, cluster: Cluster, time: float, rank: IntArray) -> None:
    """Move the clock to `time` and let everything up to it happen: ends first, then arrivals.

    Args:
        workload: the jobs.
        cluster: changed in place.
        time: seconds; never before now.
        rank: place of each job in a static order, or an empty array.
    """
    counts = cluster.counts
    while counts[RUNNING] > 0 and cluster.end_time[0] <= time:
        account_usage_until(cluster, cluster.end_time[0])
        end_next_job(workload, cluster)
    account_usage_until(cluster, time)
    while counts[NEXT_ARRIVAL] < len(workload.submit):
        if workload.submit[counts[NEXT_ARRIVAL]] > time:
            break
        arrive(workload, cluster, rank)
    cluster.clock[NOW] = time
    if cluster.limit[WAKE] <= time:
        cluster.limit[WAKE] = np.inf


@compiled_borrowing
def forget_started(cluster: Cluster) -> None:
    """Drop started jobs from `pending`, keeping the order of the others."""
    kept = 0
    for place in range(cluster.counts[PENDING]):
        job = cluster.pending[place]
        if np.isnan(cluster.start[job]):
            cluster.pending[kept] = job
            kept += 1
    cluster.counts[PENDING] = kept
