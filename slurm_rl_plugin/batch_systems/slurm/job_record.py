"""What Slurm says of one job in words and terms that a snapshot does not hold."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace

from slurm_rl_plugin.batch_systems.kind import JobRecord
from slurm_rl_plugin.batch_systems.slurm.answers.fields import (
    QUEUE_FIELDS,
    WAITING_STATES,
    QueueRow,
    parse_queue,
    queue_format,
    with_comment,
)
from slurm_rl_plugin.batch_systems.slurm.answers.reasons import reason_sentence
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.batch_systems.slurm.queue.job_tables import describe, first_of_each_array
from slurm_rl_plugin.batch_systems.slurm.queue.reader import whole_jobs
from slurm_rl_plugin.batch_systems.slurm.site_factor import PRIORITY_FORMAT, parse_terms
from slurm_rl_plugin.errors import BatchSystemError


def job_record(job: int, timeout: float) -> JobRecord:
    """Ask `squeue` and `sprio` for one job; what fails is told and not raised."""
    runner = CommandRunner(timeout=timeout)
    try:
        rows = _rows(runner, job)
        if rows and rows[0].het_id not in (0, job):
            rows = _rows(runner, job := rows[0].het_id)  # Slurm shows a component by itself
        rows = whole_jobs(rows)
    except BatchSystemError as error:
        return JobRecord(unread=(f"its record: {error}.",))
    record = _record_of(rows)
    if not record.is_pending:
        return record
    numbers = {row.job_id for row in rows if row.state in WAITING_STATES}
    try:
        answer = runner.read(["sprio", "--noheader", "-j", str(job), "-o", PRIORITY_FORMAT])
        return replace(record, terms=parse_terms(answer, numbers))
    except BatchSystemError as error:
        return replace(record, unread=(f"the terms of its priority: {error}.",))


def _record_of(rows: Sequence[QueueRow]) -> JobRecord:
    """What `squeue` tells: one row for each record of an array, none where it knows no such job."""
    if not rows:
        return JobRecord()
    record = JobRecord(number=rows[0].array_id, state=rows[0].state)
    waiting = first_of_each_array(row for row in rows if row.state in WAITING_STATES)
    if not waiting:
        return record
    first = waiting[0]  # the one that can start first, which speaks for the whole array
    return replace(
        record,
        is_pending=True,
        name=first.name,
        qos=first.qos,
        reason=first.reason,
        meaning=reason_sentence(first.reason),
        tasks=first.tasks,
        description=describe(first),
    )


def _rows(runner: CommandRunner, job: int) -> list[QueueRow]:
    mark, fields = secrets.token_hex(4), with_comment(QUEUE_FIELDS)
    # asked for one unknown job squeue fails, for several it does not: so name it twice
    words = ("squeue", "--noheader", "--all", "--local", "--states", "all", "--jobs")
    answer = runner.read([*words, f"{job},{job}"], queue_format(mark, fields))
    return parse_queue(answer, mark, fields)
