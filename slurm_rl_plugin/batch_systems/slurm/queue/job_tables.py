"""Columns of the snapshot from rows of `squeue`, one row for a whole pending job array."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from slurm_rl_plugin.batch_systems.numbered_names import Names
from slurm_rl_plugin.batch_systems.slurm.accounting.past_runs import PastRun
from slurm_rl_plugin.batch_systems.slurm.answers.fields import QueueRow
from slurm_rl_plugin.batch_systems.slurm.answers.priorities import LOWEST_TIER, PriorityTerms
from slurm_rl_plugin.batch_systems.slurm.answers.reasons import FOR_PROCESSORS, is_own_doing
from slurm_rl_plugin.batch_systems.slurm.answers.requests import request_columns
from slurm_rl_plugin.domain import JobTable, PendingJobs, RunningJobs
from slurm_rl_plugin.domain.job_class import IsInteractive
from slurm_rl_plugin.domain.job_description import JobDescription
from slurm_rl_plugin.domain.jobs import measures
from slurm_rl_plugin.domain.resources import ResourceRequests
from slurm_rl_plugin.units import IntArray

#: Jobs that one line names.
SHOWN = 5
#: Tasks of an array: one, or a range with or without a step.
_TASKS = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::([1-9]\d{0,8}))?)?")


class TableBuilder:
    """Turns rows into columns; accounts, users and partitions are numbered on the way.

    Args:
        accounts: that have the first numbers.
        interactive: the class rules.
        resources: names of what the machine has; empty where it is processors alone.
    """

    def __init__(
        self, accounts: Iterable[str], interactive: IsInteractive, resources: tuple[str, ...] = ()
    ) -> None:
        self.accounts = Names(accounts)
        self.partitions = Names()
        self.users = Names()
        self.qos = Names()
        self._interactive = interactive
        self._resources = resources

    def jobs(self, rows: Sequence[QueueRow], *, whole_arrays: bool = False) -> JobTable:
        """Columns of these rows, keyed by the array's number where `whole_arrays` is set."""
        numbers = [row.array_id if whole_arrays else row.job_id for row in rows]
        processors = _integers([row.processors for row in rows])
        return JobTable(
            **measures(rows),
            job_id=_integers(numbers),
            processors=processors,
            account=_integers([self.accounts.number(row.account) for row in rows]),
            user=_integers([self.users.number(row.user) if row.user else -1 for row in rows]),
            partition=_integers([self.partitions.number(row.partition) for row in rows]),
            interactive=_booleans([self._interactive(describe(row)) for row in rows]),
            requests=self._requests(rows, processors),
        )

    def _requests(
        self, rows: Sequence[QueueRow] | Sequence[PastRun], processors: IntArray
    ) -> ResourceRequests | None:
        return request_columns([row.asked for row in rows], processors, self._resources)

    def running(
        self, rows: Sequence[QueueRow], asked: Sequence[QueueRow], now: float
    ) -> RunningJobs:
        """Columns of running jobs.

        Args:
            rows: of the jobs with what they got.
            asked: the same with what they had asked for.
            now: seconds since the epoch.
        """
        processors = _integers([row.processors for row in asked])
        start = _floats([row.start for row in rows])
        seen = RunningJobs.seen(self.jobs(rows), start, now, processors)
        return replace(seen, asked=self._requests(asked, processors))

    def past_jobs(self, runs: Sequence[PastRun]) -> JobTable:
        """Columns of runs from accounting; account, partition and class are not asked for."""
        told = measures(runs)
        processors = _integers([run.processors for run in runs])
        nowhere = np.full(len(runs), -1, dtype=np.int64)
        return JobTable(
            **told | {"eligible": told["submit"]},
            job_id=_integers([run.job_id for run in runs]),
            processors=processors,
            account=nowhere,
            user=_integers([self.users.number(run.user) if run.user else -1 for run in runs]),
            partition=nowhere,
            interactive=np.zeros(len(runs), dtype=np.bool_),
            requests=self._requests(runs, processors),
        )

    def pending(
        self,
        rows: Sequence[QueueRow],
        terms: Sequence[PriorityTerms],
        tiers: Mapping[str, int],
        now: float,
        keeps_back: Callable[[QueueRow], bool] | None = None,
        tasks: Mapping[int, int] | None = None,
    ) -> PendingJobs:
        """Columns of waiting jobs and their priorities.

        Args:
            rows: one for each job.
            terms: of their priorities, same order.
            tiers: of the partitions.
            now: seconds since the epoch.
            keeps_back: whether our limit on batch jobs may be what a row waits for.
            tasks: `waiting_tasks`; by default every row is one job.
        """
        jobs = self.jobs(rows, whole_arrays=True)
        counted_from = np.maximum(_floats([row.accrue for row in rows]), jobs.eligible)
        return PendingJobs(
            jobs=jobs,
            native_priority=_integers([term.native for term in terms]),
            factor=_integers([term.site for term in terms]),
            held=_booleans([row.held for row in rows]),
            admin_set=_booleans([term.by_hand for term in terms]),
            nice=_integers(
                [
                    row.nice if term.own_nice is None else term.own_nice
                    for row, term in zip(rows, terms, strict=True)
                ]
            ),
            qos=_integers([self.qos.number(row.qos) for row in rows]),
            spread=_integers([term.spread for term in terms]),
            tier=_integers(
                [max(tiers.get(name, LOWEST_TIER) for name in row.partitions) for row in rows]
            ),
            accrued=np.maximum(now - counted_from, 0.0),
            own_doing=_booleans([is_own_doing(row.reason) for row in rows]),
            for_processors=_booleans(
                [
                    row.reason in FOR_PROCESSORS or (keeps_back is not None and keeps_back(row))
                    for row in rows
                ]
            ),
            tasks=_integers([(tasks or {}).get(row.array_id, 1) for row in rows]),
            expected=_floats([row.start for row in rows]),
        )


