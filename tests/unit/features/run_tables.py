"""Small queues of running and ended jobs, and a readable account of what their runs tell."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from slurm_rl_plugin.domain import (
    EndedJobs,
    JobTable,
    PendingJobs,
    QueueSnapshot,
    RunningJobs,
    StartedJobs,
)
from slurm_rl_plugin.domain.jobs import empty_job_table
from slurm_rl_plugin.features.history.run_history import BOUNDS

USERS = ("ann", "bob", "carol", "dan")
NOTHING = empty_job_table()
HOUR, DAY = 3600.0, 86_400.0
ENDED = len(BOUNDS)


@dataclass(frozen=True)
class Run:
    """A job; `end` is inf for one that never ends."""

    job_id: int
    user: int
    processors: int
    time_limit: float
    start: float
    end: float = math.inf

    @property
    def asked(self) -> float:
        """Requested seconds; two days where the job asks for no time."""
        return 2 * DAY if math.isnan(self.time_limit) else self.time_limit


def table_of(runs: list[Run]) -> JobTable:
    count = len(runs)
    start = np.array([run.start for run in runs], dtype=np.float64)
    zero = np.zeros(count, dtype=np.int64)
    return JobTable(
        job_id=np.array([run.job_id for run in runs], dtype=np.int64),
        submit=start,
        eligible=start,
        processors=np.array([run.processors for run in runs], dtype=np.int64),
        time_limit=np.array([run.time_limit for run in runs], dtype=np.float64),
        account=zero,
        user=np.array([run.user for run in runs], dtype=np.int64),
        partition=zero,
        interactive=np.zeros(count, dtype=np.bool_),
    )


def snapshot_of(
    now: float,
    *,
    running: list[Run] = [],  # noqa: B006 - never changed
    ended: list[Run] = [],  # noqa: B006
    pending: list[Run] = [],  # noqa: B006
    from_accounting: bool = False,
    users: tuple[str, ...] = USERS,
) -> QueueSnapshot:
    over, at_work = table_of(ended), table_of(running)
    return QueueSnapshot(
        now=now,
        pending=PendingJobs.untouched(table_of(pending)),
        running=RunningJobs(jobs=at_work, start=at_work.submit),
        started=StartedJobs(jobs=NOTHING, start=NOTHING.submit),
        capacity=100,
        accounts=("physics",),
        partitions=("batch",),
        shares=np.ones(1),
        usage=np.ones(1),
        ended=EndedJobs(
            jobs=over,
            start=over.submit,
            end=np.array([run.end for run in ended], dtype=np.float64),
            from_accounting=from_accounting,
        ),
        users=users,
    )


def class_of(run: Run) -> int:
    """The class of a request, by whole numbers: 16 lengths from a minute on, 14 widths."""
    long = max(int(run.asked // 60), 1).bit_length() - 1
    wide = max(run.processors, 1).bit_length() - 1
    return 14 * min(long, 15) + min(wide, 13)


@dataclass
class Row:
    """What runs have told of a class of requests, a user or a template."""

    keeps: float
    ended: list[float] = field(default_factory=lambda: [0.0] * len(BOUNDS))
    at_risk: list[float] = field(default_factory=lambda: [0.0] * len(BOUNDS))
    spent: float = 0.0
    last: float = 0.0
    previous: float = 0.0
    inverse: float = 0.0

    def tell(self, bound: int, *, ended: bool, weight: float) -> None:
        """A run came as far as the bound before, and then ended before this one or did not.

        A run that counts half takes half as much from the older runs.
        """
        lost = weight * (1.0 - self.keeps)
        self.ended[bound] += weight * ended - lost * self.ended[bound]
        self.at_risk[bound] += weight - lost * self.at_risk[bound]

    def pay(self, length: float, processors: int) -> None:
        """A user's run has ended or has become a long one."""
        self.spent = 0.0 if length >= 2 * HOUR else self.spent + length * processors

    def remember(self, length: float) -> None:
        """A user's run has ended."""
        inverse = 1.0 / max(length, 10.0)
        self.inverse = self.inverse + 0.1 * (inverse - self.inverse) if self.inverse else inverse
        self.last, self.previous = length, self.last or length

    def numbers(self) -> list[float]:
        """The row as the package keeps it."""
        return [*self.ended, *self.at_risk, self.spent, self.last, self.previous, self.inverse]


