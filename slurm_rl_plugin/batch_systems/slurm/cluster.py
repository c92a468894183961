"""A Slurm cluster, read and reordered by Slurm's own commands."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.batch_systems.command_process import collector_paused, share_one_heap
from slurm_rl_plugin.batch_systems.port import (
    AdapterParts,
    ApplyReport,
    BatchSystem,
    Check,
    FactorChange,
    JobRecord,
    SchedulerFacts,
    SchedulerLoad,
    SiteNames,
    to_sum_one,
)
from slurm_rl_plugin.batch_systems.slurm.answers.fields import (
    RUNNING_STATES,
    SINFO,
    TIMED_OUT,
    WAITING_STATES,
    Capacity,
    QueueRow,
    parse_capacity,
    reason_word,
    reasons,
)
from slurm_rl_plugin.batch_systems.slurm.answers.machine import (
    SSHARE,
    AccountTree,
    parse_shares,
    read_site_names,
    usage_now,
)
from slurm_rl_plugin.batch_systems.slurm.answers.settings import (
    BASIC,
    SDIAG,
    SHOW_CONFIG,
    parse_load,
    parse_settings,
)
from slurm_rl_plugin.batch_systems.slurm.batch_limit import SlurmBatchLimit, keeps_back
from slurm_rl_plugin.batch_systems.slurm.checks import limit_checks, slurm_checks
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.batch_systems.slurm.queue.job_tables import (
    RowNumbers,
    TableBuilder,
    describe,
    first_of_each_array,
    waiting_tasks,
)
from slurm_rl_plugin.batch_systems.slurm.queue.reader import (
    JobWatch,
    MachineLook,
    PastRun,
    Squeue,
    federation_checks,
    read_past_runs,
    shared_jobs,
    whole_jobs,
)
from slurm_rl_plugin.batch_systems.slurm.site_factor import (
    PRIORITY_FORMAT,
    SPRIO,
    Scontrol,
    SiteFactors,
    parse_terms,
    still_waiting,
)
from slurm_rl_plugin.domain import EndedJobs, QueueSnapshot, StartedJobs
from slurm_rl_plugin.errors import BatchSystemError
from slurm_rl_plugin.units import FloatArray, IntArray

logger = logging.getLogger(__name__)


class _Seen(NamedTuple):
    running: list[QueueRow]
    tree: AccountTree
    capacity: Capacity


class SlurmCommands(BatchSystem):
    """A Slurm cluster, reordered by SiteFactor.

    Jobs come from `squeue`, priorities from `sprio` (nothing else shows a factor), shares from
    `sshare`, capacity from `sinfo` and past runs from `sacct`; `scontrol` writes.

    What is special about Slurm's jobs:

    * A pending job array is one row under the array's number, with the values of the record that
      can start first. Running and started tasks are rows of their own.
    * A heterogeneous job is one row under its first component's number, pending or not.
    * `eligible` is infinite if Slurm gives no time (held, dependency, array at its limit).
    * A priority set by hand hides our term: `admin_set`, with factor 0.
    * A job that other clusters of a federation hold too is `shared`: a write would reach them.
    """

    name = "slurm_commands"
    lists_pending = True
    hidden_factors = "sprio lists no job that is held or not eligible."

    def __init__(self, given: AdapterParts, commands: CommandRunner | None = None) -> None:
        share_one_heap()
        self._given = given
        self._runner = commands or CommandRunner.of(given)
        self._machine = MachineLook(self._runner, given.clock)
        self._queue, sender = self._parts(self._runner, self._machine)
        self._site_factor = SiteFactors(sender)
        self._priority_type: str | None = None
        self._limit = SlurmBatchLimit(self._runner, given.limit, given.limits_file)
        self._watch = JobWatch()
        limit = given.limit
        self._numbers = RowNumbers(
            given.classifier, partial(keeps_back, limit) if limit.mechanism else None
        )
        self._history_days = given.history_days
        self._seen: _Seen | None = None

    def _parts(self, commands: CommandRunner, machine: MachineLook) -> tuple[Squeue, Scontrol]:
        reads_comments = self._given.classifier.users_choose
        return Squeue(commands, machine, reads_comments=reads_comments), Scontrol(commands)

    def facts(self) -> SchedulerFacts:
        """Read slurm.conf as slurmctld has it."""
        settings = parse_settings(self._runner.read(SHOW_CONFIG), self._given.host)
        self._priority_type = settings.priority_type
        self._machine.counts(settings)
        return settings.facts

    def load(self) -> SchedulerLoad:
        """How busy slurmctld is, by `sdiag`; unknown if its answer is not understood."""
        text = self._runner.read(SDIAG)
        try:
            return parse_load(text)
        except BatchSystemError as error:  # the load is a hint: without it the daemon acts
            logger.warning("load=unknown reason=%s", error)
            return SchedulerLoad(struggles=None, events=())

    @collector_paused()
    def snapshot(self) -> QueueSnapshot:
        """Read the queue and, at the same time, priorities, shares and nodes."""
        self._read_settings_once()
        days, self._history_days = self._history_days, 0.0
        past = read_past_runs(self._runner, days)  # may take a while, so before the queue is read
        self._machine.look()
        now = self._given.clock()
        with ThreadPoolExecutor(1) as thread:  # slurmctld answers several readers at a time
            others = thread.submit(
                lambda: (self._priorities(), *map(self._runner.read, (SSHARE, SINFO)))
            )
            rows = whole_jobs(self._queue.waiting_and_running())
            priorities, shares, nodes = others.result()
        self._site_factor.take(priorities)
        tree = parse_shares(shares)
        ids = self._watch.ask_about(rows)  # Slurm keeps ended jobs for MinJobAge (300 s)
        vanished = whole_jobs(self._queue.of_arrays(ids)) if ids else []
        started, ended = self._watch.starts_and_ends(rows, vanished, now)
        running = [row for row in rows if row.state in RUNNING_STATES]
        self._seen = _Seen(running, tree, parse_capacity(nodes))
        here = {row.job_id for row in rows}  # their ends are reported later
        past = [run for run in past if run.job_id not in here]
        snapshot = self._snapshot(now, rows, self._seen, started, ended, past)
        self._numbers.forget_others(rows)
        return snapshot

    @collector_paused()
    def pending_now(self) -> QueueSnapshot:
        """Read the pending jobs and their factors."""
        if self._seen is None:
            raise BatchSystemError("no snapshot was taken yet")
        now = self._given.clock()
        rows = self._waiting_with_factors()
        requeued = {row.job_id for row in rows}
        running = [row for row in self._seen.running if row.job_id not in requeued]
        snapshot = self._snapshot(now, rows, self._seen._replace(running=running), (), (), ())
        self._numbers.forget_others([*rows, *running])  # pyslurm makes new rows each time
        return snapshot

    def _snapshot(
        self,
        now: float,
        rows: Sequence[QueueRow],
        seen: _Seen,
        started: Sequence[QueueRow],
        ended: Sequence[QueueRow],
        past: Sequence[PastRun],
    ) -> QueueSnapshot:
        tree, running, tiers = seen.tree, seen.running, seen.capacity.tiers
        records = [row for row in rows if row.state in WAITING_STATES]
        waiting = first_of_each_array(records)
        lines = self._numbers.of(waiting)
        terms = self._site_factor.terms(waiting, lines, tiers)
        shares = tree.shares if self._given.shares is None else self._given.shares
        build = TableBuilder(
            [*shares, *tree.shares],
            self._numbers,
            self._machine.asked_for,
            self._machine.uncounted,
        )
        tasks, shared = waiting_tasks(records), shared_jobs(self._runner, records)
        last_start = self._watch.last_start
        pending_jobs = build.pending(waiting, lines, terms, tiers, now, tasks, last_start, shared)
        asked = [self._watch.as_asked(row) for row in running]
        running_jobs = build.running(running, asked, now)
        started_jobs = StartedJobs(jobs=build.jobs(started), start=_starts(started))
        ended_jobs = _ended(build, ended, past)
        accounts = build.accounts.all
        return QueueSnapshot(
            now=now,
            pending=pending_jobs,
            running=running_jobs,
            started=started_jobs,
            capacity=seen.capacity.usable,
            accounts=accounts,
            partitions=build.partitions.all,
            shares=to_sum_one(np.array([shares.get(each, 0.0) for each in accounts], dtype=float)),
            usage=to_sum_one(usage_now(tree, accounts, running_jobs, now)),
            ended=ended_jobs,
            users=build.users.all,
            qos=build.qos.all,
            reasons=tuple(f"{word}: {reason_sentence(word)}" for word in build.reasons.all),
            resources=self._machine.now(running, running_jobs, seen.capacity.usable),
        )

    def go_on_from(self, earlier: BatchSystem) -> None:
        """Take over the earlier adapter's watch of jobs, and the limits that it might have set."""
        if isinstance(earlier, SlurmCommands):
            self._watch = earlier._watch
            self._limit.go_on_from(earlier._limit)

    def tell_past(self, days: float) -> None:
        """Report past runs in the next snapshot."""
        self._history_days = days

    def apply(self, changes: Sequence[FactorChange]) -> ApplyReport:
        """Write factors as SiteFactor."""
        return self._site_factor.write([(change.job_id, change.new) for change in changes])

    def release(self, job_ids: IntArray | None = None) -> ApplyReport:
        """Set our factor to 0.

        Without `job_ids` this also writes to pending jobs whose factor cannot be seen, since it may
        be one of an earlier daemon, but not to jobs that other clusters hold too.
        """
        self._read_settings_once()
        if job_ids is None:
            waiting = self._waiting_with_factors()
            others = shared_jobs(self._runner, waiting) - self._site_factor.showing(waiting)
            chosen = [job for job in self._site_factor.carrying(waiting) if job not in others]
        else:
            chosen = [int(job_id) for job_id in job_ids]
        report = self._site_factor.write([(job_id, 0) for job_id in chosen])
        still = still_waiting(report.rejected) | self._still_shown(chosen)
        return replace(report, later=still)

    def limit_batch(self, amounts: Mapping[str, int] | None) -> None:
        """Limit batch jobs by a QOS or by licences."""
        if amounts is None:
            self._limit.take_back()
        else:
            self._limit.set(amounts)

    def own_checks(self, *, wants_runs: bool = False) -> Iterator[Check]:
        """Check what only Slurm has: shares, accounting, a federation."""
        yield from slurm_checks(self._given, self._runner, wants_runs=wants_runs)
        yield from federation_checks(self._runner, whole_jobs(self._queue.waiting()))

    def site_names(self) -> SiteNames:
        """Names of accounts, partitions and QOS."""
        return read_site_names(self._runner.read)

    def limit_checks(self, *, writes: bool) -> Iterator[Check]:
        """Check the configured QOS or licences that carry the limit on batch jobs."""
        if self._given.limit.mechanism is not None:
            rows = whole_jobs(self._queue.waiting_and_running())
            yield from limit_checks(self._given, self._runner, rows, writes=writes)

    def _still_shown(self, written: Sequence[int]) -> frozenset[int]:
        """Jobs that still show a factor, since a command's report of a write may be wrong.

        If the queue cannot be read, the command's report counts.
        """
        if not written:
            return frozenset()
        try:
            waiting = self._waiting_with_factors()
        except BatchSystemError as error:
            logger.warning("release=not_looked_at reason=%s", error)
            return frozenset()
        return self._site_factor.showing(waiting).intersection(written)

    def _read_settings_once(self) -> None:
        """Read slurm.conf before the first `facts`."""
        if self._priority_type is None:
            self.facts()

    def _waiting_with_factors(self) -> list[QueueRow]:
        with ThreadPoolExecutor(1) as thread:
            priorities = thread.submit(self._priorities)
            rows = whole_jobs(self._queue.waiting())
            self._site_factor.take(priorities.result())
        return rows

    def _priorities(self) -> str:
        """The answer of SPRIO; it fails with `priority/basic`, which ignores factors."""
        return "" if self._priority_type == BASIC else self._runner.read(SPRIO)


