"""Small queues and batch systems for tests of the hook."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import count
from pathlib import Path
from threading import Event

import numpy as np

from slurm_rl_plugin.batch_systems.port import (
    ApplyReport,
    BatchSystem,
    FactorChange,
    SchedulerFacts,
    SchedulerLoad,
)
from slurm_rl_plugin.domain import (
    Decision,
    JobTable,
    Memory,
    PendingJobs,
    QueueSnapshot,
    RunningJobs,
    StartedJobs,
)
from slurm_rl_plugin.domain.jobs import empty_job_table
from slurm_rl_plugin.errors import BatchSystemUnavailable, PolicyError
from slurm_rl_plugin.hook.audit.log import AuditLog
from slurm_rl_plugin.hook.cycle.cycle import Cycle
from slurm_rl_plugin.hook.cycle_report import CycleReport, CycleSettings, Pace
from slurm_rl_plugin.hook.daemon.daemon import Daemon
from slurm_rl_plugin.hook.memory.carried_factors import MemoryFile, StateFile, memory_path
from slurm_rl_plugin.hook.rails.guard_rails import UntouchedJobs, default_guard_rails
from slurm_rl_plugin.hook.rails.reserve import BatchLimit, ReserveRail
from slurm_rl_plugin.policies.port import Policy
from slurm_rl_plugin.units import IntArray
from tests.architecture.markdown_documents import TOP

NOW = 1000.0
FACTS = SchedulerFacts(
    release="1",
    lever="factor",
    harm=None,
    points_an_hour=100.0,
    pass_interval=0.0,
    in_charge=True,
)


JOB_COLUMNS = frozenset(each.name for each in fields(JobTable))


def job_table(count: int, **columns: Sequence[object]) -> JobTable:
    """Jobs 1..count of one account and partition, submitted ten seconds apart; others by name."""
    ids = np.arange(1, count + 1)
    submit = 10.0 * ids
    table = JobTable(
        job_id=ids,
        submit=submit,
        eligible=submit,
        processors=np.ones(count, dtype=np.int64),
        time_limit=np.full(count, 600.0),
        account=np.zeros(count, dtype=np.int64),
        user=np.zeros(count, dtype=np.int64),
        partition=np.zeros(count, dtype=np.int64),
        interactive=np.zeros(count, dtype=np.bool_),
    )
    arrays = {name: np.array(values) for name, values in columns.items()}
    known = {name: getattr(table, name) for name in arrays}
    return replace(
        table,
        **{
            n: each if known[n] is None else each.astype(known[n].dtype)
            for n, each in arrays.items()
        },
    )


def snapshot_of(pending: PendingJobs, now: float = NOW) -> QueueSnapshot:
    nothing = empty_job_table()
    accounts, partitions = (
        (first, *(f"{first}{number}" for number in range(1, index.max(initial=0) + 1)))
        for first, index in (("physics", pending.jobs.account), ("batch", pending.jobs.partition))
    )
    return QueueSnapshot(
        now=now,
        pending=pending,
        running=RunningJobs(jobs=nothing, start=nothing.submit),
        started=StartedJobs(jobs=nothing, start=nothing.submit),
        capacity=4,
        accounts=accounts,
        partitions=partitions,
        shares=np.full(len(accounts), 1.0 / len(accounts)),
        usage=np.zeros(len(accounts)),
    )


def pending_jobs(native: Sequence[int], **columns: Sequence[object]) -> PendingJobs:
    """Pending jobs with these native priorities; other columns, of the jobs too, by name."""
    count = len(native)
    arrays = {
        "factor": np.zeros(count, dtype=np.int64),
        "held": np.zeros(count, dtype=np.bool_),
        "admin_set": np.zeros(count, dtype=np.bool_),
        "nice": np.zeros(count, dtype=np.int64),
    }
    of_jobs = {name: columns.pop(name) for name in JOB_COLUMNS & columns.keys()}
    arrays.update({name: np.array(values) for name, values in columns.items()})
    table = job_table(count, **of_jobs)
    return PendingJobs(jobs=table, native_priority=np.array(native), **arrays)


@dataclass
class QueueInMemory(BatchSystem):
    """A batch system that is one table; `away` makes every call fail."""

    pending: PendingJobs
    now: float = NOW
    away: bool = False
    refuse: tuple[int, ...] = ()
    written: list[FactorChange] = field(default_factory=list)
    name: str = "memory"
    known: SchedulerFacts = FACTS
    struggles: str | None = None
    events: tuple[int, ...] = (0,)
    asked: list[str] = field(default_factory=list)
    running: RunningJobs | None = None

    def facts(self) -> SchedulerFacts:
        self._answer("facts")
        return self.known

    def load(self) -> SchedulerLoad:
        self._answer("load")
        return SchedulerLoad(struggles=self.struggles, events=self.events)

    def snapshot(self) -> QueueSnapshot:
        self._answer("snapshot")
        seen = snapshot_of(self.pending, self.now)
        return seen if self.running is None else replace(seen, running=self.running)

    def apply(self, changes: Sequence[FactorChange]) -> ApplyReport:
        self._answer("apply")
        for change in changes:
            if change.job_id not in self.refuse:
                self.pending.factor[self.pending.jobs.job_id == change.job_id] = change.new
                self.written.append(change)
        rejected = {each.job_id: "no" for each in changes if each.job_id in self.refuse}
        return ApplyReport(
            accepted=frozenset(each.job_id for each in changes if each.job_id not in rejected),
            rejected=rejected,
        )

    def release(self, job_ids: IntArray | None = None) -> ApplyReport:
        self._answer("release")
        ids = self.pending.jobs.job_id if job_ids is None else job_ids
        return self.apply([FactorChange(job_id=int(job), old=0, new=0) for job in ids])

    def _answer(self, call: str) -> None:
        self.asked.append(call)
        if self.away:
            raise BatchSystemUnavailable("no answer")

    def order(self) -> list[int]:
        """Job ids as the batch system would start them."""
        total = self.pending.native_priority + self.pending.factor
        return [int(self.pending.jobs.job_id[place]) for place in np.argsort(-total, kind="stable")]


@dataclass
class WaitingQueue(QueueInMemory):
    """Shows the pending jobs; `submitted` counts the jobs that have come."""

    lists_pending = True

    submitted: int = 0
    backlog: int = 0
    bursts: list[int] = field(default_factory=list)

    def load(self) -> SchedulerLoad:
        return replace(super().load(), submitted=self.submitted, backlog=self.backlog)

    def pending_now(self) -> QueueSnapshot:
        return super().snapshot()

    def apply(self, changes: Sequence[FactorChange]) -> ApplyReport:
        self.bursts.append(len(changes))
        return super().apply(changes)

    def add(self, native: Sequence[int], **columns: Sequence[object]) -> None:
        """The whole queue anew, with factors of those that were there."""
        factor = np.zeros(len(native), dtype=np.int64)
        both = min(len(native), len(self.pending))
        factor[:both] = self.pending.factor[:both]
        self.submitted += len(native) - len(self.pending)
        self.pending = pending_jobs(native, factor=factor.tolist(), **columns)
        self.written.clear()


@dataclass
class LimitedQueue(WaitingQueue):
    """A queue whose batch jobs can be limited; raises `fault` instead."""

    file: Path = field(kw_only=True)
    limit: int | None = None
    fault: Exception | None = None
    limits: list[int | None] = field(default_factory=list)

    def limit_batch(self, amounts: Mapping[str, int] | None) -> None:
        processors = None if amounts is None else amounts["cpus"]
        self.limits.append(processors)
        if self.fault is not None:
            raise self.fault
        self.limit = processors
        self.file.unlink(missing_ok=True) if processors is None else self.file.touch()


@dataclass
class ScorePolicy:
    """Returns the given scores, or raises."""

    scores: Sequence[float]
    broken: bool = False
    name: str = "scores"
    asked: int = 0

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        self.asked += 1
        if self.broken:
            raise PolicyError("the model is broken")
        return Decision(scores=np.array(self.scores, dtype=np.float64))


class CountingPolicy(ScorePolicy):
    """Remembers how often it was asked."""

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        decision = super().decide(snapshot, memory)
        return replace(decision, memory=np.array([1.0 if memory is None else memory[0] + 1.0]))


def cycle_over(
    queue: BatchSystem,
    policy: Policy,
    folder: Path,
    rail: ReserveRail | None = None,
    bound: float = float("inf"),
    **settings: object,
) -> Cycle:
    ticks = count()
    return Cycle(
        batch_system=queue,
        policy=policy,
        model_sha256="abc",
        settings=CycleSettings(**{"shadow": False, **settings}),  # type: ignore[arg-type]
        guard_rails=default_guard_rails(bound, rail),
        untouched=UntouchedJobs(),
        state=StateFile(folder / "state.json"),
        audit=AuditLog(folder / "audit.jsonl"),
        monotonic=lambda: next(ticks) * 0.001,
        limit=BatchLimit(rail=rail),
    )


def site(
    folder: Path,
    native: Sequence[int] = (3, 2, 1),
    scores: Sequence[float] = (1, 2, 3),
    *,
    policy: Policy | None = None,
    **settings: object,
) -> tuple[QueueInMemory, Cycle]:
    """A queue and a cycle over it; by default the policy wants the opposite order."""
    queue = QueueInMemory(pending_jobs(native))
    return queue, cycle_over(queue, policy or ScorePolicy(scores), folder, **settings)  # type: ignore[arg-type]


def memory_of(folder: Path, *, of_candidate: bool = False) -> MemoryFile:
    """What the cycles of a folder remember."""
    path = memory_path(folder / "state.json", of_candidate=of_candidate)
    return MemoryFile(path=path, model_sha256="abc")


def damaged(kind: str) -> list[str]:
    """Contents that no file of this kind should have."""
    return list(tomllib.loads((TOP / "tests/assets/damaged_files.toml").read_text())[kind])


def audit_lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]


def state_jobs(folder: Path) -> list[int]:
    return list(json.loads((folder / "state.json").read_text())["jobs"])


class CountedStop(Event):
    """Sets itself after a number of waits; records the length of each."""

    def __init__(self, waits: int, between: Callable[[int], None] = lambda number: None) -> None:
        super().__init__()
        self.left = waits
        self.between = between
        self.pauses: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout or 0.0)
        self.between(len(self.pauses))
        if len(self.pauses) >= self.left:
            self.set()
        return self.is_set()


def daemon_of(
    cycle: Cycle, stop: Event | int = 1, **changes: object
) -> tuple[Daemon, list[CycleReport]]:
    """A daemon that stops with this event, or after a number of waits; and its reports."""
    reports: list[CycleReport] = []
    daemon = Daemon(
        cycle=cycle,
        pace=Pace(longest=5.0, soonest=5.0),
        publish=reports.append,
        stop=CountedStop(stop) if isinstance(stop, int) else stop,
        reload_wanted=Event(),
        reload=lambda: None,
        disable_file=None,
        alive=lambda: None,
        monotonic=lambda: 0.0,
        clock=lambda: 0.0,
        sleep=lambda seconds: None,
        bring_in=lambda cycle, candidate, model_sha256: True,
    )
    for name, value in changes.items():
        setattr(daemon, name, value)
    return daemon, reports
