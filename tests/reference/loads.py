"""Small loads for the tests, in the shapes that the kernel and the readable simulator take."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.domain import (
    EndedJobs,
    JobTable,
    PendingJobs,
    QueueSnapshot,
    RunningJobs,
    StartedJobs,
)
from slurm_rl_plugin.domain.jobs import empty_job_table
from slurm_rl_plugin.features.history.run_history import FADING_TIMES
from slurm_rl_plugin.simulator.kernel.workload import Workload, nothing_past
from tests.reference.readable_past_runs import Request
from tests.reference.readable_simulator import Job, Moment, served


def random_workload(
    seed: int,
    jobs: int = 150,
    capacity: int = 12,
    *,
    parallel: bool,
    exact: bool = False,
    accounts: int = 3,
) -> Workload:
    """A queueing load with many ties: whole seconds, few distinct run times and estimates.

    Every fourth job has a run time in eighths of a second of its own. `exact` makes the estimates
    the run times; otherwise half of them are too short or too long. Each job is of another user.
    """
    rng = np.random.default_rng(seed)
    processors = rng.integers(1, capacity + 1, jobs) if parallel else np.ones(jobs, dtype=np.int64)
    run_time = rng.choice([20.0, 60.0, 100.0, 300.0, 900.0], jobs)
    odd = rng.random(jobs) < 0.25
    run_time[odd] = rng.integers(8, 4000, int(odd.sum())) / 8
    gap = 1.4 * float((run_time * processors).mean()) / capacity
    submit = np.floor(np.cumsum(rng.exponential(gap, jobs) * (rng.random(jobs) < 0.6)))
    estimate = run_time.copy()
    if not exact:
        wrong = rng.random(jobs) < 0.5
        estimate[wrong] = rng.choice([40.0, 60.0, 200.0, 900.0], int(wrong.sum()))
    shares = rng.dirichlet(np.full(accounts, 2.0))
    time_limit = np.where(rng.random(jobs) < 0.5, estimate, 1000.0)
    each = np.arange(jobs)
    return Workload.of(
        submit=submit,
        run_time=run_time,
        estimate=estimate,
        time_limit=time_limit,
        processors=processors.astype(np.int64),
        account=rng.integers(0, accounts, jobs),
        interactive=rng.random(jobs) < 0.4,
        shares=shares,
        past=nothing_past(each, each, time_limit, processors),
    )


def workload_of(submit: ArrayLike, run_time: ArrayLike, **columns: ArrayLike) -> Workload:
    """Jobs of one processor and one account that ask for what they run, unless columns differ."""
    count = np.size(submit)
    usual: dict[str, ArrayLike] = {
        "submit": np.asarray(submit, dtype=np.float64),
        "run_time": np.asarray(run_time, dtype=np.float64),
        "processors": np.ones(count, dtype=np.int64),
        "account": np.zeros(count, dtype=np.int64),
        "interactive": np.zeros(count, dtype=np.bool_),
        "shares": np.ones(1),
    }
    usual |= {"estimate": usual["run_time"], "time_limit": usual["run_time"], **columns}
    given = {name: each if name == "past" else np.asarray(each) for name, each in usual.items()}
    return Workload.of(**given)


def users_workload(seed: int, jobs: int = 80, *, parallel: bool, large: bool = False) -> Workload:
    """A `random_workload` of three users with few templates, whose runs cross most bounds.

    A quarter of the jobs ask for no time: they are of one template for each width, and to a
    prediction they ask for two days. `large` makes all eight times as wide, lets the widest ask
    for 1536 core-hours or a little more, and most runs last long enough for one of the users
    to pay for such a request at times.
    """
    workload = random_workload(seed, jobs, parallel=parallel)
    rng = np.random.default_rng(seed + 1000)
    processors = rng.choice([1, 4, 9], jobs) if parallel else workload.processors
    run_time = np.where(rng.random(jobs) < 0.1, rng.choice([7200.0, 9000.0, 50_000.0], jobs), 0.0)
    asked = rng.choice([600.0, 9000.0, 300_000.0], jobs)
    asked[rng.random(jobs) < 0.25] = -1.0
    user = rng.integers(0, 3, jobs)
    if large:
        asked = np.where(asked > 600.0, rng.choice([76_800.0, 80_000.0], jobs), asked)
        user[rng.random(jobs) < 0.85] = 0
        run_time = np.where(rng.random(jobs) < 0.02, 7500.0, rng.choice([2400.0, 7000.0], jobs))
        processors = processors * 8
    kinds = np.column_stack([user, processors, asked])
    template = np.unique(kinds, axis=0, return_inverse=True)[1].reshape(-1)
    past = nothing_past(
        user, template.astype(np.int64), np.where(asked > 0, asked, np.nan), processors
    )
    return workload.having(
        submit=workload.submit * (2.0 if parallel else 1.0),
        run_time=np.maximum(workload.run_time, run_time),
        time_limit=np.where(asked > 0, asked, workload.estimate),
        processors=processors.astype(np.int64),
        past=past,
    )


def requests_of(workload: Workload) -> list[Request]:
    """What each job asks for and whose it is."""
    past = workload.past
    asked = past.asked[past.template]
    columns = (past.user, past.template, asked, workload.processors)
    return [Request(*values) for values in zip(*(each.tolist() for each in columns), strict=True)]


def jobs_of(workload: Workload) -> list[Job]:
    """The same jobs, one by one."""
    columns = (
        workload.submit,
        workload.run_time,
        workload.estimate,
        workload.processors,
        workload.account,
        workload.interactive,
    )
    return [Job(*values) for values in zip(*(each.tolist() for each in columns), strict=True)]


def table_of(workload: Workload) -> JobTable:
    """The columns that an ordering rule and a snapshot hold; limits equal to estimates are NaN."""
    count = len(workload.submit)
    zero = np.zeros(count, dtype=np.int64)
    unknown = workload.time_limit == workload.estimate
    return JobTable(
        job_id=np.arange(count),
        submit=workload.submit,
        eligible=workload.submit,
        processors=workload.processors,
        time_limit=np.where(unknown, np.nan, workload.time_limit),
        account=workload.account,
        user=zero,
        partition=zero,
        interactive=workload.interactive,
    )


def snapshot_of(
    workload: Workload, moment: Moment, capacity: int, half_life: float = np.inf
) -> QueueSnapshot:
    """The snapshot that a head node would take, from nothing but the starts so far."""
    jobs = table_of(workload)
    pending = np.array(moment.pending, dtype=np.int64)
    running = np.array(moment.running, dtype=np.int64)
    usage = decayed_usage(workload, moment.start, moment.now, half_life)
    return QueueSnapshot(
        now=moment.now,
        pending=PendingJobs.untouched(jobs.select(pending)),
        running=RunningJobs(jobs=jobs.select(running), start=np.array(moment.start)[running]),
        started=StartedJobs(jobs=empty_job_table(), start=np.empty(0)),
        capacity=capacity,
        accounts=tuple(f"a{index}" for index in range(len(workload.shares))),
        partitions=("p",),
        shares=workload.shares,
        usage=usage / usage.sum() if usage.sum() > 0 else usage,
    )


def told_snapshot(
    workload: Workload, moment: Moment, capacity: int, since: float, half_life: float = np.inf
) -> QueueSnapshot:
    """`snapshot_of` with the users of the jobs, and with those that ended after a time."""
    snapshot = snapshot_of(workload, moment, capacity, half_life)
    jobs, start = replace(table_of(workload), user=workload.past.user), np.array(moment.start)
    ends = start + workload.run_time
    ended = np.flatnonzero((ends > since) & (ends <= moment.now))
    running = np.array(moment.running, dtype=np.int64)
    waiting = jobs.select(np.array(moment.pending, dtype=np.int64))
    return replace(
        snapshot,
        pending=PendingJobs.untouched(waiting),
        running=RunningJobs(jobs=jobs.select(running), start=start[running]),
        ended=EndedJobs(jobs=jobs.select(ended), start=start[ended], end=ends[ended]),
        users=tuple(f"u{index}" for index in range(len(workload.past.users))),
    )


def decayed_usage(
    workload: Workload, start: list[float], now: float, half_life: float
) -> np.ndarray:
    """Integral of each account's processors in use times 2^(-age/half_life)."""
    if np.isinf(half_life):
        return np.array(served(jobs_of(workload), start, now, len(workload.shares)))
    usage = np.zeros(len(workload.shares))
    rate = np.log(2.0) / half_life
    for job, begin in enumerate(start):
        if begin < now:
            end = min(begin + workload.run_time[job], now)
            weight = (np.exp(rate * (end - now)) - np.exp(rate * (begin - now))) / rate
            usage[workload.account[job]] += workload.processors[job] * weight
    return usage


