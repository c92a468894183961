"""The accounting of jobs that ended, by `sacct`: one query for each month, joined to one dump.

Queries ask for final states, so `sacct` prints a job only in the stretch in which it ended. A
single query over years would block slurmdbd for all users.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from slurm_rl_plugin.accounting.log_file import LogFile
from slurm_rl_plugin.accounting.port import JobLog, ReadReport
from slurm_rl_plugin.accounting.sacct.fields import SACCT_FIELDS, asked_as, marked_format
from slurm_rl_plugin.batch_systems.command_process import first_line
from slurm_rl_plugin.batch_systems.port import LogDump
from slurm_rl_plugin.batch_systems.slurm.answers.fields import FINAL_STATES, SINFO, parse_capacity
from slurm_rl_plugin.batch_systems.slurm.answers.machine import SSHARE, parse_shares, read_billing
from slurm_rl_plugin.batch_systems.slurm.process import CommandRunner, failure
from slurm_rl_plugin.domain.billing import Billing
from slurm_rl_plugin.errors import (
    AccountingLogError,
    BatchSystemUnavailable,
    ConfigurationError,
)

#: Every final state of a job or of a run before a requeue; names of 22.05 to 26.05.
ENDED_STATES = tuple(sorted(FINAL_STATES | {"REQUEUED", "REVOKED"}))
SACCT = ("sacct", "--allusers", "-X", "--duplicates", "--parsable2")
_DISABLED = "accounting storage is disabled"
_NO_DATABASE = ("Problem talking to the database", "Connection refused", "timed out")
#: Bytes of one month with some millions of jobs.
LONGEST_MONTH = 1 << 30
_SECOND = timedelta(seconds=1)
_BY_HAND = "".join(
    f"{name}={value} " for name, value in marked_format("$(openssl rand -hex 8)").items()
)


class Stretch(NamedTuple):
    """Local time from `begin` to `end`, both seconds included; `end` is later."""

    begin: datetime
    end: datetime


def month_stretches(since: datetime, until: datetime) -> list[Stretch]:
    """Cut a time at the beginnings of months; no second is in two stretches.

    No stretch is a single second long, since `sacct` would read it as two seconds.
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
    stretches: Sequence[Stretch],
    progress: Callable[[int, float], None],
) -> LogDump:
    """Ask `sacct` for the jobs that ended in each stretch."""
    # text of a job stored before the call cannot hold the mark, and no user can read it meanwhile
    mark = marked_format(secrets.token_hex(8))
    parts: list[str] = []
    commands: list[str] = []
    lines = 0
    for done, stretch in enumerate(stretches, start=1):
        between = ["-S", stretch.begin.isoformat(), "-E", stretch.end.isoformat()]
        words = [*SACCT, *between, "-s", ",".join(ENDED_STATES), "-o", asked_as(SACCT_FIELDS)]
        header, _, rows = _answer(runner, words, mark, stretch).partition("\n")
        parts.append(rows if parts else f"{header}\n{rows}")
        commands.append(_BY_HAND + " ".join(words))
        lines += rows.count("\n")
        progress(done, float(lines))
    return LogDump(text="".join(parts), lines=lines, commands=tuple(commands))


def _answer(
    runner: CommandRunner, words: Sequence[str], mark: Mapping[str, str], stretch: Stretch
) -> str:
    try:
        answer = runner.call(words, variables=mark, longest=LONGEST_MONTH)
    except BatchSystemUnavailable as error:
        raise BatchSystemUnavailable(
            f"sacct gave no answer in time for jobs from {stretch.begin} to {stretch.end}; allow "
            "more time, or check slurmdbd with `sacctmgr show cluster`"
        ) from error
    if answer.status:
        words = answer.errors or answer.output
        if _DISABLED in words:
            raise ConfigurationError(
                "sacct says that this cluster keeps no accounting (AccountingStorageType in "
                "slurm.conf): set up slurmdbd, or name a LOG."
            )
        if any(phrase in words for phrase in _NO_DATABASE):
            raise BatchSystemUnavailable(
                f"sacct cannot reach slurmdbd ({first_line(words)}); check it with "
                "`sacctmgr show cluster`"
            )
        raise failure("sacct", words)
    return answer.output


class SlurmAccounting:
    """A log by `sacct`, with processors by `sinfo` and shares by `sshare`."""

    def __init__(self, timeout: float) -> None:
        self._commands = CommandRunner(timeout=timeout)

    def check(self) -> None:
        """Refuse a host without `sacct`."""
        if shutil.which("sacct") is None:
            raise ConfigurationError(
                "--from slurm needs sacct, which is not on the PATH: install Slurm's client "
                "commands, or run this on a host that has them."
            )

    def queries(self, since: datetime, until: datetime) -> int:
        """Number of calls of `sacct`: one for each month."""
        return len(month_stretches(since, until))

    def dump(
        self, since: datetime, until: datetime, progress: Callable[[int, float], None]
    ) -> LogDump:
        """Ask `sacct` month by month."""
        stretches = month_stretches(since, until)
        return read_accounting_dump(self._commands, stretches, progress)

    def read(self, dump: LogDump, when: str) -> tuple[JobLog, ReadReport]:
        """The jobs of a dump that ran; polars is needed."""
        if not dump.lines:
            raise AccountingLogError("sacct", f"no job ended {when}; give an earlier --since")
        # needs an extra that a head node does not have if it only keeps the dump
        from slurm_rl_plugin.accounting.sacct.reader import SacctReader  # noqa: PLC0415

        log, report = SacctReader().read(LogFile(Path("sacct"), dump.text.encode()))
        if not len(log):
            problem = f"{report.read} jobs ended {when}, but no job ran"
            raise AccountingLogError("sacct", f"{problem}; give an earlier --since")
        return log, report

    def processors(self) -> int:
        """All processors by `sinfo`, down nodes included."""
        return parse_capacity(self._commands.read(SINFO)).whole

    def shares(self, accounts: Sequence[str]) -> dict[str, float] | None:
        """Shares of these accounts by `sshare`, scaled to sum 1."""
        tree = parse_shares(self._commands.read(SSHARE))
        found = {name: tree.shares[name] for name in accounts if tree.shares.get(name, 0.0) > 0}
        whole = sum(found.values())
        return {name: share / whole for name, share in found.items()} or None

    def billing(self) -> Billing:
        """TRESBillingWeights by `scontrol`, and UsageFactor of each QOS by `sacctmgr`."""
        return read_billing(self._commands.read)
