"""Values of jobs written in bursts; `scontrol` as who sends them, and what its errors mean."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from slurm_rl_plugin.batch_systems.command_process import Answer
from slurm_rl_plugin.batch_systems.port import LARGEST_FACTOR, ApplyReport
from slurm_rl_plugin.batch_systems.slurm.process import (
    UNREACHABLE,
    CommandRunner,
    failure,
    not_understood,
)
from slurm_rl_plugin.errors import ChangeRejected

#: Seconds allowed for one change, on top of a call's time-out; measured: below a millisecond,
#: and a backfill cycle in between.
SECONDS_A_WRITE = 0.01
#: Both ways in which `scontrol` names the job: at the end, or with its tasks at the beginning.
REFUSALS = (
    re.compile(r"^(?P<text>.+) for job (?P<job>\d+)\S*$"),
    re.compile(r"^(?P<job>\d+)(?:_\S+)?: (?P<text>.+)$"),
)
#: What Slurm says to a change of another user's job by who is no operator, and to nobody else.
NO_RIGHT = "Invalid user id"
#: What it says to a change by who owns the job or coordinates its account and is no operator; and
#: where a job_submit plugin of the site refuses a change of one job, to operators as well.
DENIED = "Access/permission denied"
#: What it says to a change of a job that has left the queue; any other refusal leaves it as it was.
GONE = ("Invalid job id specified", "Job has already finished", "already completing or completed")
#: What it says of those tasks of an array that it has changed, where it refuses others.
DONE = "No error"
#: What stands for bytes that are no text.
NO_TEXT = "\N{REPLACEMENT CHARACTER}"
ValueWrite = tuple[int, int]


def still_waiting(rejected: Mapping[int, str]) -> frozenset[int]:
    """The jobs of refused changes that, by Slurm's words, may not have left the queue."""
    return frozenset(
        job_id for job_id, words in rejected.items() if not any(gone in words for gone in GONE)
    )


class ChangeSender(Protocol):
    """Sends one burst of changes to Slurm."""

    def send(self, changes: Sequence[ValueWrite]) -> dict[int, str]:
        """Set the factor of each job (of the array, for a job array); those refused, and why.

        The words are Slurm's own, such as `Access/permission denied`.

        Raises:
            BatchSystemUnavailable: no answer in time; some changes may have been written.
            BatchSystemError: sending failed for a reason that names no job.
        """
        ...


class FactorWriter:
    """Writes values of one field of jobs, at most `writes_per_call` in one burst."""

    def __init__(self, sender: ChangeSender, writes_per_call: int) -> None:
        self._sender = sender
        self._writes_per_call = writes_per_call
        #: Whether Slurm has accepted a change of ours since it last denied us the right.
        self._had_right = False

    def write(self, changes: Sequence[ValueWrite]) -> ApplyReport:
        """Set the factor of each job (of the array, for a job array) to a new value.

        A job that runs already is accepted by Slurm without a word; the value shows when the job
        is requeued.

        Raises:
            BatchSystemUnavailable: no answer in time; some changes may have been written.
            BatchSystemError: a write failed for a reason that names no job.
            ChangeRejected: the right to change them is missing.
        """
        rejected = {
            job_id: f"factor {factor} is outside ±{LARGEST_FACTOR}"
            for job_id, factor in changes
            if abs(factor) > LARGEST_FACTOR
        }
        allowed = [change for change in changes if change[0] not in rejected]
        for burst in self._bursts(allowed):
            refused = self._sender.send(burst)
            rejected.update(refused)
            if len(refused) < len(burst):
                self._had_right = True
            elif self._is_denied_right(refused):
                self._had_right = False
                raise ChangeRejected(
                    "Slurm denies every change of priority: give the user of this daemon "
                    "AdminLevel=Operator (sacctmgr modify user NAME set AdminLevel=Operator)"
                )
        accepted = frozenset(job_id for job_id, _ in changes if job_id not in rejected)
        return ApplyReport(accepted=accepted, rejected=rejected)

    def _is_denied_right(self, refused: Mapping[int, str]) -> bool:
        """Whether refusals of a whole burst tell that we are no operator, and not of these jobs."""
        if any(NO_RIGHT in words for words in refused.values()):
            return True
        return not self._had_right and all(DENIED in words for words in refused.values())

    def _bursts(self, changes: Sequence[ValueWrite]) -> Iterator[Sequence[ValueWrite]]:
        for first in range(0, len(changes), self._writes_per_call):
            yield changes[first : first + self._writes_per_call]


class Scontrol:
    """Sends each burst through one run of `scontrol`; see `ChangeSender`.

    It names an array by its number, which Slurm takes for every record of it.
    """

    def __init__(self, commands: CommandRunner) -> None:
        self._commands = commands

    def send(self, changes: Sequence[ValueWrite]) -> dict[int, str]:
        """One `scontrol` for all changes, a line of its input for each."""
        lines = [f"update jobid={job_id} sitefactor={value}\n" for job_id, value in changes]
        answer = self._commands.call(
            ["scontrol"], stdin="".join(lines), extra=SECONDS_A_WRITE * len(changes)
        )
        return _refusals(answer, {job_id for job_id, _ in changes})


def _refusals(answer: Answer, asked: set[int]) -> dict[int, str]:
    """Job id -> Slurm's words. The exit status is no guide: releases differ in it.

    An array of which some tasks were changed is not refused: the others have just left the queue,
    or the next look at it shows that they have not.
    """
    refused: dict[int, str] = {}
    changed: set[int] = set()
    others: list[str] = []
    for line in (answer.errors + answer.output).splitlines():
        if NO_TEXT in line:  # who says that has not done what it was told
            raise not_understood("scontrol", line)
    for line in answer.errors.splitlines():
        job_id, text = _refusal(line.strip())
        if any(phrase in line for phrase in UNREACHABLE):
            raise failure("scontrol", line)
        if job_id in asked and text == DONE:
            changed.add(job_id)
        elif job_id in asked:
            refused.setdefault(job_id, text)
        elif line.strip():
            others.append(line)
    if answer.status and not refused and not changed:
        raise failure("scontrol", "\n".join(others) or answer.errors or answer.output)
    return {job_id: words for job_id, words in refused.items() if job_id not in changed}


def _refusal(line: str) -> tuple[int, str]:
    for pattern in REFUSALS:
        if found := pattern.match(line):
            return int(found["job"]), found["text"]
    return -1, line
