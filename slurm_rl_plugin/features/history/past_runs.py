"""What the head node remembers of past runs: rows of request classes, users, limits, templates.

The rules are those of `history.run_history`; the simulator keeps the same rows. Events count by
time, then kind, then job.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from slurm_rl_plugin.domain import Memory, QueueSnapshot
from slurm_rl_plugin.features.history.event_folds import Level, fold_events
from slurm_rl_plugin.features.history.run_events import RunEvents
from slurm_rl_plugin.features.history.run_history import HISTORY, REQUEST_CLASSES
from slurm_rl_plugin.units import FloatArray, IntArray

#: Numbers of a line: key, time of the last event, the row of history.
LINE = 2 + HISTORY
_KEY, _HEARD, _ROW = 0, 1, 2


@dataclass(frozen=True, slots=True)
class HistoryTable:
    """Rows of history (`history.run_history`); `lines` has shape [n, LINE], sorted by key."""

    lines: FloatArray

    def __len__(self) -> int:
        return len(self.lines)

    @classmethod
    def empty(cls) -> Self:
        """A table without rows, shape [0, LINE]."""
        return cls(np.empty((0, LINE)))

    @property
    def rows(self) -> FloatArray:
        """The rows in the order of the table, shape [n, HISTORY]."""
        return self.lines[:, _ROW:]

    def places(self, keys: FloatArray) -> IntArray:
        """Place of each key, -1 where it has no row; shape [m]."""
        if len(self) == 0:
            return np.full(len(keys), -1, dtype=np.int64)
        known = np.ascontiguousarray(self.lines[:, _KEY])
        place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        return np.where(known[place] == keys, place, -1)

    def rows_of(self, keys: FloatArray) -> FloatArray:
        """A copy of the row of each key, zeros where there is none; shape [HISTORY, m]."""
        place = self.places(keys)
        known = place >= 0
        if not known.any():
            return np.zeros((HISTORY, len(keys)))
        rows = np.take(self.rows.T, place, axis=1)
        rows *= known
        return rows

    def with_rows(
        self, keys: FloatArray, heard: FloatArray, rows: FloatArray, at_most: int
    ) -> Self:
        """A table with rows replaced or added, and no more than `at_most` of them.

        Args:
            keys: of the rows, ascending, shape [m].
            heard: time of each key's last event, seconds since the epoch; shape [m].
            rows: shape [HISTORY, m].
            at_most: beyond that, the rows with the oldest last events are dropped.
        """
        changed = np.concatenate([[keys, heard], rows]).T
        place = self.places(keys)
        lines, old = self.lines.copy(), place >= 0
        earlier = lines[place[old], _HEARD]
        lines[place[old]] = changed[old]
        lines[place[old], _HEARD] = np.maximum(earlier, heard[old])
        added = changed[~old]
        at = np.searchsorted(lines[:, _KEY], added[:, _KEY])
        return type(self)(_heard_lately(np.insert(lines, at, added, axis=0), at_most))


def _heard_lately(lines: FloatArray, at_most: int) -> FloatArray:
    """At most so many lines, of the latest events; of one time, those of the smallest keys."""
    too_many = len(lines) - at_most
    if too_many <= 0:
        return lines
    heard = lines[:, _HEARD]
    last = np.partition(heard, too_many - 1)[too_many - 1]
    silent = np.flatnonzero(heard <= last)
    silent = silent[np.lexsort((-lines[silent, _KEY], heard[silent]))[:too_many]]
    return np.delete(lines, silent, axis=0)


#: Users, their limit classes and templates that are remembered; beyond that, those with the oldest
#: last events are dropped.
USERS_AT_MOST = 2_000
LIMITS_AT_MOST = 4_000
TEMPLATES_AT_MOST = 8_000
#: Seconds by which the time of a memory may be ahead of a clock that was set back: no event counts
#: twice. Further ahead, the time is of a clock that was wrong: no event would count until then.
LONGEST_AHEAD = 3600.0
#: Version of the order of numbers in a memory.
_LAYOUT = 5.0
#: Numbers before the tables: layout, time, how many rows each of them has.
_HEAD = 2 + 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRuns:
    """Rows of history as the runs up to a time have filled them.

    Attributes:
        time: up to which events have counted, seconds since the epoch; -inf before the first.
        site: a row for each class of requests (`run_history.request_class`).
        users: a row for each user.
        limits: a row for each user's jobs of one limit class (`run_history.limit_class`).
        templates: a row for each template.
    """

    time: float = -np.inf
    site: HistoryTable = field(default_factory=HistoryTable.empty)
    users: HistoryTable = field(default_factory=HistoryTable.empty)
    limits: HistoryTable = field(default_factory=HistoryTable.empty)
    templates: HistoryTable = field(default_factory=HistoryTable.empty)

    @classmethod
    def from_memory(cls, memory: Memory) -> Self | None:
        """What `to_memory` gave, joined, as a view of it; None for numbers of another form."""
        if len(memory) < _HEAD or memory[0] != _LAYOUT:
            return None
        behind = memory[_HEAD:]
        rows = memory[2:_HEAD]
        if (rows < 0).any() or (rows % 1 != 0).any() or rows.sum() * LINE != len(behind):
            return None
        ends = np.cumsum(rows[:-1]).astype(np.int64)
        tables = np.split(behind.reshape(-1, LINE), ends)
        site, users, limits, templates = (HistoryTable(each) for each in tables)
        time = float(memory[1])
        return cls(time=time, site=site, users=users, limits=limits, templates=templates)

    def to_memory(self) -> list[FloatArray]:
        """Vectors to be joined: a head of fixed length, then the lines of the tables; no copies."""
        tables = (self.site, self.users, self.limits, self.templates)
        head = np.array([_LAYOUT, self.time, *(len(each) for each in tables)])
        return [head, *(table.lines.ravel() for table in tables)]

    def after(self, snapshot: QueueSnapshot) -> Self:
        """What is known after a snapshot; each event counts once, at any pace of snapshots."""
        events = RunEvents.between(self.time, snapshot)
        ahead = self.time - snapshot.now > LONGEST_AHEAD
        now = snapshot.now if ahead else max(self.time, snapshot.now)
        if len(events) == 0:
            return replace(self, time=now)
        keys = (events.request, events.user, events.limits, events.template)
        tables = (self.site, self.users, self.limits, self.templates)
        most = (REQUEST_CLASSES, USERS_AT_MOST, LIMITS_AT_MOST, TEMPLATES_AT_MOST)
        known, levels = [], []
        for table, each in zip(tables, keys, strict=True):
            distinct, row = np.unique(each, return_inverse=True)
            known.append(distinct)
            levels.append(Level(table.rows_of(distinct), row[events.job]))
        fold_events(events, *levels)
        site, users, limits, templates = (
            table.with_rows(each, _heard(level, events.time), level.rows, at_most)
            for table, each, level, at_most in zip(tables, known, levels, most, strict=True)
        )
        return replace(self, time=now, site=site, users=users, limits=limits, templates=templates)


def _heard(level: Level, time: FloatArray) -> FloatArray:
    """Time of each row's last event, seconds since the epoch; `time` of events is ascending."""
    heard = np.empty(level.rows.shape[1])
    heard[level.row] = time  # the last one stays
    return heard
