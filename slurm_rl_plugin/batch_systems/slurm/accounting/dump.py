"""The accounting of jobs that ended, as `sacct` prints it: one query a month, joined to one dump.

A job is asked for by a final state, and `sacct` then gives it in the stretch in which it ended, and
in no other. A single query over years would hold slurmdbd up for everybody.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from slurm_rl_plugin.accounting.sacct.fields import asked_as, marked_format
from slurm_rl_plugin.batch_systems.command_process import first_line
from slurm_rl_plugin.batch_systems.kind import LogDump
from slurm_rl_plugin.batch_systems.slurm.answers.fields import FINAL_STATES
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner
from slurm_rl_plugin.errors import BatchSystemError, BatchSystemUnavailable, ConfigurationError

#: Every state of a job, or of a run that was requeued, that is over; names of 22.05 to 26.05.
ENDED_STATES = tuple(sorted(FINAL_STATES | {"REQUEUED", "REVOKED"}))
SACCT = ("sacct", "--allusers", "-X", "--duplicates", "--parsable2")
_DISABLED = "accounting storage is disabled"
_NO_DATABASE = ("Problem talking to the database", "Connection refused", "timed out")
#: Bytes of the jobs of one month, some millions.
LONGEST_MONTH = 1 << 30
_SECOND = timedelta(seconds=1)
_BY_HAND = "".join(
    f"{name}={value} " for name, value in marked_format("$(openssl rand -hex 8)").items()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Local time from `begin` to `end`, both seconds included; `end` is later."""

    begin: datetime
    end: datetime


def month_stretches(since: datetime, until: datetime) -> list[Stretch]:
    """Cut a time at the beginnings of months; no second is in two stretches.

    None is a single second long: `sacct` would take it for two, and a job would be in both.

    Args:
        since: local time, whole seconds.
        until: local time, whole seconds, after `since`.
    """
    begins = [since]
    month = _next_month(since)
    while month < until:
        if month - begins[-1] > _SECOND:
            begins.append(month)
        month = _next_month(month)
    ends = [begin - _SECOND for begin in begins[1:]] + [until]
    return [Stretch(begin=begin, end=end) for begin, end in zip(begins, ends, strict=True)]


def _next_month(time: datetime) -> datetime:
    within = time.replace(day=1) + timedelta(days=32)
    return within.replace(day=1, hour=0, minute=0, second=0)


def read_accounting_dump(
    runner: CommandRunner,
    fields: Sequence[str],
    stretches: Sequence[Stretch],
    progress: Callable[[int, float], None],
) -> LogDump:
    """Ask `sacct` for the jobs that ended in each stretch.

    Args:
        runner: of Slurm's commands, with a time-out that a month of jobs needs.
        fields: of `sacct`, as its header names them.
        stretches: in order, none overlapping another.
        progress: told the queries done and the lines so far.

    Raises:
        ConfigurationError: this cluster keeps no accounting.
        BatchSystemUnavailable: no answer in time, or slurmdbd cannot be reached.
        BatchSystemError: `sacct` failed in another way.
    """
    # text of a job that was stored before the call cannot hold it, and nobody sees it meanwhile
    mark = marked_format(secrets.token_hex(8))
    parts: list[str] = []
    commands: list[str] = []
    lines = 0
    for done, stretch in enumerate(stretches, start=1):
        words = _query(fields, stretch)
        header, _, rows = _answer(runner, words, mark, stretch).partition("\n")
        parts.append(rows if parts else f"{header}\n{rows}")
        commands.append(_BY_HAND + " ".join(words))
        lines += rows.count("\n")
        progress(done, float(lines))
    return LogDump(text="".join(parts), lines=lines, commands=tuple(commands))


def _query(fields: Sequence[str], stretch: Stretch) -> list[str]:
    between = ["-S", stretch.begin.isoformat(), "-E", stretch.end.isoformat()]
    return [*SACCT, *between, "-s", ",".join(ENDED_STATES), "-o", asked_as(fields)]


def _answer(
    runner: CommandRunner, words: Sequence[str], mark: Mapping[str, str], stretch: Stretch
) -> str:
    try:
        answer = runner.call(words, variables=mark, longest=LONGEST_MONTH)
    except BatchSystemUnavailable as error:
        raise BatchSystemUnavailable(
            f"sacct gave no answer in time for jobs from {stretch.begin} to {stretch.end}; allow "
            "it more, or check slurmdbd with `sacctmgr show cluster`"
        ) from error
    if answer.status:
        raise _refusal(answer.errors or answer.output)
    return answer.output


def _refusal(words: str) -> ConfigurationError | BatchSystemError:
    """The error for what `sacct` said when it failed."""
    first = first_line(words)
    if _DISABLED in words:
        return ConfigurationError(
            "sacct says that this cluster keeps no accounting (AccountingStorageType in "
            "slurm.conf): set up slurmdbd, or give a LOG from elsewhere."
        )
    if any(phrase in words for phrase in _NO_DATABASE):
        return BatchSystemUnavailable(
            f"sacct cannot reach slurmdbd ({first}); check it with `sacctmgr show cluster`"
        )
    return BatchSystemError(f"sacct failed: {first}; run it by hand to see more")
