"""What the head node remembers of past runs: rows for requests alike, users, limits, templates.

The rules are those of `history.run_history`; the simulator keeps the same rows. Events count by
time, then kind, then job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from slurm_rl_plugin.domain import Memory, QueueSnapshot
from slurm_rl_plugin.features.history.run_events import ENDED, RunEvents
from slurm_rl_plugin.features.history.run_history import (
    BOUNDS,
    HISTORY,
    LIMIT_KEEPS,
    LONG_RUN,
    REQUEST_CLASSES,
    SITE_KEEPS,
    TEMPLATE_KEEPS,
    USER_KEEPS,
    fold_ended,
    fold_last,
    fold_outlived,
    fold_spent,
    place_of,
    weight_among_limits,
    weight_at_site,
)
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
        """A table without rows, shape [0, LINE]: nobody has been seen yet."""
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

    def rows_of(self, keys: FloatArray) -> dict[float, list[float]]:
        """A copy of the row of each key that has one."""
        place = self.places(keys)
        found = place >= 0
        rows = self.rows[place[found]].tolist()
        return dict(zip(keys[found].tolist(), rows, strict=True))

    def with_rows(
        self, rows: Mapping[float, list[float]], heard: Mapping[float, float], at_most: int
    ) -> Self:
        """A table with rows replaced or added, and no more than `at_most` of them.

        Args:
            rows: key -> row.
            heard: time of each key's last event, seconds since the epoch.
            at_most: of more rows those go that were heard of longest ago.
        """
        changed = np.array([[key, heard[key], *row] for key, row in rows.items()])
        changed = changed.reshape(-1, LINE)
        place = self.places(changed[:, _KEY])
        lines, old = self.lines.copy(), place >= 0
        earlier = lines[place[old], _HEARD]
        lines[place[old]] = changed[old]
        lines[place[old], _HEARD] = np.maximum(earlier, changed[old, _HEARD])
        added = changed[~old]
        added = added[np.argsort(added[:, _KEY])]
        at = np.searchsorted(lines[:, _KEY], added[:, _KEY])
        return type(self)(_heard_lately(np.insert(lines, at, added, axis=0), at_most))


def _heard_lately(lines: FloatArray, at_most: int) -> FloatArray:
    """Lines without those heard of longest ago; of those heard of at once, the largest keys go."""
    too_many = len(lines) - at_most
    if too_many <= 0:
        return lines
    heard = lines[:, _HEARD]
    last = np.partition(heard, too_many - 1)[too_many - 1]
    silent = np.flatnonzero(heard <= last)
    silent = silent[np.lexsort((-lines[silent, _KEY], heard[silent]))[:too_many]]
    return np.delete(lines, silent, axis=0)


#: Users, limits of theirs and templates remembered; of more, those go of whom nothing was heard for
#: longest.
USERS_AT_MOST = 2_000
LIMITS_AT_MOST = 4_000
TEMPLATES_AT_MOST = 8_000
#: Seconds by which the time of a memory may be ahead of a clock that was set back: nothing is told
#: twice. What is further ahead is of a clock that was wrong: nothing would count until it has come.
LONGEST_AHEAD = 3600.0
#: Version of the order of numbers in a memory.
_LAYOUT = 4.0
#: Numbers before the tables: layout, time, how many rows each of them has.
_HEAD = 2 + 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRuns:
    """Rows of history as the runs up to a time have filled them.

    Attributes:
        time: up to which events have counted, seconds since the epoch; -inf before the first.
        site: a row for each class of requests (`run_history.request_class`).
        users: a row for each user.
        limits: a row for each user's jobs with limits alike (`run_history.limit_class`).
        templates: a row for each template.
    """

    time: float = -np.inf
    site: HistoryTable = field(default_factory=HistoryTable.empty)
    users: HistoryTable = field(default_factory=HistoryTable.empty)
    limits: HistoryTable = field(default_factory=HistoryTable.empty)
    templates: HistoryTable = field(default_factory=HistoryTable.empty)

    @classmethod
    def from_memory(cls, memory: Memory) -> Self | None:
        """What `to_memory` gave, as a view of it; None for numbers of another form."""
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

    def to_memory(self) -> Memory:
        """All of it as one vector: a head of fixed length, then the lines of the tables."""
        tables = (self.site, self.users, self.limits, self.templates)
        lines = [table.lines.ravel() for table in tables]
        return np.concatenate([[_LAYOUT, self.time], [len(each) for each in tables], *lines])

    def after(self, snapshot: QueueSnapshot) -> Self:
        """What is known after a snapshot; each event counts once, whatever the pace of snapshots.

        Args:
            snapshot: the queue; its running jobs and those that ended tell.
        """
        events = RunEvents.between(self.time, snapshot)
        ahead = self.time - snapshot.now > LONGEST_AHEAD
        now = snapshot.now if ahead else max(self.time, snapshot.now)
        if len(events) == 0:
            return replace(self, time=now)
        site = self.site.rows_of(np.unique(events.alike))
        users = self.users.rows_of(np.unique(events.user))
        limits = self.limits.rows_of(np.unique(events.limits))
        templates = self.templates.rows_of(np.unique(events.template))
        _fold(events, site, users, limits, templates)
        return replace(
            self,
            time=now,
            site=self.site.with_rows(site, _heard(events.alike, events), REQUEST_CLASSES),
            users=self.users.with_rows(users, _heard(events.user, events), USERS_AT_MOST),
            limits=self.limits.with_rows(limits, _heard(events.limits, events), LIMITS_AT_MOST),
            templates=self.templates.with_rows(
                templates, _heard(events.template, events), TEMPLATES_AT_MOST
            ),
        )


def _heard(keys: FloatArray, events: RunEvents) -> dict[float, float]:
    """Key -> time of the last event that tells of it."""
    return dict(zip(keys.tolist(), events.time.tolist(), strict=True))  # the last one stays


def _fold(
    events: RunEvents,
    site: dict[float, list[float]],
    users: dict[float, list[float]],
    limits: dict[float, list[float]],
    templates: dict[float, list[float]],
) -> None:
    """Let every event tell; plain numbers in lists, which Python changes faster than arrays."""
    levels = (
        *((site, SITE_KEEPS), (users, USER_KEEPS)),
        *((limits, LIMIT_KEEPS), (templates, TEMPLATE_KEEPS)),
    )
    columns = (events.kind, events.run_time, events.processors, events.time_limit)
    keys = (events.alike, events.user, events.limits, events.template)
    told = zip(*(column.tolist() for column in columns + keys), strict=True)
    for kind, run_time, processors, time_limit, *key in told:
        rows = [
            table.setdefault(each, [0.0] * HISTORY)
            for each, (table, _) in zip(key, levels, strict=True)
        ]
        place = place_of(run_time, time_limit) if kind == ENDED else kind
        among = weight_among_limits(rows[3], place)
        weights = (weight_at_site(rows[1], place), 1.0, among, 1.0)
        for row, (_, keeps), weight in zip(rows, levels, weights, strict=True):
            if kind == ENDED:
                fold_ended(row, place, keeps, weight)
            else:
                fold_outlived(row, place, keeps, weight)
        if kind == ENDED:
            fold_spent(rows[1], run_time, processors)
            fold_last(rows[1], run_time)
        elif BOUNDS[kind] == LONG_RUN:
            fold_spent(rows[1], LONG_RUN, processors)
