"""What the head node remembers of past runs: one row for the site, each user, each template.

The rules are those of `history.run_history`; the simulator keeps the same rows. Events count by
time, then kind, then job. Each one tells the site, the user and the template, in that order; who
is met for the first time begins with the row of the level above, as it is before that event.
"""

from __future__ import annotations

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
from slurm_rl_plugin.features.history.table import LINE, HistoryTable
from slurm_rl_plugin.units import FloatArray

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
    columns = (events.kind, events.run_time, events.size, events.user, events.template)
    told = zip(*(column.tolist() for column in columns), strict=True)
    for kind, run_time, size, user_key, template_key in told:
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
            fold_spent(user, run_time, size)
        else:
            fold_outlived(site, kind, SITE_FAST, SITE_SLOW)
            fold_outlived(user, kind, FAST, SLOW)
            fold_outlived(template, kind, FAST, SLOW)
            if kind == ENDED - 1:
                fold_spent(user, LONG_RUN, size)
