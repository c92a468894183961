"""The adapter for Slurm: by pyslurm if one fits the running Slurm, else by commands.

pyslurm lists jobs and writes factors in a child process, so that a fault of libslurm ends only that
child. No release shows factors, so priorities, shares and capacity come from commands here too. Up
to 25.11 it shows no GPUs requested by job or by task, so `squeue` lists the jobs if the machine has
more than processors.
"""

from __future__ import annotations

import importlib.metadata
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from slurm_rl_plugin.batch_systems.port import AdapterParts
from slurm_rl_plugin.batch_systems.slurm.answers.fields import (
    FINAL_STATES,
    QueueRow,
    to_row,
)
from slurm_rl_plugin.batch_systems.slurm.answers.settings import release_numbers
from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCommands
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner, not_understood
from slurm_rl_plugin.batch_systems.slurm.queue.reader import MachineLook, Squeue
from slurm_rl_plugin.batch_systems.slurm.site_factor import SECONDS_A_WRITE, Scontrol, ValueWrite
from slurm_rl_plugin.errors import BatchSystemError, ConfigurationError

logger = logging.getLogger(__name__)

PROGRAM = Path(__file__).with_name("pyslurm_program.py")
#: The first release of pyslurm that can change a job.
FIRST_THAT_WRITES = (22, 5, 2)
#: Seconds after our own time-out at which a child without a parent ends.
ORPHAN_SECONDS = 1.0
#: Attributes of `pyslurm.Job` for QUEUE_FIELDS, and a further one; the same in 22.5.2 to 25.11.2.
#: Times are seconds since the epoch, limits minutes. An unknown, unlimited or 0 value is None, task
#: number 0 too.
ATTRIBUTES = (
    *("id", "array_id", "state", "state_reason", "priority", "nice", "cpus"),
    *("submit_time", "eligible_time", "accrue_time", "start_time", "end_time", "time_limit"),
    *("account", "user_name", "partition", "qos", "is_batch_job", "allocated_nodes"),
    *("array_task_id", "heterogeneous_id", "name", "array_tasks_waiting"),
)
NO_LIMIT = (None, "UNLIMITED")
SIGN, WHOLE = 1 << 31, 1 << 32


def slurm_batch_system(parts: AdapterParts) -> SlurmCommands:
    """Make the adapter; the log says which, and why."""
    commands = CommandRunner(timeout=parts.timeout)
    adapter, because = choose_adapter(parts.adapter, commands)
    logger.info("adapter=%s because=%s", adapter.name, because)
    return adapter(parts)


def choose_adapter(wanted: str, commands: CommandRunner) -> tuple[type[SlurmCommands], str]:
    """The adapter of this configuration, and why, in a few words for the log.

    Slurm is asked for its release only if pyslurm is installed, and pyslurm is not imported.
    """
    if wanted == SlurmCommands.name:
        return SlurmCommands, "it is configured"
    pyslurm = installed_pyslurm()
    slurm = running_slurm(commands) if pyslurm else None
    obstacle = _obstacle(pyslurm, slurm)
    if wanted != Slurm.name and not obstacle and slurm is None:
        obstacle = "the release of Slurm is not known"
    if not obstacle:
        is_wanted = wanted == Slurm.name
        return Slurm, "it is configured" if is_wanted else f"pyslurm {pyslurm} is for this Slurm"
    if wanted != Slurm.name:
        return SlurmCommands, obstacle
    raise ConfigurationError(
        f'[batch_system] adapter = "slurm" cannot work: {obstacle}; install the pyslurm of your '
        "Slurm's release (the same first two numbers) into the Python that runs slurm-rl, or set "
        'adapter = "auto".'
    )


def installed_pyslurm() -> str | None:
    """Release of the pyslurm that a child would import, by its metadata; None for none."""
    try:
        return importlib.metadata.version("pyslurm")
    except importlib.metadata.PackageNotFoundError:
        return None


def running_slurm(commands: CommandRunner) -> str | None:
    """Release of Slurm's commands, `22.05.8` for example; None if not known."""
    try:
        words = commands.read(["scontrol", "--version"]).split()
    except BatchSystemError:
        return None
    return words[-1] if words and len(release_numbers(words[-1])) > 1 else None


def _obstacle(pyslurm: str | None, slurm: str | None) -> str:
    """Why pyslurm cannot work here; "" if nothing speaks against it."""
    if pyslurm is None:
        return "pyslurm is not installed"
    if release_numbers(pyslurm) < FIRST_THAT_WRITES:
        return f"pyslurm {pyslurm} cannot change jobs"
    if slurm is not None and release_numbers(pyslurm)[:2] != release_numbers(slurm)[:2]:
        return f"pyslurm {pyslurm} is not for Slurm {slurm}"
    return ""


