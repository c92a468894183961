"""The scheduler of the RLScheduler benchmark (SC20), which differs from this package's kernel.

The job that a rule chooses is kept until it starts, whatever arrives meanwhile. Arrivals join the
queue only while time moves: while the chosen job waits for processors or the queue is empty.
Backfilling is weaker than EASY: in the order of submission under every rule, only for jobs that end
strictly before the shadow time, without spare processors.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.accounting.log_file import LogFile
from slurm_rl_plugin.papers.study.trials import archived_log
from slurm_rl_plugin.simulator.kernel.compilation import compiled
from slurm_rl_plugin.units import FloatArray, IntArray

_JOB_NUMBER, _SUBMIT, _RUN_TIME, _ALLOCATED, _REQUESTED_PROCESSORS, _REQUESTED_TIME = range(6)
#: Indices of the columns above in a line of the Standard Workload Format.
_COLUMNS = (0, 1, 3, 4, 7, 8)
#: Run time of the benchmark where the log has none, seconds.
_UNKNOWN_RUN_TIME = 10.0
_WHERE = (
    "which are at the Parallel Workloads Archive and at github.com/DIR-LAB/deep-batch-scheduler"
)


class BenchmarkJobs(NamedTuple):
    """Jobs in the order of their number; columns of shape [n]."""

    submit: FloatArray  #: seconds since the log's epoch; never goes back
    run_time: FloatArray  #: seconds, > 0
    requested: FloatArray  #: requested seconds; the run time where none were requested
    processors: IntArray  #: the larger of allocated and requested processors

    def part(self, first: int, count: int) -> BenchmarkJobs:
        """`count` jobs from the index `first` on."""
        part = slice(first, first + count)
        times = (self.submit[part], self.run_time[part], self.requested[part])
        return BenchmarkJobs(*times, self.processors[part])


def read_benchmark_jobs(folder: Path, name: str) -> BenchmarkJobs:
    """Read `folder`/`name`.swf.gz or `folder`/`name`.swf.

    Unlike the package's reader this keeps jobs of unknown run time and takes the larger of the two
    processor counts, as the benchmark does.
    """
    log = LogFile(archived_log(folder, name, _WHERE))
    text = b"".join(log.batches()).decode("latin-1")
    try:
        rows = np.loadtxt(text.splitlines(), comments=";", usecols=_COLUMNS, ndmin=2)
    except ValueError:
        raise log.fault("a line is no job of 18 numbers; copy the file again") from None
    rows = rows[rows[:, _RUN_TIME] != 0]
    rows = rows[np.argsort(rows[:, _JOB_NUMBER], kind="stable")]
    run_time, requested = rows[:, _RUN_TIME], rows[:, _REQUESTED_TIME]
    return BenchmarkJobs(
        submit=rows[:, _SUBMIT].copy(),
        run_time=np.where(run_time < 0, _UNKNOWN_RUN_TIME, run_time),
        requested=np.where(requested == -1, run_time, requested),
        processors=rows[:, [_ALLOCATED, _REQUESTED_PROCESSORS]].max(axis=1).astype(np.int64),
    )


FCFS, SJF, SAF, F1, WFP3, UNICEP = range(6)
RULES = {"FCFS": FCFS, "SJF": SJF, "SAF": SAF, "F1": F1, "WFP3": WFP3, "UNICEP": UNICEP}

#: The start time of a queued job in the benchmark; its WFP3 and UNICEP compute a wait from it.
_UNSET_START = -1.0
#: Indices into `_State.counts`.
_ARRIVED, _QUEUED, _RUNNING, _FREE = range(4)


class _State(NamedTuple):
    """The state of a run: [now], counts, and lists of jobs with counts[...] valid entries.

    `end`, `expected_end`, `start` and `score` are indexed by job number.
    """

    clock: FloatArray
    counts: IntArray
    queue: IntArray
    running: IntArray
    start: FloatArray
    end: FloatArray
    expected_end: FloatArray
    score: FloatArray


def benchmark_starts(
    jobs: BenchmarkJobs,
    capacity: int,
    rule: str,
    *,
    backfilling: bool = False,
    wait_is_known: bool = False,
) -> FloatArray:
    """Start of each job on an empty machine, seconds, shape [n].

    Args:
        backfilling: the benchmark's own, not EASY.
        wait_is_known: whether WFP3 and UNICEP use the time that a job has waited; the benchmark's
            rules do not.
    """
    state = _empty_machine(jobs, capacity)
    _schedule(jobs, state, RULES[rule], wait_is_known, backfilling)
    return state.start


def _empty_machine(jobs: BenchmarkJobs, capacity: int) -> _State:
    count = len(jobs.submit)
    return _State(
        clock=np.array([jobs.submit[0]]),
        counts=np.array([0, 0, 0, capacity], dtype=np.int64),
        queue=np.zeros(count, dtype=np.int64),
        running=np.zeros(count, dtype=np.int64),
        start=np.full(count, np.nan),
        end=np.zeros(count),
        expected_end=np.zeros(count),
        score=np.zeros(count),
    )


@compiled
def _score(jobs: BenchmarkJobs, job: int, rule: int, start: float) -> float:
    """The score of a job that would start at `start`; the lowest goes first."""
    submit, requested = jobs.submit[job], jobs.requested[job]
    processors = jobs.processors[job]
    wait = start - submit
    if rule == SJF:
        return requested
    if rule == SAF:
        return requested * processors
    if rule == F1:
        length = np.log10(requested if requested > 0.0 else 0.1)
        return length * processors + 870.0 * np.log10(submit if submit > 0.0 else 0.1)
    if rule == WFP3:
        return -((wait / requested) ** 3) * processors
    if rule == UNICEP:
        return -(wait + 1e-15) / (np.log2(processors + 1e-15) * requested)
    return submit


@compiled
def _schedule(
    jobs: BenchmarkJobs, state: _State, rule: int, wait_is_known: bool, backfilling: bool
) -> None:
    counts = state.counts
    for _ in range(len(jobs.submit)):
        while counts[_QUEUED] == 0:
            if not _move_time(jobs, state):
                return  # the rest of the jobs was backfilled
        chosen = _choose(jobs, state, rule, wait_is_known)
        if backfilling and jobs.processors[chosen] > counts[_FREE]:
            shadow = _shadow_time(jobs, state, chosen)
            _sort(state.queue, counts[_QUEUED], state.score)
            while jobs.processors[chosen] > counts[_FREE]:
                _sort(state.queue, counts[_QUEUED], jobs.submit)
                _backfill(jobs, state, shadow)
                _move_time(jobs, state)
        while jobs.processors[chosen] > counts[_FREE]:
            _move_time(jobs, state)
        _start(jobs, state, chosen)


@compiled
def _choose(jobs: BenchmarkJobs, state: _State, rule: int, wait_is_known: bool) -> int:
    """The job with the lowest score; ties go to the first submitted, then to the first queued."""
    start = state.clock[0] if wait_is_known else _UNSET_START
    best = state.queue[0]
    for place in range(state.counts[_QUEUED]):
        job = state.queue[place]
        score = state.score[job] = _score(jobs, job, rule, start)
        if score < state.score[best] or (
            score == state.score[best] and jobs.submit[job] < jobs.submit[best]
        ):
            best = job
    return best


@compiled
def _move_time(jobs: BenchmarkJobs, state: _State) -> bool:
    """Process the next event, an arrival before an end at the same time; False without one."""
    counts = state.counts
    end = np.inf
    if counts[_RUNNING] > 0:
        _sort(state.running, counts[_RUNNING], state.end)
        end = state.end[state.running[0]]
    arrival = counts[_ARRIVED]
    if arrival < len(jobs.submit) and jobs.submit[arrival] <= end:
        state.clock[0] = max(state.clock[0], jobs.submit[arrival])
        state.queue[counts[_QUEUED]] = arrival
        counts[_QUEUED] += 1
        counts[_ARRIVED] += 1
        return True
    if counts[_RUNNING] == 0:
        return False
    state.clock[0] = max(state.clock[0], end)
    counts[_FREE] += jobs.processors[state.running[0]]
    counts[_RUNNING] = _remove(state.running, counts[_RUNNING], state.running[0])
    return True


@compiled
def _start(jobs: BenchmarkJobs, state: _State, job: int) -> None:
    counts, now = state.counts, state.clock[0]
    state.start[job] = now
    state.end[job] = now + jobs.run_time[job]
    state.expected_end[job] = now + jobs.requested[job]
    counts[_FREE] -= jobs.processors[job]
    counts[_QUEUED] = _remove(state.queue, counts[_QUEUED], job)
    state.running[counts[_RUNNING]] = job
    counts[_RUNNING] += 1


@compiled
def _shadow_time(jobs: BenchmarkJobs, state: _State, chosen: int) -> float:
    """When the chosen job fits if running jobs end as requested; it may be in the past."""
    _sort(state.running, state.counts[_RUNNING], state.expected_end)
    free = state.counts[_FREE]
    shadow = state.clock[0]
    for place in range(state.counts[_RUNNING]):
        free += jobs.processors[state.running[place]]
        shadow = state.expected_end[state.running[place]]
        if free >= jobs.processors[chosen]:
            break
    return shadow


@compiled
def _backfill(jobs: BenchmarkJobs, state: _State, shadow: float) -> None:
    """Start jobs that fit and end before the shadow time, in the order of the queue."""
    for job in state.queue[: state.counts[_QUEUED]].copy():
        ends_before = state.clock[0] + jobs.requested[job] < shadow
        if ends_before and jobs.processors[job] <= state.counts[_FREE]:
            _start(jobs, state, job)


@compiled
def _sort(job_numbers: IntArray, count: int, key: FloatArray) -> None:
    """Sort the first `count` in place by key[job]; equal keys keep their order."""
    listed = job_numbers[:count]
    listed[:] = listed[np.argsort(key[listed], kind="mergesort")]


@compiled
def _remove(job_numbers: IntArray, count: int, job: int) -> int:
    place = 0
    while job_numbers[place] != job:
        place += 1
    job_numbers[place : count - 1] = job_numbers[place + 1 : count]
    return count - 1
