"""Reads the queue, its starts and ends, the resources of nodes, and past runs by `sacct`."""

from __future__ import annotations

import heapq
import logging
import math
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from slurm_rl_plugin.accounting.sacct.fields import parse_count, parse_time, sound_values
from slurm_rl_plugin.batch_systems.port import FAIL, WARN, Check
from slurm_rl_plugin.batch_systems.slurm.answers.fields import (
    ASK_WAITING,
    ASK_WAITING_OR_RUNNING,
    FINAL_STATES,
    QUEUE_FIELDS,
    RUNNING_STATES,
    WAITING_OR_RUNNING,
    WAITING_STATES,
    NodeRequest,
    QueueRow,
    is_own_doing,
    parse_records,
    queue_fields,
    queue_format,
    request_of_tres,
    together,
)
from slurm_rl_plugin.batch_systems.slurm.answers.machine import read_nodes
from slurm_rl_plugin.batch_systems.slurm.answers.settings import SlurmSettings
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner, failure, not_understood
from slurm_rl_plugin.domain.jobs import RunningJobs
from slurm_rl_plugin.domain.nodes import NodeNow, resources_now, with_running
from slurm_rl_plugin.domain.resources import CPUS, MEMORY, ResourcesNow
from slurm_rl_plugin.errors import BatchSystemError
from slurm_rl_plugin.machine_files.statements import expand
from slurm_rl_plugin.units import DAY, MINUTE

logger = logging.getLogger(__name__)

#: Vanished jobs queried in one snapshot; the next ones query the rest.
ASK_AT_MOST = 1000
_NO_TASKS: frozenset[str] = frozenset()


class JobWatch:
    """Remembers pending and running jobs, to find new starts and new ends.

    A job, or a task of a job array, starts once and ends once, even if it came and went between two
    snapshots. A requeued job has not ended; it starts again after it was pending again. In the
    first snapshot nothing has started, since all running jobs are old.

    A job that runs no more is queried until Slurm shows its state, since suspended and completing
    jobs may continue or be requeued. If Slurm has forgotten a job, its end is unknown and not
    reported: a guess would mislead predictions that learn from past runs.
    """

    def __init__(self) -> None:
        self._since: float | None = None
        #: Number of a pending job or array -> its pending tasks, none of a job.
        self._waiting: dict[int, Set[str]] = {}
        self._to_ask: dict[int, None] = {}
        self._asked: list[int] = []
        #: Both: number of a job -> number of its array.
        self._started: dict[int, int] = {}
        self._not_ended: dict[int, int] = {}
        #: Pending rows of the last snapshot show what a job requested, later rows what it got. Rows
        #: of arrays that are no longer pending are kept by number.
        self._waited: Sequence[QueueRow] = ()
        self._requested: dict[int, QueueRow] = {}
        #: Number of a pending array -> last start of one of its tasks, seconds since the epoch.
        self.last_start: dict[int, float] = {}

    def ask_about(self, rows: Sequence[QueueRow]) -> list[int]:
        """Numbers of earlier jobs and arrays that are gone in whole or in part."""
        waiting: dict[int, Set[str]] = {}
        tasks_of: dict[int, set[str]] = {}
        for row in rows:
            if row.state in WAITING_STATES:
                if row.tasks:
                    tasks_of.setdefault(row.array_id, set()).add(row.tasks)
                else:
                    waiting[row.array_id] = _NO_TASKS
        waiting |= tasks_of
        running = {row.job_id: row.array_id for row in rows if row.state in RUNNING_STATES}
        gone = [
            number
            for number, tasks in self._waiting.items()
            if waiting.get(number) != tasks and (tasks or number not in running)
        ]
        self._to_ask |= dict.fromkeys(gone)
        here = {row.job_id for row in rows}
        for job_id, array_id in self._not_ended.items():
            if job_id not in here:
                self._to_ask[array_id] = None
        self._not_ended |= running  # now, since it may be over when a failed snapshot is repeated
        self._waiting = waiting
        self._asked = list(self._to_ask)[:ASK_AT_MOST]
        return self._asked

    def starts_and_ends(
        self, rows: Sequence[QueueRow], answers: Sequence[QueueRow], now: float
    ) -> tuple[list[QueueRow], list[QueueRow]]:
        """Rows of jobs that started, and of jobs that ended with their requests, since last time.

        `answers` are the rows of the jobs of `ask_about`.
        """
        first = self._since is None
        for array_id in self._asked:  # not earlier, since the query may have failed
            self._to_ask.pop(array_id, None)
        if self._since is None:
            self._since = math.floor(now)  # Slurm's times are whole seconds
        gone = [row for row in answers if _ran(row) and row.start >= self._since]
        running = [row for row in rows if row.state in RUNNING_STATES]
        waiting = [row for row in rows if row.state in WAITING_STATES]
        for job_id in self._started.keys() & {row.job_id for row in waiting}:
            del self._started[job_id]
        self._keep_requests(waiting, {row.array_id for row in (*running, *answers)})
        known = self._started.keys() | {row.job_id for row in running}
        started = [row for row in running if row.job_id not in self._started]
        started += [row for row in gone if row.job_id not in known]
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
        """The job with its request, or with what it got if no snapshot showed it pending."""
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
                self._not_ended[job_id] = array_id  # queried in a later snapshot
            elif row_now is not None and row_now.state in FINAL_STATES and _ran(row_now):
                ended.append(self.as_asked(row_now))
        return ended

    def _forget(self, running: Sequence[QueueRow]) -> None:
        """Keep only jobs that can occur again: running ones and tasks of queried arrays."""
        alive = {row.job_id for row in running}
        arrays = self._to_ask.keys() | {row.array_id for row in running}
        arrays |= set(self._not_ended.values())
        self._started = {
            job_id: array_id
            for job_id, array_id in self._started.items()
            if job_id in alive or array_id in arrays or array_id in self._waiting
        }
        for array_id in self._requested.keys() - arrays:
            del self._requested[array_id]