class Slurm(SlurmCommands):
    """A Slurm cluster, read and written by pyslurm as far as possible."""

    name = "slurm"

    def _parts(
        self, commands: CommandRunner, machine: MachineLook
    ) -> tuple[PyslurmQueue, PyslurmSender]:
        queue = PyslurmQueue(commands, machine, reads_comments=self._given.classifier.users_choose)
        return queue, PyslurmSender(commands, queue)


def ask_pyslurm(
    commands: CommandRunner, call: str, question: Mapping[str, Any], extra: float = 0.0
) -> dict[str, Any]:
    """The answer of `pyslurm_program.py`, which may come `extra` seconds later than a command's."""
    seconds = commands.timeout + extra + ORPHAN_SECONDS
    asked = {"seconds": seconds, **question}
    return commands.ask(PROGRAM, asked, name=call, library="pyslurm", extra=extra)


class PyslurmQueue(Squeue):
    """Lists jobs by one `pyslurm.Jobs.load()`, which includes ended ones, or by `squeue`."""

    _rows: Sequence[QueueRow] = ()  #: the last answer of pyslurm
    #: Jobs of the last answer that belong to no array and no heterogeneous job.
    single: frozenset[int] = frozenset()

    def records(self, states: str, array_ids: Sequence[int] = ()) -> Iterable[QueueRow]:
        """From pyslurm all records, or those with these numbers of its last answer."""
        if self.reads_requests or self.reads_comments:
            found = super().records(states, array_ids)
        elif array_ids:
            wanted = set(array_ids)
            return [row for row in self._rows if row.array_id in wanted or row.het_id in wanted]
        else:
            answer = ask_pyslurm(self._commands, "pyslurm_read", {"read": ATTRIBUTES})
            found = self._rows = list(map(_row, answer["jobs"]))
        if not array_ids:
            self.single = frozenset(row.job_id for row in found if not row.tasks and not row.het_id)
        return found


class PyslurmSender(Scontrol):
    """Sends changes of single jobs through pyslurm, all others through `scontrol`.

    pyslurm changes one record of slurmctld: for a job array the rest without the tasks that were
    split off, which would keep their factor. `scontrol` changes all records of an array in one
    request. So `scontrol` gets arrays, heterogeneous jobs and unknown numbers.
    """

    def __init__(self, commands: CommandRunner, queue: PyslurmQueue) -> None:
        super().__init__(commands)
        self._queue = queue

    def send(self, changes: Sequence[ValueWrite]) -> dict[int, str]:
        """Single jobs by the child; arrays and heterogeneous jobs by `scontrol`."""
        singles = [change for change in changes if change[0] in self._queue.single]
        others = [change for change in changes if change[0] not in self._queue.single]
        refused: dict[int, str] = {}
        if singles:
            question, extra = {"write": singles}, SECONDS_A_WRITE * len(singles)
            answer = ask_pyslurm(self._commands, "pyslurm_write", question, extra)
            refused.update({int(job_id): words for job_id, words in answer["refused"]})
        if others:
            refused.update(super().send(others))
        return refused


def _row(values: Sequence[Any]) -> QueueRow:
    job = dict(zip(ATTRIBUTES, values, strict=True))
    try:
        return to_row(_as_printed(job))
    except (TypeError, ValueError) as error:
        raise not_understood("pyslurm", str(job)) from error


def _as_printed(job: Mapping[str, Any]) -> list[str]:
    """The values of QUEUE_FIELDS as `squeue` prints them."""
    nice, limit = int(job["nice"] or 0), job["time_limit"]
    has_limit = limit not in NO_LIMIT
    is_over = job["state"] in FINAL_STATES
    tasks = job["array_tasks_waiting"] or job["array_task_id"] or 0
    shown = {
        **job,
        "array_id": job["array_id"] or job["id"],
        "state_reason": job["state_reason"] or "None",
        "priority": job["priority"] or 0,
        "nice": nice - WHOLE if nice >= SIGN else nice,  # unsigned in releases before 25.5
        # without a limit the expected end of pyslurm is a year ahead
        "end_time": job["end_time"] if has_limit or is_over else None,
        "time_limit": f"{limit}:00" if has_limit else None,
        "is_batch_job": int(job["is_batch_job"]),
        "array_task_id": None if job["array_id"] is None else tasks,
        "heterogeneous_id": job["heterogeneous_id"] or 0,
    }
    return ["" if shown[name] is None else str(shown[name]) for name in ATTRIBUTES[:-1]]
