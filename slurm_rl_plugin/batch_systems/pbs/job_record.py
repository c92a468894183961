"""What PBS says of one job that a snapshot does not hold: why it waits, in a sentence."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from slurm_rl_plugin.batch_systems.kind import JobRecord
from slurm_rl_plugin.batch_systems.pbs.answers.fields import (
    WAITING_STATES,
    PbsJob,
    parse_job,
)
from slurm_rl_plugin.batch_systems.pbs.process import QSTAT_BY_NAME, PbsCommands, section
from slurm_rl_plugin.batch_systems.pbs.queue import describe
from slurm_rl_plugin.errors import BatchSystemError
from slurm_rl_plugin.whole_file import read_whole


def job_record(job: int, timeout: float) -> JobRecord:
    """Ask `qstat` for one job; a failure is reported in the record."""
    try:
        found = [parse_job(name, values) for name, values in _shown(job, timeout).items()]
    except BatchSystemError as error:
        return JobRecord(unread=(f"its record: {error}.",))
    jobs = [each for each in found if each is not None and each.job_id == job]
    return _record_of(jobs[0]) if len(jobs) == 1 else JobRecord()


def _shown(job: int, timeout: float) -> dict[str, dict[str, Any]]:
    commands = PbsCommands(timeout=timeout)
    # PBS names an array differently from a job, and this may be either.
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


#: States of PBS, by letter, that say more than the scheduler's last comment.
STATES = {"H": "Held", "W": "Waiting"}
_NEVER = "can never run:"


@cache
def _comments() -> list[tuple[re.Pattern[str], str, str]]:
    """Pattern of a comment, what it means for the job, and what its user can do."""
    found = tomllib.loads(read_whole(Path(__file__).with_name("comments.toml")).decode())
    return [(re.compile(form, re.IGNORECASE), *words) for form, *words in found["comments"]]


def comment_sentence(comment: str) -> str:
    """What a comment means for the job, and what its user can do: one sentence, no full stop."""
    never = comment.lower().startswith(_NEVER)
    words = re.sub(r"^(?:not running|can never run):\s*", "", comment.strip(), flags=re.IGNORECASE)
    for form, meaning, advice in _comments():
        found = form.match(words)
        if found is not None:
            parts = [part.lower() for part in found.groups() if part]
            said = meaning.format(*parts)
            return f"{said}, at all times; change the request" if never else f"{said}; {advice}"
    return "this release of slurm-rl does not know the reason; ask the administrators"
