"""What PBS says of one job in words that a snapshot does not hold."""

from __future__ import annotations

from typing import Any

from slurm_rl_plugin.batch_systems.kind import JobRecord
from slurm_rl_plugin.batch_systems.pbs.answers.fields import (
    STATES,
    WAITING_STATES,
    PbsJob,
    comment_sentence,
    parse_job,
)
from slurm_rl_plugin.batch_systems.pbs.process import QSTAT_BY_NAME, PbsCommands, section
from slurm_rl_plugin.batch_systems.pbs.queue import describe
from slurm_rl_plugin.errors import BatchSystemError


def job_record(job: int, timeout: float) -> JobRecord:
    """Ask `qstat` for one job; what fails is told and not raised."""
    try:
        found = [parse_job(name, values) for name, values in _shown(job, timeout).items()]
    except BatchSystemError as error:
        return JobRecord(unread=(f"its record: {error}.",))
    jobs = [each for each in found if each is not None and each.job_id == job]
    return _record_of(jobs[0]) if len(jobs) == 1 else JobRecord()


def _shown(job: int, timeout: float) -> dict[str, dict[str, Any]]:
    commands = PbsCommands(timeout=timeout)
    # PBS knows an array by another name than a job, and this may be either.
    names = (str(job), f"{job}[]")
    return section(commands.read_json([*QSTAT_BY_NAME, *names], or_nothing=True), "Jobs")


def _record_of(job: PbsJob) -> JobRecord:
    if not job.waits:
        return JobRecord(number=job.job_id, state=job.state)
    reason = STATES.get(job.state, job.comment if job.state in WAITING_STATES else "")
    return JobRecord(
        number=job.job_id,
        state=job.state,
        is_pending=True,
        name=job.title,
        reason=reason,
        meaning=comment_sentence(reason) if reason else "",
        description=describe(job),
    )