def describe(row: QueueRow) -> JobDescription:
    """Show the class rules what they may see of a row."""
    return JobDescription(
        partition=",".join(row.partitions),
        qos=row.qos,
        name=row.name,
        time_limit=row.time_limit,
        has_batch_script=row.has_batch_script,
        account=row.account,
        user=row.user,
    )


def some_jobs(numbers: Sequence[int]) -> str:
    """Numbers of jobs for one line, which names the first ones."""
    more = f" and {len(numbers) - SHOWN} more" if len(numbers) > SHOWN else ""
    return "job " + ", ".join(str(number) for number in numbers[:SHOWN]) + more


def first_of_each_array(rows: Iterable[QueueRow]) -> list[QueueRow]:
    """One row for each array or single job: of its records the one that can start first.

    A record that is not held goes before a held one, then an eligible one (a requeued task waits
    two minutes), then one that does not wait by its own doing, then the one eligible first, then
    the higher priority, then the lower number. What it has accrued is the array's: no other record
    lends it any.
    """
    best: dict[int, QueueRow] = {}
    for row in rows:
        other = best.get(row.array_id)
        if other is None or _turn(row) < _turn(other):
            best[row.array_id] = row
    return list(best.values())


def waiting_tasks(rows: Iterable[QueueRow]) -> dict[int, int]:
    """How many jobs wait under each array's number, or a single job's, which is one."""
    counts: dict[int, int] = {}
    for row in rows:
        counts[row.array_id] = counts.get(row.array_id, 0) + tasks_in(row.tasks)
    return counts


def tasks_in(text: str) -> int:
    """How many tasks `3`, `1-5,9`, `0-8:2` or `1-100%10` names, at least 1.

    Slurm cuts long lists, with `...` behind: then as many as it still names.
    """
    count = 0
    for part in text.strip("[]").partition("%")[0].split(","):
        found = _TASKS.fullmatch(part)
        if found is not None:
            first, last, step = (int(each) if each else None for each in found.groups())
            assert first is not None
            count += max((last or first) - first, 0) // (step or 1) + 1
    return max(count, 1)


def _turn(row: QueueRow) -> tuple[bool, bool, bool, float, int, int]:
    unknown = math.isinf(row.eligible)
    since = 0.0 if unknown else row.eligible
    own = is_own_doing(row.reason)
    return row.held, unknown, own, since, -row.priority, row.job_id


def _integers(values: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def _floats(values: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array(values, dtype=np.float64)


def _booleans(values: Sequence[bool]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.array(values, dtype=np.bool_)
