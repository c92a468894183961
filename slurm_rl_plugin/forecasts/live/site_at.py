"""A site at one instant: every job that is known, who runs, who waits, what accounts have used."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from slurm_rl_plugin.accounting.port import TEXTS, JobLog
from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.domain.job_class import JobClassifier
from slurm_rl_plugin.domain.machine import Machine
from slurm_rl_plugin.domain.resources import numbers_in
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.features.site import HALF_LIFE
from slurm_rl_plugin.simulator.scoring.site_priority import FairShare
from slurm_rl_plugin.simulator.workloads.log_workload import (
    OF_CLUSTER,
    PreparedLog,
    billed_on_machine,
    prepare_log,
    told_apart,
)
from slurm_rl_plugin.simulator.workloads.machine_load import all_requests
from slurm_rl_plugin.simulator.workloads.site_points import fair_share_of_log
from slurm_rl_plugin.units import DAY, BoolArray, FloatArray, IntArray

_NUMBERS = ("job_id", "submit", "eligible", "processors", "time_limit", "start", "run_time")
#: Columns of numbers, and the names that they index.
_NAMED = (("account", "accounts"), ("user", "users"), ("partition", "partitions"))
#: Rows that waiting jobs may have together: of long arrays no more tasks are played forward.
MOST_WAITING = 30_000
#: Seconds that a job without a limit is taken to ask for, where its partition says nothing either.
_NO_LIMIT = 365.0 * DAY
#: The look has the classes; none is looked up again.
_NO_CLASSES = JobClassifier(rules=())


def joined_log(earlier: JobLog, later: JobLog) -> tuple[JobLog, IntArray]:
    """The jobs of two logs in the order of submission, on the later's machine, and their places."""
    order = np.argsort(np.concatenate([earlier.submit, later.submit]), kind="stable")
    renumbered: dict[str, Any] = {}
    named: dict[str, Any] = {
        name: getattr(later, name) for name in ("kind", "processors_available")
    }
    for column, names in _NAMED:
        known = list(getattr(earlier, names))
        renumbered[column] = numbers_in(known, getattr(later, names), getattr(later, column))
        named[names] = tuple(known)
    for name in TEXTS:
        named[name] = getattr(earlier, name) + getattr(later, name)
    both = earlier.joined(replace(later, **renumbered))
    return replace(both, **named).select(order), order


class PresentJobs(NamedTuple):
    """Jobs of a look."""

    #: Running jobs, then waiting ones, a row for each waiting task of an array. The job's number is
    #: -1 - its row, so that it is none of accounting's.
    log: JobLog
    running: int  #: how many run
    #: Of each waiting row its place among the pending jobs of the look, shape [waiting].
    place: IntArray
    interactive: BoolArray  #: of each row, shape [n]


def present_jobs(snapshot: QueueSnapshot) -> PresentJobs:
    """The jobs of a look that hold or wait for room."""
    place = _waiting_rows(snapshot)
    pending = snapshot.pending.jobs.select(place)
    both, count = snapshot.running.as_requested.joined(pending), len(snapshot.running)
    number = snapshot.pending.qos
    qos = [""] * len(place) if number is None else [snapshot.qos[q] for q in number[place].tolist()]
    limit = np.nan_to_num(both.time_limit, nan=_NO_LIMIT)
    start = np.concatenate([snapshot.running.start, np.full(len(place), snapshot.now)])
    # from when on each could have started, at most now
    eligible = np.where(np.isfinite(both.eligible), both.eligible, both.submit)
    came = np.nan_to_num(np.fmax(both.submit, eligible), nan=snapshot.now)
    came = np.minimum(came, snapshot.now)
    came[:count] = np.minimum(came[:count], snapshot.running.start)
    log = JobLog(
        job_id=-1 - np.arange(len(both)),
        submit=came,
        eligible=came,
        processors=np.maximum(both.processors, 1),
        time_limit=both.time_limit,
        account=both.account,
        user=both.user,
        partition=both.partition,
        requests=both.requests,
        start=start,
        # nothing has ended: what overruns its limit is about to
        run_time=np.maximum(limit, snapshot.now - start + 1.0),
        accounts=snapshot.accounts,
        users=snapshot.users,
        partitions=snapshot.partitions,
        qos=("",) * count + tuple(qos),
        kind="look",
    )
    return PresentJobs(log=log, running=count, place=place, interactive=both.interactive)


