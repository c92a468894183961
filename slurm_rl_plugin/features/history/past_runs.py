"""What the head node remembers of past runs: one row for the site, each user, each template.

The rules are those of `history.run_history`; the simulator keeps the same rows. Events count by
time, then kind, then job. Each one tells the site, the user and the template, in that order; who
is met for the first time begins with the row of the level above, as it is before that event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from slurm_rl_plugin.domain import Memory, QueueSnapshot
from slurm_rl_plugin.features.history.run_events import ENDED, RunEvents
from slurm_rl_plugin.features.history.run_history import (
    FAST,
    HISTORY,
    LONG_RUN,
    SITE_FAST,
    SITE_SLOW,
    SLOW,
    UNKNOWN,
    fold_ended,
    fold_outlived,
    fold_spent,
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


#: Users and templates remembered; of more, those go of whom nothing was heard for longest.
USERS_AT_MOST = 2_000
TEMPLATES_AT_MOST = 8_000
#: Seconds by which the time of a memory may be ahead of a clock that was set back: nothing is told
#: twice. What is further ahead is of a clock that was wrong: nothing would count until it has come.
LONGEST_AHEAD = 3600.0
#: Version of the order of numbers in a memory.
_LAYOUT = 2.0
#: Numbers before the tables: layout, time, the site's row, users, templates.
_HEAD = 2 + HISTORY + 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRuns:
    """Rows of history as the runs up to a time have filled them.

    Attributes:
        time: up to which events have counted, seconds since the epoch; -inf before the first.
        site: row of history of all jobs, shape [HISTORY].
        users: a row for each user.
        templates: a row for each template.
    """

    time: float = -np.inf
    site: FloatArray = field(default_factory=lambda: np.array(UNKNOWN))
    users: HistoryTable = field(default_factory=HistoryTable.empty)
    templates: HistoryTable = field(default_factory=HistoryTable.empty)

    @classmethod
    def from_memory(cls, memory: Memory) -> Self | None:
        """What `to_memory` gave, as a view of it; None for numbers of another form."""
        if len(memory) < _HEAD or memory[0] != _LAYOUT:
            return None
        users, templates = memory[_HEAD - 2 : _HEAD]
        behind = memory[_HEAD:]
        whole = users >= 0 and templates >= 0 and users % 1 == 0 and templates % 1 == 0
        if not whole or (users + templates) * LINE != len(behind):
            return None
        lines = behind.reshape(-1, LINE)
        return cls(
            time=float(memory[1]),
            site=memory[2 : 2 + HISTORY],
            users=HistoryTable(lines[: int(users)]),
            templates=HistoryTable(lines[int(users) :]),
        )

    def to_memory(self) -> Memory:
        """All of it as one vector: a head of fixed length, then the lines of both tables."""
        sizes = [len(self.users), len(self.templates)]
        tables = (self.users.lines.ravel(), self.templates.lines.ravel())
        return np.concatenate([[_LAYOUT, self.time], self.site, sizes, *tables])

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
        site = self.site.tolist()
        users = self.users.rows_of(np.unique(events.user))
        templates = self.templates.rows_of(np.unique(events.template))
        _fold(events, site, users, templates)
        times = events.time.tolist()
        user_heard = dict(zip(events.user.tolist(), times, strict=True))  # the last one stays
        template_heard = dict(zip(events.template.tolist(), times, strict=True))
        return replace(
            self,
            time=now,
            site=np.array(site),
            users=self.users.with_rows(users, user_heard, USERS_AT_MOST),
            templates=self.templates.with_rows(templates, template_heard, TEMPLATES_AT_MOST),
        )


def _fold(
    events: RunEvents,
    site: list[float],
    users: dict[float, list[float]],
    templates: dict[float, list[float]],
) -> None:
    """Let every event tell; plain numbers in lists, which Python changes faster than arrays."""
    columns = (events.kind, events.run_time, events.processors, events.user, events.template)
    told = zip(*(column.tolist() for column in columns), strict=True)
    for kind, run_time, processors, user_key, template_key in told:
        user = users.get(user_key)
        if user is None:
            users[user_key] = user = site.copy()
        template = templates.get(template_key)
        if template is None:
            templates[template_key] = template = user.copy()
        if kind == ENDED:
            fold_ended(site, run_time, SITE_FAST, SITE_SLOW)
            fold_ended(user, run_time, FAST, SLOW)
            fold_ended(template, run_time, FAST, SLOW)
            fold_spent(user, run_time, processors)
        else:
            fold_outlived(site, kind, SITE_FAST, SITE_SLOW)
            fold_outlived(user, kind, FAST, SLOW)
            fold_outlived(template, kind, FAST, SLOW)
            if kind == ENDED - 1:
                fold_spent(user, LONG_RUN, processors)
