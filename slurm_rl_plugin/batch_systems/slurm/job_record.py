"""What Slurm says of one job that a snapshot does not hold: its reason and priority terms."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from slurm_rl_plugin.batch_systems.port import JobRecord
from slurm_rl_plugin.batch_systems.slurm.answers.fields import (
    WAITING_STATES,
    QueueRow,
    reason_word,
)
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.batch_systems.slurm.queue.job_tables import describe, first_of_each_array
from slurm_rl_plugin.batch_systems.slurm.queue.reader import Squeue, whole_jobs
from slurm_rl_plugin.batch_systems.slurm.site_factor import PRIORITY_FORMAT, parse_terms
from slurm_rl_plugin.errors import BatchSystemError
from slurm_rl_plugin.whole_file import read_whole


def job_record(job: int, timeout: float) -> JobRecord:
    """Ask `squeue` and `sprio` for one job; failures are reported in the record."""
    runner = CommandRunner(timeout=timeout)
    queue = Squeue(runner, reads_comments=True)
    try:
        rows = queue.of_arrays([job])
        if rows and rows[0].het_id not in (0, job):
            job = rows[0].het_id  # Slurm shows a component by itself
            rows = queue.of_arrays([job])
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
    """The record of what `squeue` printed: a row for each record of an array, no row if unknown."""
    if not rows:
        return JobRecord()
    record = JobRecord(number=rows[0].array_id, state=rows[0].state)
    waiting = first_of_each_array(row for row in rows if row.state in WAITING_STATES)
    if not waiting:
        return record
    first = waiting[0]  # of the whole array the task that can start first
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


_ADMINISTRATORS = "ask the administrators"
_DECAY = f"wait until the usage decays, or {_ADMINISTRATORS}"


@cache
def _reasons() -> dict[str, tuple[str, str]]:
    """Reason -> what it means for the job, and what its user can do."""
    return tomllib.loads(read_whole(Path(__file__).with_name("reasons.toml")).decode())


#: Limited resource in the name of a reason -> its amount, and its amount times minutes.
_RESOURCES = {
    "cpu": ("processors", "processor-minutes"),
    "mem": ("memory", "memory-minutes"),
    "memory": ("memory", "memory-minutes"),
    "node": ("nodes", "node-minutes"),
    "gres": ("GPUs or other GRES", "minutes of GPUs or other GRES"),
    "license": ("licences", "licence-minutes"),
    "bb": ("burst buffer space", "minutes of burst buffer space"),
    "energy": ("energy", "energy-minutes"),
    "billing": ("billing units", "minutes of billing units"),
    "unknown": ("units of an unnamed resource", "minutes of an unnamed resource"),
}
_OWNERS = {"assoc": "the account or user", "qos": "the QOS", "": "the QOS"}
_SHARERS = {"user": "the user in this QOS", "account": "the account in this QOS"}
_LIMIT = re.compile(
    rf"""
    (?P<owner>assoc|qos)? (?P<of>grp|max|min)
    (?: (?P<resource>{"|".join(_RESOURCES)})
      | (?P<jobs>submitjobs?|jobs) | (?P<wall>wall(?:duration)?) )
    (?P<time>minutes|runminutes|runmins)?
    (?: per(?P<per>job|node|user|account) )?
    (?: limit | notsatisfied )?
    """,
    re.VERBOSE | re.IGNORECASE,
)


def reason_sentence(reason: str) -> str:
    """What a reason means for the job, and what its user can do: one sentence, no full stop."""
    word = reason_word(reason)
    meaning, advice = (
        _reasons().get(word)
        or _limit(word)
        or ("this release of slurm-rl does not know the reason", _ADMINISTRATORS)
    )
    return f"{meaning}; {advice}"


def _limit(word: str) -> tuple[str, str] | None:
    found = _LIMIT.fullmatch(word)
    if found is None:
        return None
    part = {name: (value or "").lower() for name, value in found.groupdict().items()}
    owner, per = _OWNERS[part["owner"]], part["per"]
    who = _SHARERS.get(per, owner)
    if part["of"] == "max" and owner == _OWNERS["assoc"]:
        who = "the user"
    if part["jobs"].startswith("submit"):
        said = f"{who} has as many pending and running jobs as allowed", "wait until some end"
    elif part["jobs"]:
        said = f"{who} has as many running jobs as allowed", "wait until one ends"
    elif part["wall"] and per == "job":
        said = f"the time limit is longer than {owner} allows", "shorten TimeLimit"
    elif part["wall"]:
        said = f"{who} has used up the limit on hours of running", _DECAY
    else:
        said = _of_resource(part, owner, who)
    return said


def _of_resource(part: dict[str, str], owner: str, who: str) -> tuple[str, str]:
    (amount, minutes), time, per = _RESOURCES[part["resource"]], part["time"], part["per"]
    if part["of"] == "min":
        return f"the job asks for less than {owner} requires of {amount}", "ask for more"
    if time.startswith("run"):
        return f"running jobs of {who} hold the allowed {minutes}", "wait, or shorten TimeLimit"
    if time and per == "job":
        return (
            f"the job asks for more {minutes} than {owner} allows for one job",
            "shorten TimeLimit, or ask for less",
        )
    if time:
        return f"{who} has used up the limit on {minutes}", _DECAY
    if per in ("job", "node"):
        return f"the job asks for more {amount} than {owner} allows for one {per}", "ask for less"
    return f"{who} has too little left of the limit on {amount}", "wait, or ask for less"
