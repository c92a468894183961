"""Users whose time limits make no job interactive, since too many of their runs reach the limit.

A limit of fifteen minutes makes a job interactive. If such a limit ends more than ALLOWED runs of a
user in PERIOD, and more than ALLOWED_PART of them, the user's jobs with such limits count as batch
for another PERIOD.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.features.history.job_keys import user_key
from slurm_rl_plugin.units import DAY

PERIOD, ALLOWED, ALLOWED_PART = 7 * DAY, 3, 0.1
_DAYS = round(PERIOD / DAY)


class Overrun(NamedTuple):
    """Why and until when the jobs of a user count as batch.

    Attributes:
        until: seconds since the epoch.
        timed_out: jobs of the user that were interactive by their time limits and ended by them,
            in the week before.
        runs: the user's jobs that were interactive by their time limits, in that week.
    """

    until: float
    timed_out: int
    runs: int


@dataclass(slots=True, kw_only=True)
class Overruns:
    """Runs of a week by day and user, and users that have lost the class; users are hashes."""

    _days: dict[int, dict[str, tuple[int, int]]] = field(default_factory=dict)
    _lost: dict[str, Overrun] = field(default_factory=dict)

    def __len__(self) -> int:
        """How many users have lost the class."""
        return len(self._lost)

    def count(self, snapshot: QueueSnapshot) -> None:
        """Count the runs that have ended, and note which users lose the class by them."""
        now, today = snapshot.now, int(snapshot.now // DAY)
        self._forget(now)
        ended = snapshot.ended
        if ended.jobs.by_limit is None or ended.timed_out is None:
            return
        counted = np.flatnonzero(ended.jobs.by_limit & (ended.jobs.user >= 0))
        for place in counted.tolist():
            user = _key(snapshot.users[int(ended.jobs.user[place])])
            day = self._days.setdefault(today, {})
            runs, timed_out = day.get(user, (0, 0))
            day[user] = runs + 1, timed_out + int(ended.timed_out[place])
            self._judge(user, now)

    def of_users(self, snapshot: QueueSnapshot) -> dict[int, Overrun]:
        """Number in the snapshot of each user that has lost the class -> why."""
        found = {}
        for number, name in enumerate(snapshot.users if self._lost else ()):
            overrun = self._lost.get(_key(name))
            if overrun is not None and overrun.until > snapshot.now:
                found[number] = overrun
        return found

    def _judge(self, user: str, now: float) -> None:
        week = [day[user] for day in self._days.values() if user in day]
        runs, timed_out = (sum(column) for column in zip(*week, strict=True))
        if user not in self._lost and timed_out > max(ALLOWED, ALLOWED_PART * runs):
            self._lost[user] = Overrun(until=now + PERIOD, timed_out=timed_out, runs=runs)

    def _forget(self, now: float) -> None:
        """Drop what has expired, and what has a time in the future: a clock was wrong."""
        today = int(now // DAY)
        self._days = {
            day: users for day, users in self._days.items() if today - _DAYS < day <= today
        }
        self._lost = {
            user: each for user, each in self._lost.items() if now < each.until <= now + PERIOD
        }

    def document(self) -> dict[str, Any]:
        """All of it, for a JSON file."""
        return {"days": self._days, "lost": self._lost}

    @classmethod
    def of_document(cls, found: Mapping[str, Any]) -> Self:
        """What `document` gave.

        Raises:
            ValueError, KeyError, TypeError, AttributeError: it is no such document.
        """
        return cls(
            _days={
                int(day): {
                    str(user): (int(str(runs)), int(str(timed_out)))
                    for user, (runs, timed_out) in users.items()
                }
                for day, users in found.get("days", {}).items()
            },
            _lost={
                str(user): Overrun(float(str(until)), int(str(timed_out)), int(str(runs)))
                for user, (until, timed_out, runs) in found.get("lost", {}).items()
            },
        )


def _key(user: str) -> str:
    return f"{user_key(user):.0f}"