def _ran(row: QueueRow) -> bool:
    """Whether it got nodes; a job that was cancelled while pending has a start time too."""
    return row.state not in WAITING_STATES and bool(row.nodes) and not math.isnan(row.start)


#: Requested processors, not allocated ones, since predictions know a pending job by its request.
FIELDS = (
    *("JobIDRaw", "User", "ReqCPUS", "AllocCPUS", "TimelimitRaw"),
    *("Submit", "Start", "End", "State", "ReqTRES"),
)
SACCT = ("sacct", "--allusers", "-X", "--parsable2", "--noheader", "-o", ",".join(FIELDS))
#: Seconds added to a command's time-out for accounting, which may search a month.
SECONDS_MORE = 50.0
#: The newest runs; the first decision must learn from all of them.
RUNS_AT_MOST = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """A job that ran and ended; times in seconds since the epoch, NaN for no time limit."""

    job_id: int
    user: str
    processors: int
    time_limit: float
    submit: float
    start: float
    end: float
    asked: NodeRequest | None = None  #: its request


def read_past_runs(runner: CommandRunner, days: float) -> list[PastRun]:
    """Runs that ended in the last days, at most RUNS_AT_MOST; empty if accounting fails."""
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
    runs, strange = parse_runs(answer.output)
    if strange:
        logger.warning("past_runs=incomplete lines=%d first=%r", len(strange), strange[0][:200])
    runs = heapq.nlargest(RUNS_AT_MOST, runs, key=lambda run: run.end)
    logger.info("past_runs=%d days=%g", len(runs), days)
    return runs


def parse_runs(text: str) -> tuple[list[PastRun], list[str]]:
    """The jobs that ran and ended, and the lines that are not understood."""
    found: list[PastRun | None] = []
    strange: list[str] = []
    for line in text.splitlines():
        try:
            found.append(_run(line))
        except ValueError:
            strange.append(line)
    return [run for run in found if run is not None], strange


def _run(line: str) -> PastRun | None:
    """The run of a line; None if the job never ran or is not over."""
    values = sound_values(FIELDS, line)
    job_id, user, processors, allocated, limit, submit, start, end, state, tres = values
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


#: Seconds between two queries of the nodes.
PACE = MINUTE


