"""The jobs of PBS as columns of a snapshot, what changed since the last one, and past runs."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.accounting.log_file import LogFile
from slurm_rl_plugin.accounting.pbs.records import PbsRequest, requests_of_runs
from slurm_rl_plugin.accounting.pbs.runs import EndedRuns, daily_files
from slurm_rl_plugin.accounting.port import JobLog, amounts_of
from slurm_rl_plugin.batch_systems.pbs.answers.fields import (
    ATTRIBUTES,
    FINAL_STATES,
    NEWER_ATTRIBUTES,
    PbsJob,
    is_array,
    is_for_processors,
    is_own_doing,
    parse_job,
    text,
)
from slurm_rl_plugin.batch_systems.pbs.process import (
    QSTAT_BY_NAME,
    QSTAT_JOBS,
    QSTAT_QUEUES,
    PbsCommands,
    section,
)
from slurm_rl_plugin.batch_systems.pbs.scores import PbsLibrary
from slurm_rl_plugin.batch_systems.port import Names
from slurm_rl_plugin.domain import EndedJobs, JobTable, PendingJobs
from slurm_rl_plugin.domain.job_class import JobClass, JobClassifier, JobDescription
from slurm_rl_plugin.domain.jobs import measures
from slurm_rl_plugin.domain.resources import GPUS, ResourceRequests
from slurm_rl_plugin.errors import AccountingLogError, BatchSystemError
from slurm_rl_plugin.units import BoolArray, IntArray

logger = logging.getLogger(__name__)


class PbsQueueReader:
    """Asks PBS for its jobs, and keeps what PBS calls each."""

    def __init__(self, commands: PbsCommands, library: PbsLibrary | None) -> None:
        self._commands = commands
        self._library = library
        self.names: dict[int, str] = {}  #: what PBS calls each job, by its number, at the last look
        #: Those of one number at the last look, of which none is in `names`.
        self.namesakes: list[PbsJob] = []
        self._told: set[int] = set()  #: numbers of several jobs that were told of

    def jobs(self) -> list[PbsJob]:
        """All jobs that wait or run, with those subjobs of arrays that have started.

        By libpbs, which is asked for what is needed only; `qstat` gives all attributes of all jobs.
        """
        if self._library is not None:
            jobs = _parsed(self._library.ask({"read": ATTRIBUTES, "newer": NEWER_ATTRIBUTES}))
        else:
            jobs = self._read(QSTAT_JOBS)
        begun = [job.name for job in jobs if job.has_begun and is_array(job.name)]
        if begun:
            subjobs = self._read([*QSTAT_BY_NAME, "-t", *begun], or_nothing=True)
            jobs += [job for job in subjobs if job.is_under_way and not is_array(job.name)]
        jobs = self._without_namesakes(self._not_yet_routed(jobs))
        self.names = {job.job_id: job.name for job in jobs}
        return jobs

    def ended(self, names: Sequence[str]) -> list[PbsJob]:
        """Those of the named jobs that the server still knows."""
        return self._read([*QSTAT_BY_NAME, "-x", *names], or_nothing=True)

    def _not_yet_routed(self, jobs: list[PbsJob]) -> list[PbsJob]:
        """All jobs, those in routing queues not eligible: the scheduler does not know of them.

        Where PBS tells nothing of its queues nothing changes: a release must not wait for that.
        """
        if all(job.has_etime or job.state != "Q" for job in jobs):
            return jobs
        try:
            queues = section(self._commands.read_json(QSTAT_QUEUES), "Queue")
        except BatchSystemError:
            return jobs
        routing = {
            name
            for name, values in queues.items()
            if text(values.get("queue_type")).lower().startswith("r")
        }
        return [
            replace(job, eligible=math.inf) if job.queue in routing and not job.has_etime else job
            for job in jobs
        ]

    def _without_namesakes(self, jobs: list[PbsJob]) -> list[PbsJob]:
        """All but those of one number, which peer scheduling brings here from several servers.

        A score that is meant for one of them could reach another; what is taken away may.
        """
        several = {number for number, count in Counter(j.job_id for j in jobs).items() if count > 1}
        for number in sorted(several - self._told):
            names = " ".join(sorted(job.name for job in jobs if job.job_id == number))
            logger.warning("jobs=left_alone reason=one_number_of_several_jobs jobs=%r", names)
        self._told |= several
        self.namesakes = [job for job in jobs if job.job_id in several]
        return [job for job in jobs if job.job_id not in several] if several else jobs

    def _read(self, arguments: Sequence[str], *, or_nothing: bool = False) -> list[PbsJob]:
        return _parsed(self._commands.read_json(arguments, or_nothing=or_nothing))


def _parsed(document: Mapping[str, Any]) -> list[PbsJob]:
    found = (parse_job(name, values) for name, values in section(document, "Jobs").items())
    return [job for job in found if job is not None]


#: Vanished jobs asked for in one snapshot; what became of others is not told.
ASK_AT_MOST = 500


class PbsWatch:
    """Remembers who waited and who ran, to tell new starts and new ends.

    Jobs that are gone are asked for where the server keeps a history; else, and for subjobs that
    came and went between two looks, nobody knows when they ended, so nothing is told. A job that
    waits again after it ran starts anew later; one that was suspended goes on. A job whose prologue
    runs has no start yet, and starts when it has one. At the first look nothing has started.
    """

    def __init__(self) -> None:
        self._first = True
        self._waiting: frozenset[str] = frozenset()
        self._running: frozenset[str] = frozenset()
        #: Number of a waiting array -> when a subjob last started, seconds since the epoch.
        self.last_start: dict[int, float] = {}

    def told(
        self, jobs: Sequence[PbsJob], ask: Callable[[Sequence[str]], Sequence[PbsJob]]
    ) -> tuple[list[PbsJob], list[PbsJob]]:
        """The jobs that started, and those that ended, since the last call.

        `ask` gives those of the named jobs of which the server knows an end; if it raises, the next
        call tells what this one would have told.
        """
        here = {job.name for job in jobs}
        gone = sorted(name for name in (self._waiting | self._running) - here if not is_array(name))
        answers = ask(gone[:ASK_AT_MOST]) if gone else []
        ended = [job for job in answers if _ran_and_ended(job) and job.name in gone]
        running = [job for job in jobs if _runs(job)]
        started = [job for job in [*running, *ended] if job.name not in self._running]
        first, self._first = self._first, False
        self._keep_last_starts(jobs, started)
        self._running = frozenset(job.name for job in running)
        may_start = (job.name for job in jobs if job.waits or job.is_under_way)
        self._waiting = frozenset(may_start) - self._running
        return [] if first else started, ended

    def _keep_last_starts(self, jobs: Sequence[PbsJob], started: Sequence[PbsJob]) -> None:
        for job in started:
            self.last_start[job.array_id] = max(self.last_start.get(job.array_id, 0.0), job.start)
        arrays = {job.job_id for job in jobs if job.waits and is_array(job.name)}
        self.last_start = {each: at for each, at in self.last_start.items() if each in arrays}


def _runs(job: PbsJob) -> bool:
    return job.is_under_way and not math.isnan(job.start)


def _ran_and_ended(job: PbsJob) -> bool:
    return job.state in FINAL_STATES and job.start <= job.end


#: Beyond every score that is sent; somebody may have written one that 64 bits do not hold.
_FARTHEST = 2.0**32


class PbsTables:
    """Turns jobs into columns; accounts, users and queues are numbered on the way."""

    def __init__(
        self, accounts: Iterable[str], classifier: JobClassifier, *, with_requests: bool = False
    ) -> None:
        self.accounts = Names(accounts)
        self.queues = Names()
        self.users = Names()
        self._classifier = classifier
        self._with_requests = with_requests

    def jobs(self, jobs: Sequence[PbsJob]) -> JobTable:
        """One row for each job, in the same order; times in seconds since the epoch."""
        processors = np.array([job.processors for job in jobs], dtype=np.int64)
        classes = [self._class_of(job) for job in jobs]
        return JobTable(
            **measures(jobs),
            job_id=np.array([job.job_id for job in jobs], dtype=np.int64),
            processors=processors,
            account=self._numbers(self.accounts, [job.account for job in jobs]),
            user=self._numbers(self.users, [job.user for job in jobs]),
            partition=self._numbers(self.queues, [job.queue for job in jobs]),
            interactive=np.array([each.interactive for each in classes], dtype=np.bool_),
            by_limit=np.array([each.by_limit for each in classes], dtype=np.bool_),
            by_user=np.array([each.by_user for each in classes], dtype=np.bool_),
            class_number=np.array([each.number for each in classes], dtype=np.int64),
            allowed=np.array([each.allowed for each in classes], dtype=np.float64),
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

        Where the server does not count eligible time a job's wait counts from `etime`, which a hold
        takes away and a limit does not.
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

    def _class_of(self, job: PbsJob) -> JobClass:
        since = job.eligible if math.isfinite(job.eligible) else job.submit
        return self._classifier.job_class(describe(job), since)

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
        has_batch_script=not job.interactive,
        account=job.account,
        user=job.user,
        words=job.words,
    )


#: Bytes of accounting that are read, the newest files; the first cycle waits for them.
BYTES_AT_MOST = 200_000_000


def read_history(home: str, days: float, now: float) -> JobLog | None:
    """Runs that ended in the last days; None where accounting is no help."""
    if days <= 0:
        return None
    folder = Path(home, "server_priv", "accounting")
    try:
        runs = EndedRuns()
        for path in _newest(folder, days, now):
            runs.take(LogFile(path))
        log, report = runs.log_and_report("", folder)
    except (AccountingLogError, OSError) as error:
        logger.warning("past_runs=unknown reason=%s", error)
        return None
    logger.info("past_runs=%d days=%g dropped=%s", len(log), days, report.dropped)
    return log


def _newest(folder: Path, days: float, now: float) -> list[Path]:
    """Daily files from that day on, the oldest first, as far back as their size allows."""
    since = datetime.fromtimestamp(now) - timedelta(days=math.ceil(days))
    chosen: list[Path] = []
    left = BYTES_AT_MOST
    for path in reversed(daily_files(folder)):
        size = path.stat().st_size
        left -= size
        if path.name[:8] < since.strftime("%Y%m%d") or left < 0:
            break
        if size:  # else a day on which nothing happened
            chosen.insert(0, path)
    return chosen


def ended_before(log: JobLog, here: set[int], users: Names) -> EndedJobs:
    """The runs as ended jobs; account, partition and class are not told."""
    kept: BoolArray = ~np.isin(log.job_id, np.array(sorted(here), dtype=np.int64))
    ended = log.select(kept)
    nowhere = np.full(len(ended), -1, dtype=np.int64)
    number = np.array([users.number(name) if name else -1 for name in log.users], dtype=np.int64)
    classed = JobTable.classed(ended, interactive=np.zeros(len(ended), np.bool_), account=nowhere)
    return EndedJobs(
        jobs=replace(classed, user=number[ended.user], partition=nowhere),
        start=ended.start,
        end=ended.start + ended.run_time,
        from_accounting=True,
    )
