"""Which jobs started and ended between two snapshots, and runs before the first, by `sacct`."""

from __future__ import annotations

import heapq
import logging
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slurm_rl_plugin.accounting.sacct.fields import parse_count, parse_time, sound_values
from slurm_rl_plugin.batch_systems.slurm.answers.fields import (
    FINAL_STATES,
    RUNNING_STATES,
    WAITING_STATES,
    NodeRequest,
    QueueRow,
    request_of_tres,
)
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner, failure
from slurm_rl_plugin.errors import BatchSystemError
from slurm_rl_plugin.units import DAY, MINUTE, IntArray

#: Vanished jobs asked for in one snapshot; the rest waits for the next one.
ASK_AT_MOST = 1000


class JobWatch:
    """Remembers who waited and who ran, to tell new starts and new ends.

    A job, or a task of a job array, starts once and ends once, whether it is ever seen running or
    came and went between two snapshots. One that is requeued has not ended; seen waiting again it
    starts again when it runs anew. At the first look nothing has started, as all that runs is old.

    A job that runs no more is asked for until Slurm says how it is: suspended and completing ones
    may go on or be requeued. Where Slurm has forgotten a job, its end is not told: nobody knows
    when it was, and to guess would tell those who learn from past runs something wrong.
    """

    def __init__(self) -> None:
        self._since: float | None = None
        #: Numbers of jobs that are no arrays, and of each array the tasks.
        self._plain: IntArray = np.empty(0, dtype=np.int64)
        self._waiting: dict[int, set[str]] = {}
        self._to_ask: dict[int, None] = {}
        self._asked: list[int] = []
        #: Both: number of a job -> number of its array.
        self._started: dict[int, int] = {}
        self._not_ended: dict[int, int] = {}
        #: Rows that waited at the last look. They show what a job asked for, and later ones what it
        #: got; those of arrays that wait no more are kept by number.
        self._waited: Sequence[QueueRow] = ()
        self._requested: dict[int, QueueRow] = {}
        #: Number of an array that waits -> when a task of it last started, seconds since the epoch.
        self.last_start: dict[int, float] = {}

    def ask_about(self, rows: Sequence[QueueRow]) -> list[int]:
        """Numbers of jobs and arrays that waited or ran before and of which something is gone."""
        plain, waiting = _waiting_jobs(rows)
        running = {row.job_id: row.array_id for row in rows if row.state in RUNNING_STATES}
        gone = self._plain[~np.isin(self._plain, plain)].tolist()
        gone = [job_id for job_id in gone if job_id not in running]
        gone += [each for each, tasks in self._waiting.items() if waiting.get(each) != tasks]
        self._to_ask |= dict.fromkeys(gone)
        here = {row.job_id for row in rows}
        for job_id, array_id in self._not_ended.items():
            if job_id not in here:
                self._to_ask[array_id] = None
        self._not_ended |= running  # now, as it may be over when a failed look is taken again
        self._plain, self._waiting = plain, waiting
        self._asked = list(self._to_ask)[:ASK_AT_MOST]
        return self._asked

    def told(
        self, rows: Sequence[QueueRow], answers: Sequence[QueueRow], now: float
    ) -> tuple[list[QueueRow], list[QueueRow]]:
        """Rows of the jobs that started, and of those that ended, since the last call.

        Those that ended show what they had asked for.
        """
        first = self._since is None
        for array_id in self._asked:  # not earlier: the question may have failed
            self._to_ask.pop(array_id, None)
        if self._since is None:
            self._since = math.floor(now)  # Slurm's times are whole seconds
        gone = [row for row in answers if _ran(row) and row.start >= self._since]
        running = [row for row in rows if row.state in RUNNING_STATES]
        waiting = [row for row in rows if row.state in WAITING_STATES]
        for job_id in self._started.keys() & {row.job_id for row in waiting}:
            del self._started[job_id]
        self._keep_requests(waiting, {row.array_id for row in (*running, *answers)})
        started = [row for row in _first_of_each(running, gone) if row.job_id not in self._started]
        self._started.update((row.job_id, row.array_id) for row in started)
        self._keep_last_starts(waiting, started)
        ended = self._ended(rows, answers, started)
        self._forget(running)
        return [] if first else started, ended

    def _keep_last_starts(self, waiting: Sequence[QueueRow], started: Sequence[QueueRow]) -> None:
        arrays = {row.array_id for row in waiting if row.tasks}
        for row in started:
            known = self.last_start.get(row.array_id, -math.inf)
            self.last_start[row.array_id] = float(np.fmax(known, row.start))
        self.last_start = {each: at for each, at in self.last_start.items() if each in arrays}

    def _keep_requests(self, waiting: Sequence[QueueRow], here: set[int]) -> None:
        arrays = here | self._to_ask.keys() | set(self._asked) | set(self._not_ended.values())
        for rows in (self._waited, waiting):
            self._requested |= {row.array_id: row for row in rows if row.array_id in arrays}
        self._waited = waiting

    def as_asked(self, row: QueueRow) -> QueueRow:
        """A job with what it had asked for; with what it got where it was not seen waiting."""
        seen = self._requested.get(row.array_id, row)
        if (seen.processors, seen.asked) == (row.processors, row.asked):
            return row
        return replace(row, processors=seen.processors, asked=seen.asked)

    def _ended(
        self,
        rows: Sequence[QueueRow],
        answers: Sequence[QueueRow],
        started: Sequence[QueueRow],
    ) -> list[QueueRow]:
        here, asked = {row.job_id for row in rows}, set(self._asked)
        answer_for = {row.job_id: row for row in answers}
        watched = {**self._not_ended, **{row.job_id: row.array_id for row in started}}
        self._not_ended = {row.job_id: row.array_id for row in rows if row.state in RUNNING_STATES}
        for row in answers:  # of tasks that were suspended at the first look too
            if row.job_id not in here and row.state not in WAITING_STATES | FINAL_STATES:
                self._not_ended[row.job_id] = row.array_id
        ended: list[QueueRow] = []
        for job_id, array_id in watched.items():
            row_now = answer_for.get(job_id)
            if job_id in here:
                continue
            if row_now is None and array_id not in asked:
                self._not_ended[job_id] = array_id  # its turn to be asked for comes
            elif row_now is not None and row_now.state in FINAL_STATES and _ran(row_now):
                ended.append(self.as_asked(row_now))
        return ended

    def _forget(self, running: Sequence[QueueRow]) -> None:
        """Keep only jobs that can be met again: running ones and tasks of arrays asked for."""
        alive = {row.job_id for row in running}
        arrays = self._to_ask.keys() | {row.array_id for row in running}
        arrays |= set(self._not_ended.values())
        waiting = self._plain[np.isin(self._plain, list(self._started.values()))].tolist()
        known = arrays.union(self._waiting, waiting)
        self._started = {
            job_id: array_id
            for job_id, array_id in self._started.items()
            if job_id in alive or array_id in known
        }
        for array_id in self._requested.keys() - arrays:
            del self._requested[array_id]


