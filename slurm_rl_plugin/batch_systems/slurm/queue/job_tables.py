"""Columns of the snapshot from rows of `squeue`; most rows are in the last snapshot too."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.batch_systems.port import Names
from slurm_rl_plugin.batch_systems.slurm.answers.fields import (
    LOWEST_TIER,
    QueueRow,
    is_own_doing,
    reason_word,
    request_columns,
    waits_for_processors,
)
from slurm_rl_plugin.batch_systems.slurm.queue.reader import PastRun
from slurm_rl_plugin.domain import JobTable, PendingJobs, RunningJobs
from slurm_rl_plugin.domain.job_class import JobClassifier, JobDescription
from slurm_rl_plugin.domain.jobs import measures
from slurm_rl_plugin.domain.resources import ResourceRequests
from slurm_rl_plugin.units import IntArray

#: A row as numbers; names and partitions are places in `words` and `partition_lists`.
LINE = np.dtype(
    [
        *((name, np.int64) for name in ("job_id", "array_id", "processors", "nice")),
        *((name, np.int32) for name in ("account", "user", "qos", "reason", "partitions")),
        *((name, np.float64) for name in ("submit", "eligible", "accrue", "start", "time_limit")),
        ("class_number", np.int32),
        *((name, np.bool_) for name in ("interactive", "by_limit", "by_user")),
        ("allowed", np.float64),
        *((name, np.bool_) for name in ("held", "own_doing", "for_processors")),
    ]
)
#: Columns of a line that are columns of a table as they are.
_OF_JOBS = (
    *("submit", "eligible", "processors", "time_limit", "allowed"),
    *("interactive", "by_limit", "by_user"),
)
#: Old rows are dropped once there are more than this, and more than a tenth of all.
GONE_AT_LEAST = 1000
Coded = TypeVar("Coded", str, tuple[str, ...])


class Codes(dict[Coded, int]):
    """Numbers words in the order of their first use; `list(codes)` are the words."""

    def __missing__(self, word: Coded) -> int:
        number = self[word] = len(self)
        return number


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of n rows; `lines[name]` is a contiguous column, shape [n]."""

    all: NDArray[Any]  #: of dtype LINE
    places: IntArray

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return np.asarray(self.all[name][self.places])


