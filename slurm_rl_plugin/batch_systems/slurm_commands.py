"""Slurm by its own commands: `squeue`, `sprio`, `sshare`, `sinfo` to read, `scontrol` to write."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence

from slurm_rl_plugin.batch_systems.slurm_cluster import HeadNode, SlurmCluster
from slurm_rl_plugin.batch_systems.slurm_fields import (
    PENDING,
    PENDING_AND_RUNNING,
    QueueRow,
    parse_records,
    queue_format,
)
from slurm_rl_plugin.batch_systems.slurm_process import CommandRunner
from slurm_rl_plugin.batch_systems.slurm_tables import JobClassRule
from slurm_rl_plugin.batch_systems.slurm_writes import FactorWriter, Scontrol

SQUEUE = ("squeue", "--noheader", "--all", "--local")


class SlurmCommands(SlurmCluster):
    """A Slurm cluster reached by commands alone; what it does stands at `SlurmCluster`.

    Args:
        shares: account -> share, scaled to sum 1; None takes RawShares from `sshare`.
        interactive: tells whether a job is of the interactive class.
        clock: seconds since the epoch.
        timeout: seconds that any command may take.
        environment: variables of the commands, PATH and SLURM_CONF among them; None takes this
            process's own.
        writes_per_call: changes sent in one run of `scontrol`, with a time-out to match.
        on_call: told each command's name and the seconds it took.
        history_days: the first snapshot reports the runs of so many days as ended, from
            accounting; 0 asks for none.
        head_node: the machine that the daemon runs on.
    """

    name = "slurm_commands"

    def __init__(
        self,
        *,
        shares: Mapping[str, float] | None,
        interactive: JobClassRule,
        clock: Callable[[], float],
        timeout: float = 10.0,
        environment: Mapping[str, str] | None = None,
        writes_per_call: int = 500,
        on_call: Callable[[str, float], None] | None = None,
        history_days: float = 30.0,
        head_node: HeadNode = HeadNode(),  # noqa: B008 - a frozen value
    ) -> None:
        commands = CommandRunner(environment=environment, timeout=timeout, on_call=on_call)
        super().__init__(
            queue=Squeue(commands),
            writer=FactorWriter(Scontrol(commands), writes_per_call),
            commands=commands,
            shares=shares,
            interactive=interactive,
            clock=clock,
            history_days=history_days,
            head_node=head_node,
        )


class Squeue:
    """Lists jobs with `squeue`; see `QueueReader`."""

    def __init__(self, commands: CommandRunner) -> None:
        self._commands = commands
        #: Records of the last look at the whole queue; most are the same in the next one.
        self._known: Mapping[str, QueueRow] = {}

    def waiting_and_running(self) -> list[QueueRow]:
        """See `QueueReader.waiting_and_running`."""
        self._known = self._read("--states", PENDING_AND_RUNNING)
        return list(self._known.values())

    def waiting(self) -> list[QueueRow]:
        """See `QueueReader.waiting`."""
        return list(self._read("--states", PENDING).values())

    def of_arrays(self, array_ids: Sequence[int]) -> list[QueueRow]:
        """See `QueueReader.of_arrays`."""
        # Asked for one unknown job squeue fails, for several it does not: so name one twice.
        named = ",".join(str(array_id) for array_id in [array_ids[0], *array_ids])
        return list(self._read("--states", "all", "--jobs", named).values())

    def _read(self, *options: str) -> dict[str, QueueRow]:
        mark = secrets.token_hex(4)
        text = self._commands.read([*SQUEUE, *options, "-O", queue_format(mark)])
        return parse_records(text, mark, self._known)
