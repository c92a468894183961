"""A Slurm cluster, read and reordered; who lists its jobs and who writes is given by an adapter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from slurm_rl_plugin.batch_systems.port import ApplyReport, FactorChange
from slurm_rl_plugin.batch_systems.slurm_accounting import PastRun, read_past_runs
from slurm_rl_plugin.batch_systems.slurm_fields import (
    PENDING,
    RUNNING_STATES,
    QueueRow,
    parse_capacity,
)
from slurm_rl_plugin.batch_systems.slurm_priorities import (
    PRIORITY_FORMAT,
    ROUNDING,
    PriorityTerms,
    parse_priorities,
)
from slurm_rl_plugin.batch_systems.slurm_process import CommandRunner
from slurm_rl_plugin.batch_systems.slurm_shares import SHARE_FORMAT, parse_shares
from slurm_rl_plugin.batch_systems.slurm_tables import (
    JobClassRule,
    TableBuilder,
    first_of_each_array,
)
from slurm_rl_plugin.batch_systems.slurm_watch import JobWatch
from slurm_rl_plugin.batch_systems.slurm_writes import Change, FactorWriter
from slurm_rl_plugin.domain import EndedJobs, QueueSnapshot, RunningJobs, StartedJobs
from slurm_rl_plugin.units import FloatArray, IntArray

SPRIO = ("sprio", "--noheader", "-o", PRIORITY_FORMAT)
SSHARE = ("sshare", "--all", "--parsable2", "--noheader", "-o", SHARE_FORMAT)
SINFO = ("sinfo", "--noheader", "--all", "--Node", "-o", "%N|%C")


class QueueReader(Protocol):
    """Lists Slurm's jobs, one row a record; every call ends within its time-out."""

    def waiting_and_running(self) -> list[QueueRow]:
        """Every job that waits or occupies processors, of all users and partitions.

        Raises:
            BatchSystemUnavailable: no answer in time, or Slurm cannot be reached.
            BatchSystemError: an answer that cannot be understood.
        """
        ...

    def waiting(self) -> list[QueueRow]:
        """Every job that waits; raises as `waiting_and_running` does."""
        ...

    def of_arrays(self, array_ids: Sequence[int]) -> list[QueueRow]:
        """Every record of these arrays and single jobs that Slurm still knows, in any state.

        Asked after `waiting_and_running`, whose answer may be looked at again; raises as it does.
        """
        ...