def arrived_by(workload: Workload, now: float) -> np.ndarray:
    """Interactive submissions so far, each faded by its age, for each of FADING_TIMES."""
    age = now - workload.submit[workload.interactive & (workload.submit <= now)]
    return np.array([np.exp(-age / fading).sum() for fading in FADING_TIMES])


def longest_by(workload: Workload, moment: Moment) -> float:
    """The longest wait so far, which halves in 30 days, seconds."""
    longest = 0.0
    for submit, begin in zip(workload.submit.tolist(), moment.start, strict=True):
        until = begin if begin <= moment.now else moment.now  # NaN before its start
        longest = max(longest, (until - submit) * 0.5 ** ((moment.now - until) / (30 * 86400.0)))
    return longest


def log_of(
    workload: Workload,
    *,
    accounts: tuple[str, ...] | None = None,
    available: int | None = 12,
    kind: str = "swf",
    time_limit: np.ndarray | None = None,
    partitions: tuple[str, ...] = ("p",),
) -> JobLog:
    """The jobs of a workload as a log, without recorded starts."""
    count = len(workload.submit)
    nothing = np.full(count, np.nan)
    zero = np.zeros(count, dtype=np.int64)
    return JobLog(
        job_id=np.arange(1, count + 1),
        submit=workload.submit,
        eligible=workload.submit,
        start=nothing,
        run_time=workload.run_time,
        processors=workload.processors,
        time_limit=nothing if time_limit is None else time_limit,
        account=workload.account,
        user=zero,
        partition=zero,
        accounts=accounts or tuple(f"a{index}" for index in range(len(workload.shares))),
        users=("u",),
        partitions=partitions,
        processors_available=available,
        kind=kind,
    )
