"""Jobs as `squeue` lists them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

from slurm_rl_plugin.batch_systems.slurm.answers.fields import (
    ASK_WAITING,
    ASK_WAITING_OR_RUNNING,
    QUEUE_FIELDS,
    WAITING_OR_RUNNING,
    WAITING_STATES,
    QueueRow,
    parse_records,
    queue_format,
)
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.batch_systems.slurm.queue.machine_look import MachineLook

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