class RowNumbers:
    """Lines of rows, computed once for each row object.

    `keeps_back` says whether a row may wait for our limit on batch jobs.
    """

    def __init__(
        self, classifier: JobClassifier, keeps_back: Callable[[QueueRow], bool] | None = None
    ) -> None:
        self._classifier = classifier
        self._keeps_back = keeps_back
        self.words: Codes[str] = Codes()
        self.partition_lists: Codes[tuple[str, ...]] = Codes()
        #: Each at its `place`; a row that is not at its place is new.
        self._rows: list[QueueRow] = []
        self._lines: NDArray[Any] = np.empty(0, dtype=LINE)

    def of(self, rows: Sequence[QueueRow]) -> Lines:
        """A line for each row."""
        new = [row for row in rows if not self._knows(row)]
        known, count = len(self._rows), len(self._rows) + len(new)
        if count > len(self._lines):
            grown = np.empty(count + count // 8, dtype=LINE)
            grown[:known] = self._lines[:known]
            self._lines = grown
        self._lines[known:count] = np.fromiter(map(self._line, new), LINE, len(new))
        for place, row in enumerate(new, known):
            row.place = place
        self._rows += new
        return Lines(self._lines, _places(rows))

    def _knows(self, row: QueueRow) -> bool:
        return row.place < len(self._rows) and self._rows[row.place] is row

    def forget_others(self, rows: Sequence[QueueRow]) -> None:
        """Drop all other rows, once there are many."""
        here = [row for row in rows if self._knows(row)]
        gone = len(self._rows) - len(here)
        if gone > max(GONE_AT_LEAST, len(here) // 10):
            self._lines, self._rows = self._lines[_places(here)], here
            for place, row in enumerate(here):
                row.place = place

    def _line(self, row: QueueRow) -> tuple[Any, ...]:
        keeps_back = self._keeps_back is not None and self._keeps_back(row)
        since = row.eligible if math.isfinite(row.eligible) else row.submit
        return (
            *(row.job_id, row.array_id, row.processors, row.nice),
            *(self.words[row.account], self.words[row.user], self.words[row.qos]),
            self.words[reason_word(row.reason)],
            self.partition_lists[row.partitions],
            *(row.submit, row.eligible, row.accrue, row.start, row.time_limit),
            *self._classifier.job_class(describe(row), since),
            *(row.held, is_own_doing(row.reason)),
            waits_for_processors(row.reason) or keeps_back,
        )


def _places(rows: Sequence[QueueRow]) -> IntArray:
    return np.fromiter((row.place for row in rows), np.int64, len(rows))


def numbers_of(names: Names, codes: IntArray, words: Sequence[str]) -> IntArray:
    """Numbers of a snapshot's names, new ones in the order of the rows; shape [n]."""
    first = np.full(len(words), -1, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    met = np.flatnonzero(first >= 0)
    number = np.empty(len(words), dtype=np.int64)
    for code in met[np.argsort(first[met])].tolist():
        number[code] = names.number(words[code])
    return np.asarray(number[codes], dtype=np.int64)


def describe(row: QueueRow) -> JobDescription:
    """What the class rules may see of a row."""
    return JobDescription(
        partition=",".join(row.partitions),
        qos=row.qos,
        name=row.name,
        time_limit=row.time_limit,
        has_batch_script=row.has_batch_script,
        account=row.account,
        user=row.user,
        words=row.words,
    )


#: Jobs or other things that one line names.
SHOWN = 5
#: A task of an array, or a range with or without a step.
_TASKS = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::([1-9]\d{0,8}))?)?")


class TableBuilder:
    """Turns rows into columns, and numbers accounts, users and partitions.

    `resources` are the machine's resources, empty if it has only processors, and `uncounted` those
    that Slurm gives to any number of jobs.
    """

    def __init__(
        self,
        accounts: Iterable[str],
        numbers: RowNumbers,
        resources: tuple[str, ...] = (),
        uncounted: tuple[str, ...] = (),
    ) -> None:
        self.accounts = Names(accounts)
        self.partitions = Names()
        self.users = Names()
        self.qos = Names()
        self.reasons = Names()
        self._numbers = numbers
        self._resources, self._uncounted = resources, uncounted

    def jobs(self, rows: Sequence[QueueRow]) -> JobTable:
        """Columns of these rows."""
        return self._table(rows, self._numbers.of(rows), "job_id")

    def _table(self, rows: Sequence[QueueRow], lines: Lines, number: str) -> JobTable:
        """Columns of rows and their lines; `number` names the column with the job's number."""
        codes = lines["user"]
        first = [partitions[0] for partitions in self._numbers.partition_lists]
        is_known = codes != self._numbers.words[""]
        users = np.full(len(codes), -1, dtype=np.int64)
        users[is_known] = self._named(self.users, codes[is_known])
        return JobTable(
            **{name: lines[name] for name in _OF_JOBS},
            job_id=lines[number],
            account=self._named(self.accounts, lines["account"]),
            user=users,
            partition=numbers_of(self.partitions, lines["partitions"], first),
            class_number=lines["class_number"].astype(np.int64),
            requests=self._requests(rows, lines["processors"]),
        )

    def _named(self, names: Names, codes: IntArray) -> IntArray:
        return numbers_of(names, codes, list(self._numbers.words))

    def _requests(
        self, rows: Sequence[QueueRow] | Sequence[PastRun], processors: IntArray
    ) -> ResourceRequests | None:
        asked = [row.asked for row in rows]
        return request_columns(asked, processors, self._resources, self._uncounted)

    def running(
        self, rows: Sequence[QueueRow], asked: Sequence[QueueRow], now: float
    ) -> RunningJobs:
        """Columns of running jobs."""
        processors = _integers([row.processors for row in asked])
        start = _floats([row.start for row in rows])
        seen = RunningJobs.seen(self.jobs(rows), start, now, processors)
        arrays = _integers([row.array_id for row in rows])
        return replace(seen, asked=self._requests(asked, processors), waited_as=arrays)

    def past_jobs(self, runs: Sequence[PastRun]) -> JobTable:
        """Columns of runs from accounting, without account, partition and class."""
        measured = measures(runs)
        processors = _integers([run.processors for run in runs])
        nowhere = np.full(len(runs), -1, dtype=np.int64)
        return JobTable(
            **measured | {"eligible": measured["submit"]},
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
        lines: Lines,
        terms: NDArray[Any],
        tiers: Mapping[str, int],
        now: float,
        tasks: Mapping[int, int] | None = None,
        last_start: Mapping[int, float] | None = None,
        shared: frozenset[int] = frozenset(),
    ) -> PendingJobs:
        """Columns of pending jobs and of the terms of their priorities."""
        jobs = self._table(rows, lines, "array_id")
        counted_from = np.maximum(lines["accrue"], jobs.eligible)
        lists = self._numbers.partition_lists
        tier_of = np.array(
            [max(tiers.get(each, LOWEST_TIER) for each in names) for names in lists], dtype=np.int64
        )
        is_single = np.array([len(names) == 1 for names in lists], dtype=np.bool_)
        of_components = np.array([bool(row.components) for row in rows], dtype=np.bool_)
        counts, starts = tasks or {}, last_start or {}
        return PendingJobs(
            **{name: lines[name] for name in ("held", "nice", "own_doing", "for_processors")},
            jobs=jobs,
            native_priority=terms["native"].copy(),
            factor=terms["site"].copy(),
            admin_set=terms["by_hand"].copy(),
            qos=self._named(self.qos, lines["qos"]),
            one_partition=is_single[lines["partitions"]] & ~of_components,
            spread=terms["spread"].copy(),
            standing=terms["standing"].copy(),
            tier=tier_of[lines["partitions"]],
            accrued=np.maximum(now - counted_from, 0.0),
            reason=self._named(self.reasons, lines["reason"]),
            tasks=_integers([counts.get(number, 1) for number in jobs.job_id.tolist()]),
            last_start=_floats([starts.get(number, math.nan) for number in jobs.job_id.tolist()]),
            expected=lines["start"],
            shared=np.isin(jobs.job_id, list(shared)) if shared else None,
        )


def some(names: Sequence[object]) -> str:
    """The first of some numbers or names, for one line."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(map(str, names[:SHOWN])) + more


def first_of_each_array(rows: Iterable[QueueRow]) -> list[QueueRow]:
    """One row for each array or single job: the record of it that can start first.

    Records are ordered by: not held, eligible (a requeued task waits two minutes), not waiting by
    its user's own doing, eligible first, higher priority, lower number. Only what this record has
    accrued counts for the array.
    """
    best: dict[int, QueueRow] = {}
    for row in rows:
        other = best.get(row.array_id)
        if other is None or _turn(row) < _turn(other):
            best[row.array_id] = row
    return list(best.values())


def waiting_tasks(rows: Iterable[QueueRow]) -> dict[int, int]:
    """Number of pending tasks of each array, by its number."""
    counts: dict[int, int] = {}
    for row in rows:
        if row.tasks:
            counts[row.array_id] = counts.get(row.array_id, 0) + tasks_in(row.tasks)
    return counts


def tasks_in(text: str) -> int:
    """Number of tasks in `3`, `1-5,9`, `0-8:2` or `1-100%10`, at least 1.

    Slurm cuts long lists and adds `...`; only the tasks before it count.
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
