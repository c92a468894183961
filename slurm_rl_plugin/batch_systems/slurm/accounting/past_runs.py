"""Past runs from `sacct`: what a daemon without memory begins with. Never a reason to fail."""

from __future__ import annotations

import heapq
import logging
import math
from dataclasses import dataclass

from slurm_rl_plugin.accounting.sacct.fields import parse_count, parse_time, sound_values
from slurm_rl_plugin.batch_systems.slurm.answers.fields import FINAL_STATES
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner, failure
from slurm_rl_plugin.errors import BatchSystemError
from slurm_rl_plugin.units import DAY, MINUTE

logger = logging.getLogger(__name__)

#: Requested processors, not allocated ones: a waiting job is known by what it asks for.
FIELDS = (
    *("JobIDRaw", "User", "ReqCPUS", "AllocCPUS", "TimelimitRaw"),
    *("Submit", "Start", "End", "State", "ReqTRES"),
)
SACCT = ("sacct", "--allusers", "-X", "--parsable2", "--noheader", "-o", ",".join(FIELDS))
#: Seconds allowed for accounting, on top of a command's time-out: it may search a month.
SECONDS_MORE = 50.0
#: Runs taken over, the newest; the first decision has to learn from all of them.
RUNS_AT_MOST = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """A job that ran and ended; times in seconds since the epoch, NaN for no time limit.

    `tres` is what it had asked for, in Slurm's words.
    """

    job_id: int
    user: str
    processors: int
    time_limit: float
    submit: float
    start: float
    end: float
    tres: str = ""


def read_past_runs(runner: CommandRunner, days: float) -> list[PastRun]:
    """Runs that ended in the last days, RUNS_AT_MOST of them; none where accounting is no help.

    Args:
        runner: of Slurm's commands.
        days: how far back; 0 asks for nothing.
    """
    if days <= 0:
        return []
    since = ("-S", f"now-{math.ceil(days * DAY)}seconds", "-E", "now")
    try:
        answer = runner.call([*SACCT, *since], extra=SECONDS_MORE)
        if answer.status:
            raise failure("sacct", answer.errors or answer.output)
    except BatchSystemError as error:
        logger.warning("past_runs=unknown reason=%s", error)
        return []
    runs, strange = _parse(answer.output)
    if strange:
        logger.warning("past_runs=incomplete lines=%d first=%r", len(strange), strange[0][:200])
    runs = heapq.nlargest(RUNS_AT_MOST, runs, key=lambda run: run.end)
    logger.info("past_runs=%d days=%g", len(runs), days)
    return runs


def _parse(text: str) -> tuple[list[PastRun], list[str]]:
    """The jobs that ran and ended, and the lines that are not understood."""
    runs: list[PastRun] = []
    strange: list[str] = []
    for line in text.splitlines():
        try:
            run = _run(line)
        except ValueError:
            strange.append(line)
        else:
            if run is not None:
                runs.append(run)
    return runs, strange


def _run(line: str) -> PastRun | None:
    """The run that a line tells of; None where the job never ran or is not over.

    Raises:
        ValueError: the line has another form.
    """
    told = sound_values(FIELDS, line)
    job_id, user, processors, allocated, limit, submit, start, end, state, tres = told
    if state.partition(" ")[0] not in FINAL_STATES or not parse_count(allocated) > 0:
        return None
    minutes = parse_count(limit)
    run = PastRun(
        job_id=int(job_id),
        user=user,
        processors=int(parse_count(processors)),
        time_limit=minutes * MINUTE if minutes >= 0 else math.nan,
        submit=parse_time(submit),
        start=parse_time(start),
        end=parse_time(end),
        tres=tres,
    )
    return run if run.submit <= run.start <= run.end else None
