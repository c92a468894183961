"""Which jobs started between two looks at the queue, each reported once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from slurm_rl_plugin.batch_systems.slurm_fields import PENDING, RUNNING_STATES, QueueRow

#: Vanished jobs asked for in one snapshot; the rest waits for the next one.
ASK_AT_MOST = 1000
#: Task numbers of a job that is no array.
PLAIN_JOB = frozenset({""})


class StartWatch:
    """Remembers who waited and who ran, to tell new starts.

    A job, or a task of a job array, counts once, whether it still runs or came and went between
    two snapshots. One that is requeued and seen waiting again counts again when it starts anew.
    Nothing counts at the first look, where all that runs is old.
    """

    def __init__(self) -> None:
        self._since: float | None = None
        self._waiting: dict[int, frozenset[str]] = {}
        self._to_ask: dict[int, None] = {}
        self._asked: list[int] = []
        self._reported: dict[int, int] = {}

    def ask_about(self, rows: Sequence[QueueRow]) -> list[int]:
        """Numbers of jobs and arrays that waited before and of which something is gone now."""
        waiting = _waiting_tasks(rows)
        running = {row.job_id for row in rows if row.state in RUNNING_STATES}
        for array_id, tasks in self._waiting.items():
            plain_and_runs = tasks == PLAIN_JOB and array_id in running
            if waiting.get(array_id) != tasks and not plain_and_runs:
                self._to_ask[array_id] = None
        self._waiting = waiting
        self._asked = list(self._to_ask)[:ASK_AT_MOST]
        return self._asked

    def started(
        self, rows: Sequence[QueueRow], finished: Sequence[QueueRow], now: float
    ) -> list[QueueRow]:
        """Rows of the jobs that started since the last call, given the answer for `ask_about`."""
        first = self._since is None
        for array_id in self._asked:  # not earlier: the question may have failed
            self._to_ask.pop(array_id, None)
        if self._since is None:
            self._since = math.floor(now)  # Slurm's times are whole seconds
        for row in rows:
            if row.state == PENDING:
                self._reported.pop(row.job_id, None)
        running = [row for row in rows if row.state in RUNNING_STATES]
        gone = [row for row in finished if _ran(row) and row.start >= self._since]
        new: list[QueueRow] = []
        for row in [*running, *gone]:
            if row.job_id not in self._reported:
                self._reported[row.job_id] = row.array_id
                new.append(row)
        self._forget(running)
        return [] if first else new

    def _forget(self, running: Sequence[QueueRow]) -> None:
        """Keep only jobs that can be met again: running ones and tasks of arrays that wait."""
        alive = {row.job_id for row in running}
        arrays = self._waiting.keys() | self._to_ask.keys() | {row.array_id for row in running}
        self._reported = {
            job_id: array_id
            for job_id, array_id in self._reported.items()
            if job_id in alive or array_id in arrays
        }


def _ran(row: QueueRow) -> bool:
    """Whether it got nodes; a job that was cancelled while it waited has a start time too."""
    return row.state != PENDING and bool(row.nodes) and not math.isnan(row.start)


def _waiting_tasks(rows: Iterable[QueueRow]) -> dict[int, frozenset[str]]:
    tasks: dict[int, set[str]] = {}
    for row in rows:
        if row.state == PENDING:
            tasks.setdefault(row.array_id, set()).add(row.tasks)
    return {array_id: frozenset(names) for array_id, names in tasks.items()}