def _starts(rows: Sequence[QueueRow] | Sequence[PastRun]) -> FloatArray:
    return np.array([row.start for row in rows], dtype=np.float64)


def _ended(build: TableBuilder, ended: Sequence[QueueRow], past: Sequence[PastRun]) -> EndedJobs:
    """Past runs in the first snapshot, later jobs that ended: never both."""
    return EndedJobs(
        jobs=build.past_jobs(past) if past else build.jobs(ended),
        start=_starts(past or ended),
        end=np.array([each.end for each in past or ended], dtype=np.float64),
        from_accounting=bool(past),
        timed_out=None if past else np.array([row.state == TIMED_OUT for row in ended], dtype=bool),
    )


def job_record(job: int, timeout: float) -> JobRecord:
    """Ask `squeue` and `sprio` for one job; failures are reported in the record."""
    runner = CommandRunner(timeout=timeout)
    queue = Squeue(runner, reads_comments=True)
    try:
        rows = queue.of_arrays([job])
        if rows and rows[0].het_id not in (0, job):
            job = rows[0].het_id  # Slurm shows a component by itself
            rows = queue.of_arrays([job])
        rows = whole_jobs(rows)
    except BatchSystemError as error:
        return JobRecord(unread=(f"its record: {error}.",))
    record = _record_of(rows)
    if not record.is_pending:
        return record
    numbers = {row.job_id for row in rows if row.state in WAITING_STATES}
    try:
        answer = runner.read(["sprio", "--noheader", "-j", str(job), "-o", PRIORITY_FORMAT])
        return replace(record, terms=parse_terms(answer, numbers))
    except BatchSystemError as error:
        return replace(record, unread=(f"the terms of its priority: {error}.",))