def end_of(run: Run) -> tuple[int | None, bool]:
    """The place of the bound of which an end tells, and whether the run ended before it.

    The length of a run that its limit ended is not known. None where the run has told all before.
    """
    length = run.end - run.start
    above = [place for place, bound in enumerate(BOUNDS) if bound > length]
    if above and length < 0.99 * run.asked:
        return above[0], True
    last_within = [place for place, bound in enumerate(BOUNDS) if bound < 0.99 * run.asked]
    if above and above[0] <= max(last_within, default=-1) + 1:
        return above[0], False
    return None, False


@dataclass
class ReadableHistory:
    """All events of some runs up to a time, sorted once and told one after the other."""

    site: dict[int, Row] = field(default_factory=dict)
    users: dict[str, Row] = field(default_factory=dict)
    limits: dict[tuple[str, int], Row] = field(default_factory=dict)
    templates: dict[tuple[str, int, int], Row] = field(default_factory=dict)

    @classmethod
    def of(cls, runs: list[Run], until: float) -> ReadableHistory:
        history = cls()
        events = []
        for run in runs:
            for kind, bound in enumerate(BOUNDS):
                if run.start + bound <= min(run.end, until):
                    events.append((run.start + bound, kind, run.job_id, run))
            if run.end <= until:
                events.append((run.end, ENDED, run.job_id, run))
        for _, kind, _, run in sorted(events, key=lambda event: event[:3]):
            history.tell(run, kind)
        return history

    def tell(self, run: Run, kind: int) -> None:
        user = self.users.setdefault(USERS[run.user], Row(0.9))
        site = self.site.setdefault(class_of(run), Row(0.999))
        limits = self.limits.setdefault(limits_of(run), Row(0.93))
        template = self.templates.setdefault(template_of(run), Row(0.6))
        bound, ended = end_of(run) if kind == ENDED else (kind, False)
        if bound is not None:
            voice = 1.0 / (1.0 + user.at_risk[bound]) ** 2  # less, the more the user has told
            site.tell(bound, ended=ended, weight=voice)
            user.tell(bound, ended=ended, weight=1.0)
            among = 1.0 / (1.0 + template.at_risk[bound])  # less, the more the template has told
            limits.tell(bound, ended=ended, weight=among)
            template.tell(bound, ended=ended, weight=1.0)
        if kind == ENDED:
            user.pay(run.end - run.start, run.processors)
            user.remember(run.end - run.start)
        elif BOUNDS[kind] == 2 * HOUR:
            user.pay(2 * HOUR, run.processors)

    def speaks_for(self, run: Run) -> bool:
        """Whether the user's runs count for a pending job: a large one must have been paid for."""
        user = self.users.get(USERS[run.user], Row(0.9))
        return run.processors * run.asked < 1536 * HOUR or user.spent >= run.processors * run.asked

    def rows_for(self, run: Run) -> list[Row]:
        """Rows of a pending job's class, user, limits, template; empty where nothing is known."""
        nothing = Row(1.0)
        return [
            self.site.get(class_of(run), nothing),
            self.users.get(USERS[run.user], nothing),
            self.limits.get(limits_of(run), nothing),
            self.templates.get(template_of(run), nothing),
        ]


def limits_of(run: Run) -> tuple[str, int]:
    """A user's jobs whose limits lie within the same powers of two."""
    return USERS[run.user], class_of(run) // 14


def template_of(run: Run) -> tuple[str, int, int]:
    """A user's jobs of the same processors and the same nearest quarter of a doubling of time."""
    quarters = 4 * math.log2(max(run.asked / 60.0, 1.0))
    return (USERS[run.user], run.processors, math.floor(quarters + 0.5))