def _waiting_rows(snapshot: QueueSnapshot) -> IntArray:
    """The pending job of each waiting row: arrays as often as their tasks, as far as there is room.

    The first rows are one for each job.
    """
    jobs, tasks = np.flatnonzero(snapshot.waits_for_machine), snapshot.pending.tasks
    if tasks is None:
        return jobs
    more = np.repeat(jobs, np.maximum(tasks[jobs] - 1, 0))
    return np.concatenate([jobs, more[: max(MOST_WAITING - len(jobs), 0)]])


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteAt:
    """A site at one instant; jobs are rows of the log."""

    now: float  #: seconds
    #: Every known job in order of submission. Starts and ends after `now` are not looked at.
    prepared: PreparedLog
    running: IntArray  #: who runs, in the order of their starts, shape [r]
    pending: IntArray  #: who waits for room, ascending, shape [p]
    usage: FloatArray  #: what each account was charged until now, decayed, shape [accounts]
    #: When the batch system itself expects each pending job to start, seconds; NaN where it says
    #: nothing; shape [p].
    expected: FloatArray
    priority: FloatArray  #: of each pending job now, as the batch system orders them, shape [p]

    @property
    def knows_runs(self) -> bool:
        """Whether accounting knows any run, or the limits are all that is known of run times."""
        return bool((self.prepared.log.job_id >= 0).any())


def no_history(capacity: int, machine: Machine | None) -> PreparedLog:
    """A history without a run, for a site whose accounting has none yet."""
    none = np.empty(0, dtype=np.int64)
    columns: dict[str, Any] = {
        name: none if name in ("job_id", "processors") else np.empty(0) for name in _NUMBERS
    }
    columns |= {column: none for column, _ in _NAMED} | {names: () for _, names in _NAMED}
    log = JobLog(**columns, kind="look")
    if machine is not None:
        log = replace(log, requests=all_requests(log, machine))
    return PreparedLog(
        log=log,
        interactive=np.empty(0, dtype=np.bool_),
        class_rule="",
        account=none,
        accounts=(),
        shares=np.empty(0),
        shares_from=OF_CLUSTER,
        capacity=capacity,
        machine=machine,
        billed=None if machine is None else billed_on_machine(log, machine),
    )


def site_in_log(prepared: PreparedLog, now: float, half_life: float) -> SiteAt:
    """A site as its accounting alone shows it at a time in the past."""
    log = prepared.log
    running = np.flatnonzero((log.start <= now) & (log.start + log.run_time > now))
    pending = np.flatnonzero((log.submit <= now) & ~(log.start <= now))
    return SiteAt(
        now=now,
        prepared=prepared,
        running=running[np.lexsort((running, log.start[running]))],
        pending=pending,
        usage=usage_until(prepared, now, half_life),
        expected=np.full(len(pending), np.nan),
        priority=np.zeros(len(pending)),
    )


def longest_wait_until(log: JobLog, now: float) -> FloatArray:
    """The longest wait known, and when, seconds, shape [2] (`features.site.longest_wait`)."""
    until = np.minimum(np.where(np.isfinite(log.start), log.start, now), now)
    waits = np.maximum(until - log.submit, 0.0) * 0.5 ** ((now - until) / HALF_LIFE)
    return np.array([np.max(waits, initial=0.0), now])


def usage_until(prepared: PreparedLog, now: float, half_life: float) -> FloatArray:
    """What each account was charged until a time, decayed since the middle of each run."""
    charged = _charged_until(prepared, now, half_life)
    return np.bincount(prepared.account, charged, len(prepared.accounts)).astype(np.float64)


def fair_share_until(prepared: PreparedLog, now: float, half_life: float) -> FairShare | None:
    """The same of accounts and users, as the site's own priority counts it; None on processors."""
    if prepared.machine is None:
        return None
    fair = fair_share_of_log(prepared, prepared.machine)
    charged = _charged_until(prepared, now, half_life)
    usage = np.bincount(fair.association, charged, len(fair.usage)).astype(np.float64)
    return fair.holding(usage, now)


