"""The adapter for Slurm: by pyslurm if one fits the running Slurm, else by commands.

pyslurm lists jobs and writes factors in a child process, so that a fault of libslurm ends only that
child. No release shows factors, so priorities, shares and capacity come from commands here too. Up
to 25.11 it shows no GPUs requested by job or by task, so `squeue` lists the jobs if the machine has
more than processors.
"""

from __future__ import annotations

import importlib.metadata
import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slurm_rl_plugin.batch_systems.port import AdapterParts
from slurm_rl_plugin.batch_systems.slurm.answers.fields import (
    FINAL_STATES,
    WAITING_OR_RUNNING,
    WAITING_STATES,
    QueueRow,
)
from slurm_rl_plugin.batch_systems.slurm.answers.settings import release_numbers
from slurm_rl_plugin.batch_systems.slurm.cluster import SlurmCommands
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner, not_understood
from slurm_rl_plugin.batch_systems.slurm.queue.reader import MachineLook, Squeue
from slurm_rl_plugin.batch_systems.slurm.site_factor import SECONDS_A_WRITE, Scontrol, ValueWrite
from slurm_rl_plugin.errors import BatchSystemError, ConfigurationError
from slurm_rl_plugin.units import MINUTE

logger = logging.getLogger(__name__)

PROGRAM = Path(__file__).with_name("pyslurm_program.py")
#: The first release of pyslurm that can change a job.
FIRST_THAT_WRITES = (22, 5, 2)
#: Seconds after our own time-out at which a child without a parent ends.
ORPHAN_SECONDS = 1.0
#: Attributes of `pyslurm.Job` that are read; the same in 22.5.2 to 25.11.2. Times are seconds since
#: the epoch, limits minutes. An unknown, unlimited or 0 value is None, task number 0 too.
ATTRIBUTES = (
    *("id", "array_id", "array_task_id", "array_tasks_waiting", "heterogeneous_id"),
    *("state", "state_reason", "priority", "nice", "cpus", "submit_time", "eligible_time"),
    *("accrue_time", "start_time", "end_time", "time_limit", "account", "user_name"),
    *("partition", "qos", "is_batch_job", "allocated_nodes", "name"),
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
    if wanted == Slurm.name:
        if obstacle:
            raise ConfigurationError(
                f'[batch_system] adapter = "slurm" cannot work: {obstacle}; install the pyslurm '
                "of your Slurm's release (the same first two numbers) into the Python that runs "
                'slurm-rl, or set adapter = "auto".'
            )
        return Slurm, "it is configured"
    if not obstacle and slurm is None:
        obstacle = "the release of Slurm is not known"
    if obstacle:
        return SlurmCommands, obstacle
    return Slurm, f"pyslurm {pyslurm} is for this Slurm"


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

    def __init__(
        self, commands: CommandRunner, machine: MachineLook, *, reads_comments: bool = False
    ) -> None:
        super().__init__(commands, machine, reads_comments=reads_comments)
        self._rows: list[QueueRow] = []
        #: Jobs of the last answer that belong to no array and no heterogeneous job.
        self.single: frozenset[int] = frozenset()

    def waiting_and_running(self) -> list[QueueRow]:
        """Read all jobs in the child; returns pending and running ones."""
        if self._by_squeue:
            return self._listed(super().waiting_and_running())
        return [row for row in self._read_all() if row.state in WAITING_OR_RUNNING]

    def waiting(self) -> list[QueueRow]:
        """Read all jobs in the child; returns pending ones."""
        if self._by_squeue:
            return self._listed(super().waiting())
        return [row for row in self._read_all() if row.state in WAITING_STATES]

    def of_arrays(self, array_ids: Sequence[int]) -> list[QueueRow]:
        """Records with these numbers from the last answer of pyslurm, or by `squeue`."""
        if self._by_squeue:
            return super().of_arrays(array_ids)
        wanted = set(array_ids)
        return [row for row in self._rows if row.array_id in wanted or row.het_id in wanted]

    @property
    def _by_squeue(self) -> bool:
        return self.reads_requests or self.reads_comments

    def _listed(self, rows: list[QueueRow]) -> list[QueueRow]:
        self.single = frozenset(row.job_id for row in rows if not row.tasks and not row.het_id)
        return rows

    def _read_all(self) -> list[QueueRow]:
        answer = ask_pyslurm(self._commands, "pyslurm_read", {"read": ATTRIBUTES})
        jobs = [dict(zip(ATTRIBUTES, values, strict=True)) for values in answer["jobs"]]
        self._rows = [_to_row(job) for job in jobs]
        self.single = frozenset(
            job["id"] for job in jobs if job["array_id"] is None and job["heterogeneous_id"] is None
        )
        return self._rows


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


def _to_row(job: Mapping[str, Any]) -> QueueRow:
    try:
        nice = int(job["nice"] or 0)  # releases before 25.5 read it as unsigned
        return QueueRow(
            job_id=int(job["id"]),
            array_id=int(job["array_id"] or job["id"]),
            state=str(job["state"]),
            reason=str(job["state_reason"] or "None"),
            priority=int(job["priority"] or 0),
            nice=nice - WHOLE if nice >= SIGN else nice,
            processors=int(job["cpus"]),
            submit=_time(job["submit_time"], math.nan),
            eligible=_time(job["eligible_time"], math.inf),
            accrue=_time(job["accrue_time"], math.inf),
            start=_time(job["start_time"], math.nan),
            end=_end(job),
            time_limit=_limit(job["time_limit"]),
            account=job["account"] or "",
            user=job["user_name"] or "",
            partitions=tuple((job["partition"] or "").split(",")),
            qos=job["qos"] or "",
            has_batch_script=bool(job["is_batch_job"]),
            nodes=job["allocated_nodes"] or "",
            tasks=_tasks(job),
            name=job["name"] or "",
            het_id=int(job["heterogeneous_id"] or 0),
        )
    except (TypeError, ValueError) as error:
        raise not_understood("pyslurm", str(dict(job))) from error


def _time(value: int | None, missing: float) -> float:
    return missing if value is None else float(value)


def _limit(minutes: int | str | None) -> float:
    return math.nan if minutes in NO_LIMIT else float(minutes or 0) * MINUTE


def _end(job: Mapping[str, Any]) -> float:
    """When it ended or will end; NaN without a limit, since pyslurm's end is a year ahead then."""
    endless = job["time_limit"] in NO_LIMIT and job["state"] not in FINAL_STATES
    return math.nan if endless else _time(job["end_time"], math.nan)


def _tasks(job: Mapping[str, Any]) -> str:
    """Task numbers of a record; pyslurm shows task number 0 as None."""
    if job["array_id"] is None:
        return ""
    return job["array_tasks_waiting"] or str(job["array_task_id"] or 0)
