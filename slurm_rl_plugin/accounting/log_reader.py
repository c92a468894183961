"""The port of the log readers: each reads one format, in batches or whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl

from slurm_rl_plugin.accounting.log_file import LogFile, log_of_any
from slurm_rl_plugin.accounting.port import JobLog, ReadReport, Tally, joined_checksum
from slurm_rl_plugin.accounting.stored.log import job_log, with_requests


class AccountingReader(ABC):
    """Reads one log, or several that belong together one after the other; made anew for each."""

    kind: str  #: what `JobLog.kind` calls such a log
    processors_available: int | None = None  #: size of the machine, if the log has named it so far

    def __init__(self) -> None:
        self.tally = Tally()

    @abstractmethod
    def jobs(self, log: LogFile) -> Iterator[pl.DataFrame]:
        """The jobs of a log in batches, in its order; columns as in `stored.log`.

        Raises:
            AccountingLogError: the file is missing, truncated, holds no record or is not of this
                format; says the file, the line and the field. Impossible values in single records
                are counted in the report instead.
        """

    def rest(self) -> Iterator[pl.DataFrame]:
        """Jobs that need all logs together."""
        return iter(())

    def batches(self, logs: Iterable[LogFile]) -> Iterator[pl.DataFrame]:
        """All jobs of logs, in their order; then columns, kind and report are known."""
        for log in logs:
            yield from self.jobs(log)
        yield from self.rest()

    def finishing(self) -> tuple[pl.Expr, ...]:
        """Columns that need the whole log."""
        return ()

    def report(self, checksum: str) -> ReadReport:
        """What became of every record, once all jobs were read."""
        return self.tally.report(checksum)

    def read(self, *logs: Path | LogFile) -> tuple[JobLog, ReadReport]:
        """Read a whole log, gzipped or plain, or several that go together."""
        files = [log if isinstance(log, LogFile) else log_of_any(log) for log in logs]
        jobs = pl.concat(list(self.batches(files)), how="diagonal")
        if "resources" in jobs.columns:
            jobs = with_requests(jobs)
        ordered = jobs.with_columns(*self.finishing()).sort("submit", maintain_order=True)
        table = job_log(ordered, self.kind, self.processors_available)
        return table, self.report(joined_checksum([file.checksum for file in files]))