def _charged_until(prepared: PreparedLog, now: float, half_life: float) -> FloatArray:
    """What each job was charged until a time, decayed since the middle of its run, shape [n]."""
    log = prepared.log
    begin = np.minimum(np.where(np.isfinite(log.start), log.start, log.submit), now)
    end = np.minimum(begin + log.run_time, now)
    kept = 0.5 ** ((now - (begin + end) / 2.0) / half_life)
    charged: FloatArray = (end - begin) * prepared.charged * kept
    return charged


def site_now(
    history: PreparedLog, snapshot: QueueSnapshot, half_life: float
) -> tuple[SiteAt, IntArray]:
    """The site at the instant of a look, and of each pending job its place in `site.pending`.

    -1 for one that does not wait for room, or that this machine never holds; shape [pending].
    """
    present = present_jobs(snapshot)
    prepared = _joined(history, snapshot, present)
    number = -1 - prepared.log.job_id
    mine = np.flatnonzero(number >= 0)
    runs = number[mine] < present.running
    running, pending = mine[runs], mine[~runs]
    of_pending = present.place[number[pending] - present.running]
    row = np.full(len(snapshot.pending), -1, dtype=np.int64)
    row[of_pending[::-1]] = np.arange(len(pending))[::-1]  # of an array the first of its tasks
    expected = snapshot.pending.expected
    nothing = np.full(len(pending), np.nan)
    whole = float(usage_until(prepared, snapshot.now, half_life).sum())
    site = SiteAt(
        now=snapshot.now,
        prepared=prepared,
        running=running[np.lexsort((running, prepared.log.start[running]))],
        pending=pending,
        usage=whole * _by_name(snapshot.accounts, snapshot.usage, prepared.accounts),
        expected=nothing if expected is None else expected[of_pending],
        priority=np.asarray(
            (snapshot.pending.native_priority + snapshot.pending.factor)[of_pending],
            dtype=np.float64,
        ),
    )
    return site, row


def with_present(history: PreparedLog, snapshot: QueueSnapshot, half_life: float) -> PreparedLog:
    """The ended runs from accounting, and the running and pending jobs of a look.

    A running job has its number and its start; a pending one has a negative number and no start.
    """
    prepared = site_now(history, snapshot, half_life)[0].prepared
    job_id, runs = prepared.log.job_id.copy(), snapshot.running.jobs.job_id
    row = -1 - job_id
    mine = (row >= 0) & (row < len(runs))
    job_id[mine] = runs[row[mine]]
    return replace(prepared, log=replace(prepared.log, job_id=job_id))


def _joined(history: PreparedLog, snapshot: QueueSnapshot, present: PresentJobs) -> PreparedLog:
    """The runs that have ended by a look, and the jobs of the look that the machine holds."""
    over = history.log.start + history.log.run_time <= snapshot.now
    charged: FloatArray | IntArray = np.empty(0)
    later = present.log.select(np.empty(0, dtype=np.int64))
    if len(present.log):
        with suppress(ConfigurationError):  # none of them fits
            now = prepare_log(
                present.log,
                capacity=history.capacity,
                classifier=_NO_CLASSES,
                machine=history.machine,
            )
            later, charged = now.log, now.charged
    log, order = joined_log(history.log.select(over), later)
    classes = [history.interactive[over], present.interactive[-1 - later.job_id]]
    billed = history.billed
    return PreparedLog(
        log=log,
        interactive=np.concatenate(classes)[order],
        class_rule=history.class_rule,
        account=log.account,
        accounts=log.accounts,
        shares=_by_name(snapshot.accounts, snapshot.shares, log.accounts),
        shares_from=OF_CLUSTER,
        capacity=max(snapshot.capacity, int(log.processors.max(initial=1))),
        past=told_apart(log),
        machine=history.machine,
        billed=None if billed is None else np.concatenate([billed[over], charged])[order],
    )


def _by_name(names: tuple[str, ...], values: FloatArray, wanted: tuple[str, ...]) -> FloatArray:
    """The value of each wanted name, 0 for one without."""
    known = dict(zip(names, values.tolist(), strict=True))
    return np.array([known.get(name, 0.0) for name in wanted])
