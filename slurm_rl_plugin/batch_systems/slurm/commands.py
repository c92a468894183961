"""Slurm by its own commands: `squeue`, `sprio`, `sshare`, `sinfo` to read, `scontrol` to write."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

from slurm_rl_plugin.batch_systems.kind import AdapterParts
from slurm_rl_plugin.batch_systems.slurm.answers.fields import (
    PENDING,
    PENDING_AND_RUNNING,
    QueueRow,
    parse_records,
    queue_format,
)
from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCluster
from slurm_rl_plugin.batch_systems.slurm.levers.writes import Scontrol
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner, commands_of

SQUEUE = ("squeue", "--noheader", "--all", "--local")


class SlurmCommands(SlurmCluster):
    """A Slurm cluster reached by commands alone; what it does stands at `SlurmCluster`."""

    name = "slurm_commands"

    def __init__(self, given: AdapterParts) -> None:
        commands = commands_of(given)
        super().__init__(given, commands, Squeue(commands), Scontrol(commands))


class Squeue:
    """Lists jobs with `squeue`; see `QueueReader`."""

    def __init__(self, commands: CommandRunner) -> None:
        self._commands = commands
        #: Records of the last look at the whole queue; most are the same in the next one.
        self._known: Mapping[str, QueueRow] = {}

    def waiting_and_running(self) -> list[QueueRow]:
        """Ask `squeue` for pending and running jobs, and keep the answer for `of_arrays`."""
        self._known = self._read("--states", PENDING_AND_RUNNING)
        return list(self._known.values())

    def waiting(self) -> list[QueueRow]:
        """Ask `squeue` for pending jobs only."""
        return list(self._read("--states", PENDING).values())

    def of_arrays(self, array_ids: Sequence[int]) -> list[QueueRow]:
        """Ask `squeue` for these numbers in all states; what it does not know is left out."""
        # Asked for one unknown job squeue fails, for several it does not: so name one twice.
        named = ",".join(str(array_id) for array_id in [array_ids[0], *array_ids])
        return list(self._read("--states", "all", "--jobs", named).values())

    def _read(self, *options: str) -> dict[str, QueueRow]:
        mark = secrets.token_hex(4)
        text = self._commands.read([*SQUEUE, *options], queue_format(mark))
        return parse_records(text, mark, self._known)