class SlurmCluster:
    """A Slurm cluster with `priority/multifactor`, reordered by SiteFactor.

    Whoever lists the jobs and whoever writes, priorities come from `sprio` (nothing else shows a
    factor), shares from `sshare`, capacity from `sinfo` and past runs from `sacct`.

    What is special about Slurm's jobs:

    * A pending job array is one row under the array's number, never split; its record that can
      start first speaks for it. Running and started tasks are rows of their own.
    * Held jobs and jobs that are not eligible yet are not listed by `sprio`; their factor is what
      we last wrote or saw, 0 if never, and the rest of their priority is native. `eligible` is
      infinite where Slurm gives no time (held, dependency, array at its limit).
    * A priority set by hand hides our term: `admin_set`, with factor 0.

    Args:
        queue: lists the jobs.
        writer: writes factors.
        commands: runs Slurm's commands.
        shares: account -> share, scaled to sum 1; None takes RawShares from `sshare`.
        interactive: tells whether a job is of the interactive class.
        clock: seconds since the epoch.
        history_days: the first snapshot reports the runs of so many days as ended, from
            accounting; 0 asks for none.
    """

    def __init__(
        self,
        *,
        queue: QueueReader,
        writer: FactorWriter,
        commands: CommandRunner,
        shares: Mapping[str, float] | None,
        interactive: JobClassRule,
        clock: Callable[[], float],
        history_days: float,
    ) -> None:
        self._queue = queue
        self._writer = writer
        self._runner = commands
        self._shares = shares
        self._interactive = interactive
        self._clock = clock
        self._watch = JobWatch()
        self._history_days = history_days
        #: Factors that we wrote or saw, by array number: `sprio` does not list every job.
        self._factors: dict[int, int] = {}

    def snapshot(self) -> QueueSnapshot:
        """Read the queue; see `BatchSystem.snapshot`.

        Raises:
            BatchSystemUnavailable: no answer in time, or Slurm cannot be reached.
            BatchSystemError: an answer that cannot be understood.
        """
        now = self._clock()
        rows = self._queue.waiting_and_running()
        priorities = parse_priorities(self._runner.read(SPRIO))
        tree = parse_shares(self._runner.read(SSHARE))
        capacity = parse_capacity(self._runner.read(SINFO))
        started, ended = self._watch.told(rows, self._read_vanished(rows), now)
        past = self._past_runs(rows)
        waiting = first_of_each_array(row for row in rows if row.state == PENDING)
        running = [row for row in rows if row.state in RUNNING_STATES]
        terms = [self._terms(row, priorities) for row in waiting]
        self._remember(waiting, terms)

        build = TableBuilder([*(self._shares or ()), *tree.shares], self._interactive)
        pending_jobs = build.pending(waiting, terms)
        running_jobs = RunningJobs(
            jobs=build.jobs(running),
            start=_starts(running),
            requested=np.array([self._watch.requested(row) for row in running], dtype=np.int64),
        )
        started_jobs = StartedJobs(jobs=build.jobs(started), start=_starts(started))
        ended_jobs = _ended(build, ended, past)
        accounts = build.accounts.all
        return QueueSnapshot(
            now=now,
            pending=pending_jobs,
            running=running_jobs,
            started=started_jobs,
            capacity=capacity,
            accounts=accounts,
            partitions=build.partitions.all,
            shares=_to_sum_one(tree.shares if self._shares is None else self._shares, accounts),
            usage=_to_sum_one(tree.usage, accounts),
            ended=ended_jobs,
            users=build.users.all,
        )

    def apply(self, changes: Sequence[FactorChange]) -> ApplyReport:
        """Write factors; see `BatchSystem.apply`.

        Raises:
            BatchSystemUnavailable: no answer in time; some changes may have been written.
            ChangeRejected: every change was denied.
            BatchSystemError: a write failed for a reason that names no job.
        """
        return self._write([(change.job_id, change.new) for change in changes])

    def release(self, job_ids: IntArray | None = None) -> ApplyReport:
        """Set our factor back to 0; see `BatchSystem.release`.

        Without `job_ids` this also writes to pending jobs whose factor `sprio` does not show
        (held, not eligible, priority by hand): one of them may carry a factor of an earlier run.

        Raises:
            BatchSystemUnavailable: no answer in time; call again.
            ChangeRejected: every change was denied.
            BatchSystemError: an answer that cannot be understood.
        """
        chosen = self._with_factor() if job_ids is None else [int(job_id) for job_id in job_ids]
        return self._write([(job_id, 0) for job_id in chosen])

    def _with_factor(self) -> list[int]:
        """Arrays and jobs that have a factor, or whose factor cannot be seen."""
        rows = self._queue.waiting()
        priorities = parse_priorities(self._runner.read(SPRIO))
        chosen: dict[int, None] = {}
        for row in rows:
            terms = priorities.get(row.job_id)
            if terms is None or terms.by_hand or terms.site:
                chosen[row.array_id] = None
        return list(chosen)

    def _write(self, changes: Sequence[Change]) -> ApplyReport:
        if not changes:
            return ApplyReport(applied=0, rejected={})
        report = self._writer.write(changes)
        for job_id, factor in changes:
            if job_id not in report.rejected:
                self._factors[job_id] = factor
        return report

    def _read_vanished(self, rows: Sequence[QueueRow]) -> list[QueueRow]:
        """Ask for jobs that wait or run no longer; Slurm keeps them for MinJobAge (300 s)."""
        ids = self._watch.ask_about(rows)
        return self._queue.of_arrays(ids) if ids else []

    def _past_runs(self, rows: Sequence[QueueRow]) -> list[PastRun]:
        """What accounting knows, the first time; what is in the queue still is told later."""
        days, self._history_days = self._history_days, 0.0
        here = {row.job_id for row in rows}
        return [run for run in read_past_runs(self._runner, days) if run.job_id not in here]

    def _terms(self, row: QueueRow, priorities: Mapping[int, PriorityTerms]) -> PriorityTerms:
        listed = priorities.get(row.job_id)
        if listed is not None:
            # A priority of 1 to 4 set by hand looks like one that all factors round to 0 in, but
            # it hides the factor that we have written.
            hidden = listed.site == 0 and self._factors.get(row.array_id, 0) != 0
            if hidden and listed.native <= ROUNDING:
                return PriorityTerms(native=listed.native, site=0, by_hand=True)
            return listed
        factor = self._factors.get(row.array_id, 0)
        native = max(row.priority - factor, 1) if row.priority else 0
        return PriorityTerms(native=native, site=factor, by_hand=False)

    def _remember(self, waiting: Sequence[QueueRow], terms: Sequence[PriorityTerms]) -> None:
        """Take over what `sprio` shows, and forget jobs that are gone."""
        self._factors = {
            row.array_id: self._factors.get(row.array_id, 0) if term.by_hand else term.site
            for row, term in zip(waiting, terms, strict=True)
        }


def _starts(rows: Sequence[QueueRow] | Sequence[PastRun]) -> FloatArray:
    return np.array([row.start for row in rows], dtype=np.float64)


def _ended(build: TableBuilder, ended: Sequence[QueueRow], past: Sequence[PastRun]) -> EndedJobs:
    """Jobs that were seen to end, or in the first snapshot those of the past: never both."""
    return EndedJobs(
        jobs=build.past_jobs(past) if past else build.jobs(ended),
        start=_starts(past or ended),
        end=np.array([each.end for each in past or ended], dtype=np.float64),
        from_accounting=bool(past),
    )


def _to_sum_one(values: Mapping[str, float], names: Sequence[str]) -> FloatArray:
    """One value for each name, 0 where there is none, scaled to sum 1 unless all are 0."""
    column = np.array([values.get(name, 0.0) for name in names], dtype=np.float64)
    whole = column.sum()
    return column / whole if whole > 0 else column