class MachineLook:
    """Asks `sinfo` for memory and generic resources of nodes, if slurm.conf counts any."""

    def __init__(self, commands: CommandRunner, clock: Callable[[], float]) -> None:
        self._commands = commands
        self._clock = clock
        self._counts_memory = self._counts_any = False
        self._next = -math.inf
        self.release = (0, 0)  #: year and month of Slurm's release; 0 before `counts`
        self._licences: tuple[str, ...] = ()
        self._nodes: Mapping[str, NodeNow] = {}
        #: The last answer; None if the machine has only processors, or is not known.
        self.seen: ResourcesNow | None = None

    def counts(self, settings: SlurmSettings) -> None:
        """Take from slurm.conf what Slurm counts."""
        self._counts_memory = settings.counts_memory
        self._counts_any = settings.counts_memory or settings.counts_gres
        self._licences = settings.licences
        self.release = settings.release

    @property
    def asked_for(self) -> tuple[str, ...]:
        """Names of what a job may request: of nodes, then licences; empty for processors alone."""
        return () if self.seen is None else (*self.seen.names, *self._licences)

    @property
    def uncounted(self) -> tuple[str, ...]:
        """Requested resources that Slurm gives to any number of jobs."""
        return () if self._counts_memory else (MEMORY,)

    def now(
        self, rows: Iterable[QueueRow], running: RunningJobs, processors: int
    ) -> ResourcesNow | None:
        """What the machine has and what of it is free; None if it has only processors."""
        if self.seen is None:
            return None
        return with_running(self.seen, running, processors, self._withheld(rows))

    def _withheld(self, running: Iterable[QueueRow]) -> Mapping[str, float]:
        found: Counter[str] = Counter()
        for row in (part for each in running for part in each.components or (each,)):
            if row.asked is None or not row.asked.exclusive:
                continue
            try:
                nodes = [self._nodes[name] for name in expand(row.nodes)]
            except (ValueError, KeyError):
                continue  # what is left on an unknown node is not known
            for node in nodes:
                found.update({name: node.usable(name) for name in node.has})
            found.subtract(dict(row.asked.amounts))
        return {name: amount for name, amount in found.items() if name != CPUS and amount > 0}

    def look(self) -> None:
        """Query the nodes every PACE seconds; a failure is logged, and then nothing is known."""
        now = self._clock()
        if not self._counts_any:
            self.seen = None
        elif not self._next - PACE <= now < self._next:
            self._next = now + PACE
            try:
                nodes = read_nodes(self._commands.read, counts_memory=self._counts_memory)
                self._nodes = {node.name: node for node in nodes}
                self.seen = resources_now(nodes)
            except BatchSystemError as error:  # an order by processors alone is better than none
                logger.warning("resources=unknown reason=%s", error)
                self.seen = None


#: Bits of a job's number; higher bits name the cluster of a federation that it was submitted to.
_NUMBER_BITS = 26
#: No field of these holds a user's text, so records need no mark.
_SIBLINGS = (
    *("squeue", "--noheader", "--all", "--local", "--states", ASK_WAITING),
    *("-O", "ArrayJobID:|,OriginRaw:|,SiblingsViableRaw:"),
)
#: Prints the clusters of the federation, nothing without a federation.
_FEDERATION = ("scontrol", "show", "federation")
#: Printed by `squeue` for a job without siblings, such as a heterogeneous job.
_NO_SIBLING = "NA"


def shared_jobs(commands: CommandRunner, waiting: Iterable[QueueRow]) -> frozenset[int]:
    """Numbers of the pending jobs and arrays that other clusters hold too.

    Slurm is asked only in a federation. A job that is new or changed since the queue was read
    counts as shared.
    """
    federated = {row.array_id for row in waiting if row.array_id >> _NUMBER_BITS}
    if not federated:
        return frozenset()
    alone: set[int] = set()
    shared: set[int] = set()
    for line in commands.read(_SIBLINGS).splitlines():
        number, *clusters = line.strip().split("|")
        if not number.isdecimal() or len(clusters) != 2:
            raise not_understood("squeue", line)
        origin, siblings = clusters
        (alone if siblings in (origin, _NO_SIBLING) else shared).add(int(number))
    return frozenset(federated - (alone - shared))


def federation_checks(commands: CommandRunner, waiting: Sequence[QueueRow]) -> list[Check]:
    """Check which jobs cannot be ordered because of the federation; empty without one."""
    try:
        text = commands.read(_FEDERATION)
        shared = shared_jobs(commands, waiting)
    except BatchSystemError as error:
        return [Check(FAIL, "federation", str(error))]
    others = [
        line.split()[1].partition(":")[0]
        for line in text.splitlines()
        if line.startswith("Sibling:") and len(line.split()) > 1
    ]
    if not others:
        return []
    jobs = {row.array_id for row in waiting}
    what = (
        f"in a federation with {', '.join(others)}: {len(shared)} of {len(jobs)} waiting jobs are "
        "shared with other clusters and keep the site's own priority; submit jobs with `sbatch "
        "-M CLUSTER` to have them ordered here"
    )
    return [Check(WARN, "federation", what)]


