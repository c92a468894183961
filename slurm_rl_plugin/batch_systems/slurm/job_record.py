"""What Slurm says of one job in words and terms that a snapshot does not hold."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from slurm_rl_plugin.batch_systems.kind import JobRecord
from slurm_rl_plugin.batch_systems.slurm.answers.fields import (
    PENDING,
    QueueRow,
    parse_queue,
    queue_format,
)
from slurm_rl_plugin.batch_systems.slurm.answers.priorities import PRIORITY_FORMAT, parse_terms
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.batch_systems.slurm.queue.job_tables import describe, first_of_each_array
from slurm_rl_plugin.batch_systems.slurm.queue.reader import whole_jobs
from slurm_rl_plugin.domain.job_description import JobDescription
from slurm_rl_plugin.errors import BatchSystemError


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJobRecord:
    """What Slurm tells of one job or job array: its records and the terms of its priority.

    Attributes:
        rows: of `squeue`, one for each record of the array, one for all components of a
            heterogeneous job; none where Slurm knows the job no more.
        terms: partition -> term -> points, from `sprio`; none where it does not list the job.
        unread: what could not be asked, in sentences.
    """

    rows: Sequence[QueueRow] = ()
    terms: dict[str, dict[str, int]] = field(default_factory=dict)
    unread: tuple[str, ...] = ()

    @property
    def pending(self) -> QueueRow | None:
        """The pending record that can start first, which speaks for the whole array."""
        waiting = first_of_each_array(row for row in self.rows if row.state == PENDING)
        return waiting[0] if waiting else None

    @property
    def description(self) -> JobDescription | None:
        """What the class rules see of the pending record."""
        return describe(self.pending) if self.pending else None


def job_record(job: int, timeout: float) -> JobRecord:
    """What `squeue` and `sprio` say of one job, as `read_job_record` asks them."""
    found = read_job_record(job, timeout)
    first, row = next(iter(found.rows), None), found.pending
    return JobRecord(
        number=first.array_id if first else None,
        state=first.state if first else "",
        is_pending=row is not None,
        name=row.name if row else "",
        qos=row.qos if row else "",
        reason=row.reason if row else "",
        tasks=row.tasks if row else "",
        description=found.description,
        terms=found.terms,
        unread=found.unread,
    )


def read_job_record(job: int, timeout: float) -> SlurmJobRecord:
    """Ask `squeue` and `sprio` for one job; what fails is told and not raised.

    Args:
        job: number of the job, of its array, or of a task or component.
        timeout: seconds for each command.
    """
    runner = CommandRunner(environment=None, timeout=timeout, on_call=None)
    try:
        rows = _rows(runner, job)
        if rows and rows[0].het_id not in (0, job):
            rows = _rows(runner, job := rows[0].het_id)  # Slurm shows a component by itself
        rows = whole_jobs(rows)
    except BatchSystemError as error:
        return SlurmJobRecord(unread=(f"its record: {error}.",))
    numbers = {row.job_id for row in rows if row.state == PENDING}
    if not numbers:
        return SlurmJobRecord(rows=rows)
    try:
        answer = runner.read(["sprio", "--noheader", "-j", str(job), "-o", PRIORITY_FORMAT])
        return SlurmJobRecord(rows=rows, terms=parse_terms(answer, numbers))
    except BatchSystemError as error:
        return SlurmJobRecord(rows=rows, unread=(f"the terms of its priority: {error}.",))


def _rows(runner: CommandRunner, job: int) -> list[QueueRow]:
    mark = secrets.token_hex(4)
    # asked for one unknown job squeue fails, for several it does not: so name it twice
    words = ("squeue", "--noheader", "--all", "--local", "--states", "all", "--jobs")
    return parse_queue(runner.read([*words, f"{job},{job}"], queue_format(mark)), mark)
