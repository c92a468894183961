"""The simulated cluster: its jobs, its state, and the events that change the state."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.errors import SimulationError
from slurm_rl_plugin.simulator.kernel.compilation import compiled_borrowing
from slurm_rl_plugin.simulator.kernel.workload import Records, Workload, WorkloadHistory, records
from slurm_rl_plugin.units import FloatArray, IntArray

#: The state of a cluster: seconds, jobs and processors; `pending_work` is estimated. The fields
#: from `limited` on keep the reserve (`class_limit`); `wanted` is the reserve after all bounds.
_COUNTS = """
capacity next_arrival pending running idle pending_interactive pending_processors
running_interactive decisions started ended
"""
_NUMBERS = """
now pending_work half_life
limited widest change_interval lift_after idle_after in_force set_at wake starving last_came came
narrow_first most wanted
"""
STATE = np.dtype(
    [(name, np.int64) for name in _COUNTS.split()]
    + [(name, np.float64) for name in _NUMBERS.split()]
)
#: Two orders of the running jobs: a heap by their real end, and a list by their estimated end.
RUNNING = np.dtype(
    [
        ("end_time", np.float64),
        ("end_job", np.int64),
        ("expected_end", np.float64),
        ("expected_job", np.int64),
    ]
)
#: What the running jobs of an account are charged for a second, and its decayed usage.
ACCOUNT = np.dtype([("rate", np.float64), ("usage", np.float64)])
#: The rank of jobs whose order is not static.
NO_RANK: IntArray = np.empty(0, dtype=np.int64)


@compiled_borrowing
def swap_ends(running: Records, one: int, other: int) -> None:
    """Exchange two places of the heap."""
    end, job = running[one].end_time, running[one].end_job
    running[one].end_time, running[one].end_job = running[other].end_time, running[other].end_job
    running[other].end_time, running[other].end_job = end, job


@compiled_borrowing
def _sift_down(running: Records, count: int) -> None:
    place = 0
    while True:
        child = 2 * place + 1
        if child >= count:
            return
        if child + 1 < count and running[child + 1].end_time < running[child].end_time:
            child += 1
        if running[place].end_time <= running[child].end_time:
            return
        swap_ends(running, place, child)
        place = child


@compiled_borrowing
def _sift_up(running: Records, place: int) -> None:
    while place > 0:
        parent = (place - 1) // 2
        if running[parent].end_time <= running[place].end_time:
            return
        swap_ends(running, place, parent)
        place = parent


@compiled_borrowing
def _first_not_before(running: Records, count: int, time: float) -> int:
    """Place of the first of `count` running jobs whose expected end is not before `time`.

    `np.searchsorted` made the simulator slower by up to a fifth.
    """
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if running[middle].expected_end < time:
            low = middle + 1
        else:
            high = middle
    return low


class Cluster(NamedTuple):
    """The jobs and the state of a simulated cluster; functions of this module change the state."""

    jobs: Records  #: of JOB, as `Workload.jobs`, shape [n]
    shares: FloatArray  #: share of each account, shape [accounts]
    past: WorkloadHistory  #: the users of the jobs and their earlier runs
    rank: IntArray  #: place of each job in a static or a kept order, shape [n]; else shape [0]
    state: Records  #: one record of STATE, shape [1]
    pending: IntArray  #: job numbers waiting, the first `state.pending` entries
    start: FloatArray  #: start of each job, NaN until it starts, shape [n]
    running: Records  #: of RUNNING, the first `state.running` records
    accounts: Records  #: of ACCOUNT, shape [accounts]
    usage_time: FloatArray  #: time up to which usage is accounted, shape [1]
    #: started, ended: job numbers in the order of their start and end, ties by number, the first
    #: `state.started` and `state.ended` entries.
    started: IntArray
    ended: IntArray
    ordered: IntArray  #: space for job numbers, shape [n]

    @property
    def now(self) -> float:
        """The clock, seconds."""
        return float(self.state[0].now)

    @property
    def waiting(self) -> IntArray:
        """Numbers of the pending jobs, a view."""
        return self.pending[: self.state[0].pending]


def empty_cluster(
    workload: Workload,
    capacity: int,
    half_life: float = np.inf,
    neighbour: Cluster | None = None,
    rank: IntArray = NO_RANK,
) -> Cluster:
    """A cluster before the first submission: all processors are idle, and no class is limited.

    `half_life`: of past usage, seconds. A `neighbour` is another partition of the site: they share
    their accounts.
    """
    jobs = len(workload.jobs)
    if capacity < 1:
        raise SimulationError(f"a machine with {capacity} processors cannot run jobs.")
    if jobs and int(workload.jobs.processors.max()) > capacity:
        raise SimulationError("a job wider than the machine must be dropped before simulating.")
    state = records(1, STATE)
    state.now = first = float(workload.jobs.submit[0]) if jobs else 0.0
    state.capacity = state.idle = capacity
    state.half_life = half_life
    accounts = records(len(workload.shares), ACCOUNT)
    return Cluster(
        jobs=workload.jobs,
        shares=workload.shares,
        past=workload.past,
        rank=rank,
        state=state,
        pending=np.zeros(jobs + 1, dtype=np.int64),
        start=np.full(jobs, np.nan),
        running=records(min(jobs, capacity) + 1, RUNNING),
        accounts=accounts if neighbour is None else neighbour.accounts,
        usage_time=np.array([first]) if neighbour is None else neighbour.usage_time,
        started=np.zeros(jobs, dtype=np.int64),
        ended=np.zeros(jobs, dtype=np.int64),
        ordered=np.zeros(jobs, dtype=np.int64),
    )


@compiled_borrowing
def account_usage_until(cluster: Cluster, time: float) -> None:
    """Charge running jobs to their accounts up to `time`, with the configured decay."""
    elapsed = time - cluster.usage_time[0]
    if elapsed <= 0.0:
        return
    kept, charged = 1.0, elapsed
    if not np.isinf(cluster.state[0].half_life):
        rate = np.log(2.0) / cluster.state[0].half_life
        kept = np.exp(-rate * elapsed)
        charged = (1.0 - kept) / rate
    for account in range(len(cluster.accounts)):
        usage = cluster.accounts[account].usage * kept
        cluster.accounts[account].usage = usage + cluster.accounts[account].rate * charged
    cluster.usage_time[0] = time


@compiled_borrowing
def start_job(cluster: Cluster, job: int) -> None:
    """Start a pending job now; the caller removes it from `pending` with `forget_started`."""
    jobs = cluster.jobs
    state, now = cluster.state[0], cluster.state[0].now
    processors = jobs[job].processors
    cluster.start[job] = now
    place = state.started  # starts of one time by number, as batch systems report them
    while place > 0 and cluster.started[place - 1] > job:
        before = cluster.started[place - 1]
        if cluster.start[before] < now:
            break
        cluster.started[place] = before
        place -= 1
    cluster.started[place] = job
    state.started += 1
    state.idle -= processors
    state.pending_processors -= processors
    state.pending_work -= jobs[job].estimate * jobs[job].weighed
    if jobs[job].interactive:
        state.pending_interactive -= 1
        state.running_interactive += processors
    cluster.accounts[jobs[job].account].rate += jobs[job].billed
    running = state.running
    cluster.running[running].end_time = now + jobs[job].run_time
    cluster.running[running].end_job = job
    _sift_up(cluster.running, running)
    expected = now + jobs[job].estimate
    place = running
    while place > 0 and cluster.running[place - 1].expected_end > expected:
        cluster.running[place].expected_end = cluster.running[place - 1].expected_end
        cluster.running[place].expected_job = cluster.running[place - 1].expected_job
        place -= 1
    cluster.running[place].expected_end = expected
    cluster.running[place].expected_job = job
    state.running = running + 1


@compiled_borrowing
def end_next_job(cluster: Cluster) -> None:
    """End the job at the root of the heap."""
    jobs = cluster.jobs
    state = cluster.state[0]
    job = cluster.running[0].end_job
    place, end = state.ended, cluster.start[job] + jobs[job].run_time
    while place > 0:  # ends of one time by number: the heap has them in any order
        before = cluster.ended[place - 1]
        if before < job or cluster.start[before] + jobs[before].run_time < end:
            break
        cluster.ended[place] = before
        place -= 1
    cluster.ended[place] = job
    state.ended += 1
    processors = jobs[job].processors
    last = state.running - 1
    cluster.running[0].end_time = cluster.running[last].end_time
    cluster.running[0].end_job = cluster.running[last].end_job
    _sift_down(cluster.running, last)
    expected = cluster.start[job] + jobs[job].estimate
    place = _first_not_before(cluster.running, last + 1, expected)
    while cluster.running[place].expected_job != job:
        place += 1
    for index in range(place, last):
        cluster.running[index].expected_end = cluster.running[index + 1].expected_end
        cluster.running[index].expected_job = cluster.running[index + 1].expected_job
    state.running = last
    state.idle += processors
    if jobs[job].interactive:
        state.running_interactive -= processors
    cluster.accounts[jobs[job].account].rate -= jobs[job].billed


@compiled_borrowing
def arrive(cluster: Cluster) -> None:
    """Queue the next job; with ranks given, `pending` stays sorted by them."""
    jobs = cluster.jobs
    state = cluster.state[0]
    job = state.next_arrival
    state.next_arrival += 1
    place = state.pending
    if len(cluster.rank):
        low, high = 0, place
        while low < high:
            middle = (low + high) // 2
            if cluster.rank[cluster.pending[middle]] < cluster.rank[job]:
                low = middle + 1
            else:
                high = middle
        for index in range(place, low, -1):
            cluster.pending[index] = cluster.pending[index - 1]
        place = low
    cluster.pending[place] = job
    state.pending += 1
    state.pending_processors += jobs[job].processors
    state.pending_interactive += jobs[job].interactive
    state.pending_work += jobs[job].estimate * jobs[job].weighed


@compiled_borrowing
def next_event(cluster: Cluster) -> float:
    """Time of the next end, arrival or change of the limit; inf when nothing more will happen."""
    jobs = cluster.jobs
    time = np.inf
    if cluster.state[0].running > 0:
        time = cluster.running[0].end_time
    arrival = cluster.state[0].next_arrival
    if arrival < len(jobs) and jobs[arrival].submit < time:
        time = jobs[arrival].submit
    if cluster.state[0].limited > 0.0 and cluster.state[0].wake < time:
        time = cluster.state[0].wake
    return time


@compiled_borrowing
def decision_time(event: float, cycle: float) -> float:
    """When the batch system looks at its queue after an event: at once, or at the next cycle."""
    if cycle <= 0.0:
        return event
    # rounding can put the multiple just below the event, which would then never happen
    return max(np.ceil(event / cycle) * cycle, event)


@compiled_borrowing
def advance(cluster: Cluster, time: float) -> None:
    """Move the clock to `time`, not before now, through all events: ends first, then arrivals."""
    state = cluster.state[0]
    while state.running > 0 and cluster.running[0].end_time <= time:
        account_usage_until(cluster, cluster.running[0].end_time)
        end_next_job(cluster)
    account_usage_until(cluster, time)
    while state.next_arrival < len(cluster.jobs):
        if cluster.jobs[state.next_arrival].submit > time:
            break
        arrive(cluster)
    state.now = time
    if state.wake <= time:
        state.wake = np.inf


@compiled_borrowing
def forget_started(cluster: Cluster) -> None:
    """Drop started jobs from `pending`, keeping the order of the others."""
    kept = 0
    for place in range(cluster.state[0].pending):
        job = cluster.pending[place]
        if np.isnan(cluster.start[job]):
            cluster.pending[kept] = job
            kept += 1
    cluster.state[0].pending = kept
