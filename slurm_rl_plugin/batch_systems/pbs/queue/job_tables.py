"""Columns of the snapshot from PBS's jobs, one row for a whole job array that waits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from slurm_rl_plugin.accounting.pbs.requests import PbsRequest, requests_of_runs
from slurm_rl_plugin.accounting.resource_amounts import amounts_of
from slurm_rl_plugin.batch_systems.numbered_names import Names
from slurm_rl_plugin.batch_systems.pbs.answers.fields import PbsJob
from slurm_rl_plugin.batch_systems.pbs.answers.reasons import is_for_processors, is_own_doing
from slurm_rl_plugin.domain import JobTable, PendingJobs
from slurm_rl_plugin.domain.job_class import IsInteractive, classes_of
from slurm_rl_plugin.domain.job_description import JobDescription
from slurm_rl_plugin.domain.jobs import measures
from slurm_rl_plugin.domain.resources import GPUS, ResourceRequests
from slurm_rl_plugin.units import IntArray

#: Beyond every score that is sent; somebody may have written one that 64 bits do not hold.
_FARTHEST = 2.0**32


class PbsTables:
    """Turns jobs into columns; accounts, users and queues are numbered on the way.

    Args:
        accounts: that have the first numbers.
        interactive: the class rules.
        with_requests: whether the machine has more than processors.
    """

    def __init__(
        self, accounts: Iterable[str], interactive: IsInteractive, *, with_requests: bool = False
    ) -> None:
        self.accounts = Names(accounts)
        self.queues = Names()
        self.users = Names()
        self._interactive = interactive
        self._with_requests = with_requests

    def jobs(self, jobs: Sequence[PbsJob]) -> JobTable:
        """One row for each job, in the same order; times in seconds since the epoch."""
        processors = np.array([job.processors for job in jobs], dtype=np.int64)
        classes = [classes_of(self._interactive, describe(job)) for job in jobs]
        interactive, by_limit = np.array(classes, dtype=np.bool_).reshape(-1, 2).T
        return JobTable(
            **measures(jobs),
            job_id=np.array([job.job_id for job in jobs], dtype=np.int64),
            processors=processors,
            account=self._numbers(self.accounts, [job.account for job in jobs]),
            user=self._numbers(self.users, [job.user for job in jobs]),
            partition=self._numbers(self.queues, [job.queue for job in jobs]),
            interactive=interactive,
            by_limit=by_limit,
            requests=_requests(jobs, processors) if self._with_requests else None,
        )

    def pending(
        self,
        jobs: Sequence[PbsJob],
        base: int,
        now: float,
        last_start: Mapping[int, float],
        *,
        counts_eligible_time: bool,
    ) -> PendingJobs:
        """Columns of jobs that wait.

        What the rest of the site's formula makes of a job PBS tells nobody, so the site's own
        priority is the same for all, `base`: the score of a job that was never written. To wait for
        one's own reservation, or for subjobs of one's own, is one's own doing.

        Args:
            jobs: those that wait.
            base: the score of a job that was never written.
            now: seconds since the epoch.
            last_start: number of an array -> when a subjob of it last started, seconds since the
                epoch.
            counts_eligible_time: whether the server does; else a job's wait counts from `etime`,
                which a hold takes away and a limit does not.
        """
        count = len(jobs)
        columns = self.jobs(jobs)
        accrued = np.maximum(now - columns.eligible, 0.0)
        if counts_eligible_time:
            counted = np.array([job.eligible_time for job in jobs], dtype=np.float64)
            accrued = np.fmin(counted, accrued)  # NaN where PBS does not tell
        starts = [last_start.get(job.job_id, math.nan) for job in jobs]
        return PendingJobs(
            jobs=columns,
            native_priority=np.full(count, base, dtype=np.int64),
            factor=np.array([factor_of(job, base) for job in jobs], dtype=np.int64),
            held=np.array([job.held for job in jobs], dtype=np.bool_),
            admin_set=np.zeros(count, dtype=np.bool_),
            nice=np.array([-job.priority for job in jobs], dtype=np.int64),
            accrued=accrued,
            tasks=np.array([job.tasks for job in jobs], dtype=np.int64),
            last_start=np.array(starts, dtype=np.float64),
            own_doing=np.array(
                [job.waits_for_its_own or is_own_doing(job.comment) for job in jobs],
                dtype=np.bool_,
            ),
            for_processors=np.array(
                [not job.waits_for_its_own and is_for_processors(job.comment) for job in jobs],
                dtype=np.bool_,
            ),
        )

    @staticmethod
    def _numbers(names: Names, words: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array([names.number(word) for word in words], dtype=np.int64)


def _requests(jobs: Sequence[PbsJob], processors: IntArray) -> ResourceRequests | None:
    """What jobs ask of nodes; None where none tells of more than processors."""
    places: dict[PbsRequest, int] = {}
    index = [places.setdefault(job.asked, len(places)) for job in jobs]
    return requests_of_runs(list(places), np.array(index, dtype=np.int64), processors)


def gpus_of_queues(running: Iterable[PbsJob]) -> dict[str, int]:
    """GPUs that running jobs of each queue asked for; queues without any are left out."""
    found: Counter[str] = Counter()
    for job in running:
        found[job.queue] += int(amounts_of(job.asked.resources).get(GPUS, 0.0))
    return {queue: gpus for queue, gpus in found.items() if gpus}


def factor_of(job: PbsJob, base: int) -> int:
    """Our term in a job's score; one that is not finite counts as the lowest, so it is mended."""
    if job.score is None:
        return 0
    if math.isnan(job.score):
        return -base
    return round(min(max(job.score, -_FARTHEST), _FARTHEST)) - base


def describe(job: PbsJob) -> JobDescription:
    """Show the class rules what they may see of a job."""
    return JobDescription(
        partition=job.queue,
        qos="",
        name=job.title,
        time_limit=job.time_limit,
        has_batch_script=None if job.interactive is None else not job.interactive,
        account=job.account,
        user=job.user,
    )
