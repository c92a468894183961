"""The jobs of PBS as columns of a snapshot, their starts and ends, and past runs."""

from __future__ import annotations

import logging
import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache, lru_cache
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
    WAITING_STATES,
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
    Ifl,
    PbsCommands,
    section,
)
from slurm_rl_plugin.batch_systems.port import JobRecord, Names
from slurm_rl_plugin.domain import EndedJobs, JobTable, PendingJobs
from slurm_rl_plugin.domain.job_class import JobClassifier, JobDescription
from slurm_rl_plugin.domain.jobs import measures
from slurm_rl_plugin.domain.resources import GPUS, ResourceRequests
from slurm_rl_plugin.errors import AccountingLogError, BatchSystemError
from slurm_rl_plugin.readable import printable
from slurm_rl_plugin.units import BoolArray, IntArray
from slurm_rl_plugin.whole_file import read_whole

logger = logging.getLogger(__name__)


class PbsQueueReader:
    """Asks PBS for its jobs, and keeps their names."""

    def __init__(self, commands: PbsCommands, library: Ifl | None) -> None:
        self._commands = commands
        self._library = library
        self.names: dict[int, str] = {}  #: number of a job -> PBS's name, in the last answer
        #: Jobs of the last answer with equal numbers, which are not in `names`.
        self.namesakes: list[PbsJob] = []
        self._logged: set[int] = set()  #: equal numbers that were logged

    def jobs(self) -> list[PbsJob]:
        """All pending and running jobs, with the started subjobs of arrays.

        libpbs reads only the needed attributes; `qstat` prints all attributes of all jobs.
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
        """The named jobs that the server still knows."""
        return self._read([*QSTAT_BY_NAME, "-x", *names], or_nothing=True)

    def _not_yet_routed(self, jobs: list[PbsJob]) -> list[PbsJob]:
        """All jobs; those in routing queues are not eligible, since the scheduler ignores them.

        If the queues cannot be read, the jobs stay as they are: a release must not wait for them.
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
        """All jobs with unique numbers; peer scheduling brings equal ones from several servers.

        A score for one of them could reach another, but removing scores is safe.
        """
        several = {number for number, count in Counter(j.job_id for j in jobs).items() if count > 1}
        for number in sorted(several - self._logged):
            names = " ".join(sorted(job.name for job in jobs if job.job_id == number))
            logger.warning("jobs=left_alone reason=one_number_of_several_jobs jobs=%r", names)
        self._logged |= several
        self.namesakes = [job for job in jobs if job.job_id in several]
        return [job for job in jobs if job.job_id not in several] if several else jobs

    def _read(self, arguments: Sequence[str], *, or_nothing: bool = False) -> list[PbsJob]:
        return _parsed(self._commands.read_json(arguments, or_nothing=or_nothing))


def _parsed(document: Mapping[str, Any]) -> list[PbsJob]:
    found = (parse_job(name, values) for name, values in section(document, "Jobs").items())
    return [job for job in found if job is not None]


#: Vanished jobs queried in one snapshot; the ends of others are not reported.
ASK_AT_MOST = 500