def whole_jobs(rows: Sequence[QueueRow]) -> list[QueueRow]:
    """The rows that are no components, and one row for each heterogeneous job.

    Slurm starts the components together or not at all, so they have one place in the queue. It
    tries each at its own priority. If a job that needs the same nodes is between two components,
    neither may start (seen on 22.05), so the components must be neighbours in the queue.
    """
    components: dict[int, list[QueueRow]] = {}
    for row in rows:
        if row.het_id:
            components.setdefault(row.het_id, []).append(row)
    singles = [row for row in rows if not row.het_id]
    return [*singles, *(_as_one(parts) for parts in components.values())]


def _as_one(parts: Sequence[QueueRow]) -> QueueRow:
    """The job under the number of its first component, the leader.

    It is held, not eligible, unlimited or waiting by its user's own doing if one component is. Its
    accrued wait and its priority are the lowest, since all components wait for the last one.
    """
    parts = sorted(parts, key=lambda row: row.job_id)
    leader = parts[0]
    held = [row for row in parts if row.held]
    waiting_by_choice = held or [row for row in parts if is_own_doing(row.reason)]
    return replace(
        leader,
        job_id=leader.het_id,
        array_id=leader.het_id,
        state=min((row.state for row in parts), key=_progress),
        reason=(waiting_by_choice or parts)[0].reason,
        priority=min(row.priority for row in parts),
        processors=sum(row.processors for row in parts),
        eligible=max(row.eligible for row in parts),
        accrue=max(row.accrue for row in parts),
        start=float(np.max([row.start for row in parts])),
        end=float(np.max([row.end for row in parts])),
        time_limit=float(np.max([row.time_limit for row in parts])),
        components=tuple(parts),
        asked=together([row.asked for row in parts]),
    )


def _progress(state: str) -> int:
    if state in WAITING_STATES:
        return 0
    if state in RUNNING_STATES:
        return 1
    return 3 if state in FINAL_STATES else 2


SQUEUE = ("squeue", "--noheader", "--all", "--local")


class Squeue:
    """Lists jobs by `squeue`, a row for each record; reads comments if users choose classes."""

    def __init__(
        self,
        commands: CommandRunner,
        machine: MachineLook | None = None,
        *,
        reads_comments: bool = False,
        reads_requests: bool = False,
    ) -> None:
        self._commands = commands
        self._machine = machine
        self._always_requests = reads_requests
        self.reads_comments = reads_comments
        self._fields: tuple[str, ...] = QUEUE_FIELDS
        #: Records of the last whole queue; most are the same in the next one.
        self._known: Mapping[int, QueueRow] = {}

    @property
    def reads_requests(self) -> bool:
        """Whether requests are listed: always, or where the machine has more than processors."""
        seen = self._machine is not None and self._machine.seen is not None
        return seen or self._always_requests

    def waiting_and_running(self) -> list[QueueRow]:
        """Pending and running jobs; the answer is kept for the next time."""
        records = self.records(ASK_WAITING_OR_RUNNING)
        return [row for row in records if row.state in WAITING_OR_RUNNING]

    def waiting(self) -> list[QueueRow]:
        """Pending jobs only."""
        return [row for row in self.records(ASK_WAITING) if row.state in WAITING_STATES]

    def of_arrays(self, array_ids: Sequence[int]) -> list[QueueRow]:
        """Records with these numbers, at least one, in all states; unknown ones are left out."""
        return list(self.records("all", array_ids))

    def records(self, states: str, array_ids: Sequence[int] = ()) -> Iterable[QueueRow]:
        """Records in these states of `squeue`, of all jobs or of the given numbers."""
        fields = queue_fields(
            requests=self.reads_requests,
            comments=self.reads_comments,
            release=self._machine.release if self._machine else (0, 0),
        )
        if fields != self._fields:
            self._fields, self._known = fields, {}
        options = ["--states", states]
        if array_ids:
            # squeue fails for one unknown job but not for several, so name one twice
            options += ["--jobs", ",".join(map(str, [array_ids[0], *array_ids]))]
        mark = secrets.token_hex(4)
        answer = self._commands.read([*SQUEUE, *options], queue_format(mark, fields))
        found = parse_records(answer, mark, self._known, fields)
        if states == ASK_WAITING_OR_RUNNING:
            self._known = found
        return found.values()