def _first_of_each(*tables: Sequence[QueueRow]) -> list[QueueRow]:
    """The rows of some tables, each job once."""
    rows: dict[int, QueueRow] = {}
    for table in tables:
        for row in table:
            rows.setdefault(row.job_id, row)
    return list(rows.values())


def _ran(row: QueueRow) -> bool:
    """Whether it got nodes; a job that was cancelled while it waited has a start time too."""
    return row.state not in WAITING_STATES and bool(row.nodes) and not math.isnan(row.start)


def _waiting_jobs(rows: Iterable[QueueRow]) -> tuple[IntArray, dict[int, set[str]]]:
    """Numbers of the waiting jobs that are no arrays, and the tasks of each array that waits."""
    waiting = [row for row in rows if row.state in WAITING_STATES]
    tasks: dict[int, set[str]] = {}
    for row in waiting:
        if row.tasks:
            tasks.setdefault(row.array_id, set()).add(row.tasks)
    plain = (row.array_id for row in waiting if not row.tasks)
    return np.fromiter(plain, dtype=np.int64), tasks


logger = logging.getLogger(__name__)

#: Requested processors, not allocated ones: a waiting job is known by what it asks for.
FIELDS = (
    *("JobIDRaw", "User", "ReqCPUS", "AllocCPUS", "TimelimitRaw"),
    *("Submit", "Start", "End", "State", "ReqTRES"),
)
SACCT = ("sacct", "--allusers", "-X", "--parsable2", "--noheader", "-o", ",".join(FIELDS))
#: Seconds allowed for accounting, on top of a command's time-out: it may search a month.
SECONDS_MORE = 50.0
#: Runs taken over, the newest; the first decision has to learn from all of them.
RUNS_AT_MOST = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """A job that ran and ended; times in seconds since the epoch, NaN for no time limit.

    `asked` is what it had asked of nodes.
    """

    job_id: int
    user: str
    processors: int
    time_limit: float
    submit: float
    start: float
    end: float
    asked: NodeRequest | None = None


def read_past_runs(runner: CommandRunner, days: float) -> list[PastRun]:
    """Runs that ended in the last days, RUNS_AT_MOST of them; none where accounting is no help."""
    if days <= 0:
        return []
    since = ("-S", f"now-{math.ceil(days * DAY)}seconds", "-E", "now")
    try:
        answer = runner.call([*SACCT, *since], extra=SECONDS_MORE)
        if answer.status:
            raise failure("sacct", answer.errors or answer.output)
    except BatchSystemError as error:
        logger.warning("past_runs=unknown reason=%s", error)
        return []
    runs, strange = _parse(answer.output)
    if strange:
        logger.warning("past_runs=incomplete lines=%d first=%r", len(strange), strange[0][:200])
    runs = heapq.nlargest(RUNS_AT_MOST, runs, key=lambda run: run.end)
    logger.info("past_runs=%d days=%g", len(runs), days)
    return runs


def _parse(text: str) -> tuple[list[PastRun], list[str]]:
    """The jobs that ran and ended, and the lines that are not understood."""
    runs: list[PastRun] = []
    strange: list[str] = []
    for line in text.splitlines():
        try:
            run = _run(line)
        except ValueError:
            strange.append(line)
        else:
            if run is not None:
                runs.append(run)
    return runs, strange


def _run(line: str) -> PastRun | None:
    """The run that a line tells of; None where the job never ran or is not over."""
    told = sound_values(FIELDS, line)
    job_id, user, processors, allocated, limit, submit, start, end, state, tres = told
    if state.partition(" ")[0] not in FINAL_STATES or not parse_count(allocated) > 0:
        return None
    minutes = parse_count(limit)
    run = PastRun(
        job_id=int(job_id),
        user=user,
        processors=int(parse_count(processors)),
        time_limit=minutes * MINUTE if minutes >= 0 else math.nan,
        submit=parse_time(submit),
        start=parse_time(start),
        end=parse_time(end),
        asked=request_of_tres(tres),
    )
    return run if run.submit <= run.start <= run.end else None