class PbsWatch:
    """Remembers pending and running jobs, to find new starts and new ends.

    Jobs that are gone are queried if the server keeps a history. Otherwise, and for subjobs that
    came and went between two snapshots, the end is unknown and not reported. A job that is pending
    again after it ran starts again later; a suspended job continues. A job starts when it has a
    start time, after its prologue. In the first snapshot nothing has started.
    """

    def __init__(self) -> None:
        self._first = True
        self._waiting: frozenset[str] = frozenset()
        self._running: frozenset[str] = frozenset()
        #: Number of a waiting array -> when a subjob last started, seconds since the epoch.
        self.last_start: dict[int, float] = {}

    def starts_and_ends(
        self, jobs: Sequence[PbsJob], ask: Callable[[Sequence[str]], Sequence[PbsJob]] | None
    ) -> tuple[list[PbsJob], list[PbsJob]]:
        """The jobs that started, and those that ended, since the last call.

        `ask` returns the named jobs that the server still knows, None without a history; if it
        raises, the next call reports what this one would have.
        """
        here = {job.name for job in jobs}
        gone = sorted(name for name in (self._waiting | self._running) - here if not is_array(name))
        answers = ask(gone[:ASK_AT_MOST]) if gone and ask else []
        over = (job for job in answers if job.state in FINAL_STATES and job.start <= job.end)
        ended = [job for job in over if job.name in gone]
        running = [job for job in jobs if job.is_under_way and not math.isnan(job.start)]
        started = [job for job in [*running, *ended] if job.name not in self._running]
        first, self._first = self._first, False
        for job in started:
            self.last_start[job.array_id] = max(self.last_start.get(job.array_id, 0.0), job.start)
        arrays = {job.job_id for job in jobs if job.waits and is_array(job.name)}
        self.last_start = {each: at for each, at in self.last_start.items() if each in arrays}
        self._running = frozenset(job.name for job in running)
        may_start = (job.name for job in jobs if job.waits or job.is_under_way)
        self._waiting = frozenset(may_start) - self._running
        return [] if first else started, ended


#: Beyond our scores; another program may have written one that does not fit into 64 bits.
_FARTHEST = 2.0**32


class PbsTables:
    """Turns jobs into columns, and numbers accounts, users and queues."""

    def __init__(
        self, accounts: Iterable[str], classifier: JobClassifier, *, with_requests: bool = False
    ) -> None:
        self.accounts = Names(accounts)
        self.queues = Names()
        self.users = Names()
        self.reasons = Names()
        self._classifier = classifier
        self._with_requests = with_requests

    def jobs(self, jobs: Sequence[PbsJob]) -> JobTable:
        """One row for each job, in the same order; times in seconds since the epoch."""
        processors = np.array([job.processors for job in jobs], dtype=np.int64)
        classes = [
            self._classifier.job_class(
                describe(job), job.eligible if math.isfinite(job.eligible) else job.submit
            )
            for job in jobs
        ]
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
        """Columns of pending jobs.

        PBS does not show the other terms of the site's formula, so all jobs have the native
        priority `base`, the score of a job that was never written. Waiting for its reservation or
        its own subjobs is a job's own doing. If the server does not count eligible time, a wait
        counts from `etime`, which a hold resets and a limit does not.
        """
        count = len(jobs)
        columns = self.jobs(jobs)
        accrued = np.maximum(now - columns.eligible, 0.0)
        if counts_eligible_time:
            counted = np.array([job.eligible_time for job in jobs], dtype=np.float64)
            accrued = np.fmin(counted, accrued)  # counted is NaN if PBS does not show it
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
            reason=self._numbers(self.reasons, [reason_of(job) for job in jobs]),
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
    places: dict[PbsRequest, int] = {}
    index = [places.setdefault(job.asked, len(places)) for job in jobs]
    return requests_of_runs(list(places), np.array(index, dtype=np.int64), processors)


def gpus_of_queues(running: Iterable[PbsJob]) -> dict[str, int]:
    """GPUs requested by the running jobs of each queue with any."""
    found: Counter[str] = Counter()
    for job in running:
        found[job.queue] += int(amounts_of(job.asked.resources).get(GPUS, 0.0))
    return {queue: gpus for queue, gpus in found.items() if gpus}


def factor_of(job: PbsJob, base: int) -> int:
    """Our term in a job's score; a score that is not finite counts as 0, and is corrected."""
    if job.score is None:
        return 0
    if math.isnan(job.score):
        return -base
    return round(min(max(job.score, -_FARTHEST), _FARTHEST)) - base


def describe(job: PbsJob) -> JobDescription:
    """What the class rules may see of a job."""
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


#: Bytes of accounting, from the newest files, that are read; the first cycle waits for them.
BYTES_AT_MOST = 200_000_000


