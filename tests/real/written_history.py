"""Months of accounting, written into the database of a private Slurm as slurmdbd would have.

A real slurmdbd and a real sacct tell of them afterwards; nothing else could wait so long.
"""

from __future__ import annotations

import heapq
import pwd
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from tests.real.private_cluster import PrivateSlurm

HOUR, WEEK = 3600, 7 * 24 * 3600
_JOB_TABLE = "trial_job_table"
#: Numbers of jobs that no job of a test has.
_FIRST = 1_000_000
#: Rows of one insertion.
_AT_ONCE = 1000
#: Column of slurmdbd's table -> what is drawn for it; the others are those of a job that ran.
_DRAWN = {
    "id_job": "job",
    "account": "account",
    "id_user": "uid",
    "id_assoc": "assoc",
    "timelimit": "minutes",
    "time_submit": "submit",
    "time_eligible": "submit",
    "time_start": "start",
    "time_end": "end",
    "mod_time": "end",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnJobs:
    """What a user submits: jobs of one processor.

    Attributes:
        user, account: whose.
        hours: that they run, from and to.
        minutes: that are asked for, before and after users change their ways.
        part: of all jobs.
    """

    user: str
    account: str
    hours: tuple[float, float]
    minutes: tuple[int, int]
    part: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PastJob:
    """A job that is over; times are seconds since the epoch."""

    whose: DrawnJobs
    minutes: int
    submit: int
    start: int
    end: int


def drawn_past(
    kinds: tuple[DrawnJobs, ...], *, begin: int, change: int, end: int, processors: int, seed: int
) -> list[PastJob]:
    """Jobs that came and ran in their order of coming, nearly as many as the machine can run.

    Args:
        kinds: of jobs.
        begin: when the first comes, seconds since the epoch.
        change: when users begin to ask for other limits.
        end: nothing comes that would not be over by then.
        processors: of the machine.
        seed: of the draw.
    """
    rng, free = Random(seed), [begin] * processors
    hours = sum(each.part * sum(each.hours) / 2.0 for each in kinds)
    found, submit = [], float(begin)
    while True:
        submit += rng.expovariate(0.95 * processors / (hours * HOUR))
        (kind,) = rng.choices(kinds, [each.part for each in kinds])
        run = int(rng.uniform(*kind.hours) * HOUR)
        start = max(int(submit), heapq.heappop(free))
        if start + run > end:
            return found
        heapq.heappush(free, start + run)
        minutes = kind.minutes[submit >= change]
        found.append(
            PastJob(whose=kind, minutes=minutes, submit=int(submit), start=start, end=start + run)
        )


def write_history(slurm: PrivateSlurm, jobs: list[PastJob]) -> None:
    """Have slurmdbd tell of them; some job must have run, whose row the others are like."""
    answer = _sql(slurm, "select user, acct, id_assoc from trial_assoc_table where user != ''")
    assocs = {tuple(line.split()[:2]): int(line.split()[2]) for line in answer.splitlines()}
    told = f"information_schema.columns where table_name = '{_JOB_TABLE}'"
    columns = _sql(slurm, f"select column_name from {told}").split()
    columns.remove("job_db_inx")
    values = ", ".join(f"drawn.{_DRAWN[c]}" if c in _DRAWN else f"one.`{c}`" for c in columns)
    names = ", ".join(f"`{each}`" for each in columns)  # one is a word of SQL
    _sql(
        slurm,
        "create table drawn (job int unsigned, account tinytext, uid int unsigned, "
        "assoc int unsigned, minutes int unsigned, submit bigint unsigned, start bigint unsigned, "
        "end bigint unsigned);\n"
        f"{''.join(_insertions(jobs, assocs))}"
        f"create table one as select * from {_JOB_TABLE} where time_end > 0 limit 1;\n"
        f"insert into {_JOB_TABLE} ({names}) select {values} from drawn join one;\n"
        "drop table drawn, one;\n",
    )


def _insertions(jobs: list[PastJob], assocs: dict[tuple[str, ...], int]) -> Iterator[str]:
    uids = {user: pwd.getpwnam(user).pw_uid for user, _ in assocs}
    for first in range(0, len(jobs), _AT_ONCE):
        rows = [
            (
                *(_FIRST + number, job.whose.account, uids[job.whose.user]),
                *(assocs[job.whose.user, job.whose.account], job.minutes),
                *(job.submit, job.start, job.end),
            )
            for number, job in enumerate(jobs[first : first + _AT_ONCE], first)
        ]
        yield f"insert into drawn values {', '.join(map(str, rows))};\n"


def _sql(slurm: PrivateSlurm, text: str) -> str:
    socket = f"{slurm.directory}/mysql/my.sock"
    command = ("mariadb", "--no-defaults", "-N", "-B", "-S", socket, "slurm_acct_db")
    return slurm.run(*command, stdin=text, timeout=120).stdout