def _record_of(rows: Sequence[QueueRow]) -> JobRecord:
    """The record of what `squeue` printed: a row for each record of an array, no row if unknown."""
    if not rows:
        return JobRecord()
    record = JobRecord(number=rows[0].array_id, state=rows[0].state)
    waiting = first_of_each_array(row for row in rows if row.state in WAITING_STATES)
    if not waiting:
        return record
    first = waiting[0]  # of the whole array the task that can start first
    return replace(
        record,
        is_pending=True,
        name=first.name,
        qos=first.qos,
        reason=first.reason,
        meaning=reason_sentence(first.reason),
        tasks=first.tasks,
        description=describe(first),
    )


def reason_sentence(reason: str) -> str:
    """What a reason means for the job, and what its user can do: one sentence, no full stop."""
    word = reason_word(reason)
    known: Mapping[str, Sequence[str]] = reasons()["reasons"]
    unknown = "this release of slurm-rl does not know the reason; ask the administrators"
    return "; ".join(known[word]) if word in known else _of_limit(word) or unknown


def _of_limit(word: str) -> str:
    """The sentence on a limit; "" for another reason."""
    limits = reasons()["limits"]
    found = re.fullmatch(limits["form"], word, re.VERBOSE | re.IGNORECASE)
    if found is None:
        return ""
    part = {name: (value or "").lower() for name, value in found.groupdict().items()}
    owner, sharers = limits["owners"][part["owner"]], limits["sharers"]
    who = sharers.get(part["owner"] + part["of"]) or sharers.get(part["per"], owner)
    amount, minutes = limits["resources"][part["resource"]]
    said: str = next(
        f"{meaning}; {advice}"
        for form, meaning, advice in limits["sentences"]
        if re.search(form, word.lower())
    )
    return said.format(owner=owner, who=who, amount=amount, minutes=minutes, per=part["per"])