def read_history(home: str, days: float, now: float) -> JobLog | None:
    """Runs that ended in the last days; None if accounting cannot be read."""
    if days <= 0:
        return None
    folder = Path(home, "server_priv", "accounting")
    try:
        runs = EndedRuns()
        for path in _newest(folder, days, now):
            runs.take(LogFile(path))
        log, report = runs.log_and_report(folder)
    except (AccountingLogError, OSError) as error:
        logger.warning("past_runs=unknown reason=%s", error)
        return None
    logger.info("past_runs=%d days=%g dropped=%s", len(log), days, report.dropped)
    return log


def _newest(folder: Path, days: float, now: float) -> list[Path]:
    """Daily files of the last days, the oldest first, at most BYTES_AT_MOST."""
    since = datetime.fromtimestamp(now) - timedelta(days=math.ceil(days))
    chosen: list[Path] = []
    left = BYTES_AT_MOST
    for path in reversed(daily_files(folder)):
        size = path.stat().st_size
        left -= size
        if path.name[:8] < since.strftime("%Y%m%d") or left < 0:
            break
        if size:  # an empty file is of a day without jobs
            chosen.insert(0, path)
    return chosen


def ended_before(log: JobLog, here: set[int], users: Names) -> EndedJobs:
    """The runs as ended jobs, without account, partition and class."""
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


def job_record(job: int, timeout: float) -> JobRecord:
    """Ask `qstat` for one job; a failure is reported in the record."""
    # PBS names an array differently from a job, and this may be either.
    command = [*QSTAT_BY_NAME, str(job), f"{job}[]"]
    try:
        found = _parsed(PbsCommands(timeout=timeout).read_json(command, or_nothing=True))
    except BatchSystemError as error:
        return JobRecord(unread=(f"its record: {error}.",))
    jobs = [each for each in found if each.job_id == job]
    return _record_of(jobs[0]) if len(jobs) == 1 else JobRecord()


def _record_of(job: PbsJob) -> JobRecord:
    if not job.waits:
        return JobRecord(number=job.job_id, state=job.state)
    reason = _word_of(job)
    return JobRecord(
        number=job.job_id,
        state=job.state,
        is_pending=True,
        name=job.title,
        reason=reason,
        meaning=(comment_sentence(reason) or _UNKNOWN) if reason else "",
        description=describe(job),
    )


#: States of PBS, by letter, that say more than the scheduler's last comment.
STATES = {"H": "Held", "W": "Waiting"}
_NEVER = "can never run:"
_UNKNOWN = "this release of slurm-rl does not know the reason; ask the administrators"
#: Characters of an unknown comment that are shown.
_LONGEST_COMMENT = 160


def _word_of(job: PbsJob) -> str:
    """Why a pending job waits: its state where that says it, else its comment; "" for nothing."""
    return STATES.get(job.state, job.comment if job.state in WAITING_STATES else "")


def reason_of(job: PbsJob) -> str:
    """Why a pending job waits, as a sentence without a full stop; an unknown comment as it is."""
    word = _word_of(job)
    if not word:
        return ""
    text = printable(" ".join(word.split()))
    shown = text if len(text) <= _LONGEST_COMMENT else f"{text[:_LONGEST_COMMENT]}..."
    return comment_sentence(word) or f"PBS says: {shown}"


@cache
def _comments() -> list[tuple[re.Pattern[str], str, str]]:
    found = tomllib.loads(read_whole(Path(__file__).with_name("comments.toml")).decode())
    return [(re.compile(form, re.IGNORECASE), *words) for form, *words in found["comments"]]


@lru_cache(maxsize=1 << 12)
def comment_sentence(comment: str) -> str:
    """What a comment means for the job, and what its user can do: one sentence, no full stop.

    "" for an unknown comment.
    """
    never = comment.lower().startswith(_NEVER)
    words = re.sub(r"^(?:not running|can never run):\s*", "", comment.strip(), flags=re.IGNORECASE)
    for form, meaning, advice in _comments():
        found = form.match(words)
        if found is not None:
            parts = [part.lower() for part in found.groups() if part]
            said = meaning.format(*parts)
            return f"{said}, at all times; change the request" if never else f"{said}; {advice}"
    return ""
