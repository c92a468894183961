"""The queue-reader port, and heterogeneous jobs as the one job that they are."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from slurm_rl_plugin.batch_systems.slurm.answers.fields import (
    ASK_WAITING,
    ASK_WAITING_OR_RUNNING,
    FINAL_STATES,
    QUEUE_FIELDS,
    RUNNING_STATES,
    WAITING_OR_RUNNING,
    WAITING_STATES,
    QueueRow,
    parse_records,
    queue_format,
)
from slurm_rl_plugin.batch_systems.slurm.answers.reasons import is_own_doing
from slurm_rl_plugin.batch_systems.slurm.answers.requests import together
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.batch_systems.slurm.queue.machine_look import MachineLook


class QueueReader(Protocol):
    """Lists Slurm's jobs, one row a record; every call ends within its time-out."""

    def waiting_and_running(self) -> list[QueueRow]:
        """Every job that waits or occupies processors, of all users and partitions.

        Raises:
            BatchSystemUnavailable: no answer in time, or Slurm cannot be reached.
            BatchSystemError: an answer that cannot be understood.
        """
        ...

    def waiting(self) -> list[QueueRow]:
        """Every job that waits; raises as `waiting_and_running` does."""
        ...

    def of_arrays(self, array_ids: Sequence[int]) -> list[QueueRow]:
        """Every record of these arrays, heterogeneous and single jobs that Slurm still knows.

        In any state. Asked after `waiting_and_running`, whose answer may be looked at again;
        raises as it does.
        """
        ...


@dataclass(frozen=True, slots=True)
class WholeJobs:
    """What another reader lists, with one row for all components of a heterogeneous job.

    Slurm starts the components together or not at all, so they have one place in the queue. It
    tries each at its own priority, and where another job that needs the same nodes stands between
    two components, neither may start (seen on 22.05): so they must stand together.
    """

    records: QueueReader

    def waiting_and_running(self) -> list[QueueRow]:
        """What the reader lists, heterogeneous jobs joined."""
        return whole_jobs(self.records.waiting_and_running())

    def waiting(self) -> list[QueueRow]:
        """What the reader lists as waiting, heterogeneous jobs joined."""
        return whole_jobs(self.records.waiting())

    def of_arrays(self, array_ids: Sequence[int]) -> list[QueueRow]:
        """What the reader lists of these numbers, heterogeneous jobs joined."""
        return whole_jobs(self.records.of_arrays(array_ids))


def whole_jobs(rows: Sequence[QueueRow]) -> list[QueueRow]:
    """The rows that are no components, and one for each heterogeneous job."""
    components: dict[int, list[QueueRow]] = {}
    for row in rows:
        if row.het_id:
            components.setdefault(row.het_id, []).append(row)
    singles = [row for row in rows if not row.het_id]
    return [*singles, *(_as_one(parts) for parts in components.values())]


def _as_one(parts: Sequence[QueueRow]) -> QueueRow:
    """Under the number of the first component, the leader, which speaks for the others too.

    It is held, not eligible, unlimited or waiting by its own doing where one of them is, and has
    accrued what the least of them has. Its priority is the lowest: only
    once that component has found its place can all of them start.
    """
    parts = sorted(parts, key=lambda row: row.job_id)
    leader = parts[0]
    return leader._replace(
        job_id=leader.het_id,
        array_id=leader.het_id,
        state=min((row.state for row in parts), key=_progress),
        reason=_reason(parts),
        priority=min(row.priority for row in parts),
        processors=sum(row.processors for row in parts),
        eligible=max(row.eligible for row in parts),
        accrue=max(row.accrue for row in parts),
        start=float(np.max([row.start for row in parts])),
        end=float(np.max([row.end for row in parts])),
        time_limit=float(np.max([row.time_limit for row in parts])),
        components=tuple(parts),
        asked=together([row.asked for row in parts]),
    )


def _reason(parts: Sequence[QueueRow]) -> str:
    held = (row.reason for row in parts if row.held)
    own = (row.reason for row in parts if is_own_doing(row.reason))
    return next(held, None) or next(own, None) or parts[0].reason


def _progress(state: str) -> int:
    """Of several components the one that is least far on tells how far the job is."""
    if state in WAITING_STATES:
        return 0
    if state in RUNNING_STATES:
        return 1
    return 3 if state in FINAL_STATES else 2


SQUEUE = ("squeue", "--noheader", "--all", "--local")


class Squeue:
    """Lists jobs with `squeue`; see `QueueReader`.

    Args:
        commands: runs Slurm's commands.
        machine: where it has more than processors, what jobs ask of it is listed too; None where
            nobody looked.
    """

    def __init__(self, commands: CommandRunner, machine: MachineLook | None = None) -> None:
        self._commands = commands
        self._machine = machine
        self._fields: tuple[str, ...] = QUEUE_FIELDS
        #: Records of the last look at the whole queue; most are the same in the next one.
        self._known: Mapping[str, QueueRow] = {}

    def waiting_and_running(self) -> list[QueueRow]:
        """Ask `squeue` for jobs that wait or run, and keep the answer for the next look."""
        self._known = self._read("--states", ASK_WAITING_OR_RUNNING)
        return [row for row in self._known.values() if row.state in WAITING_OR_RUNNING]

    def waiting(self) -> list[QueueRow]:
        """Ask `squeue` for jobs that wait only."""
        answer = self._read("--states", ASK_WAITING)
        return [row for row in answer.values() if row.state in WAITING_STATES]

    def of_arrays(self, array_ids: Sequence[int]) -> list[QueueRow]:
        """Ask `squeue` for these numbers in all states; what it does not know is left out."""
        # Asked for one unknown job squeue fails, for several it does not: so name one twice.
        named = ",".join(str(array_id) for array_id in [array_ids[0], *array_ids])
        return list(self._read("--states", "all", "--jobs", named).values())

    def _read(self, *options: str) -> dict[str, QueueRow]:
        fields: tuple[str, ...] = QUEUE_FIELDS
        if self._machine is not None and self._machine.seen is not None:
            fields = self._machine.request_fields
        if fields != self._fields:
            self._fields, self._known = fields, {}
        mark = secrets.token_hex(4)
        form = queue_format(mark, fields)
        return parse_records(
            self._commands.read([*SQUEUE, *options], form), mark, self._known, fields
        )
