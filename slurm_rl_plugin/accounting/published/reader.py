"""Reads published data sets, csv or parquet, whole or as a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import polars as pl

from slurm_rl_plugin.accounting.log_file import LogFile, read_log_file
from slurm_rl_plugin.accounting.log_stream import LogStream
from slurm_rl_plugin.accounting.port import JobLog, ReadReport
from slurm_rl_plugin.accounting.published.f_data import jobs_of_f_data
from slurm_rl_plugin.accounting.published.files import (
    layout_of_parquet,
    rows_of_csv,
    rows_of_parquet,
)
from slurm_rl_plugin.accounting.published.judgement import PublishedJobs, PublishedTally
from slurm_rl_plugin.accounting.published.layouts import (
    F_DATA,
    OPENB,
    PM100,
    PublishedLayout,
    header_columns,
    layout_of,
)
from slurm_rl_plugin.accounting.published.openb import jobs_of_openb
from slurm_rl_plugin.accounting.published.pm100 import jobs_of_pm100
from slurm_rl_plugin.accounting.published.rows import PublishedRows
from slurm_rl_plugin.accounting.stored.log import job_log
from slurm_rl_plugin.errors import AccountingLogError

_JOBS: Mapping[str, Callable[[PublishedRows], PublishedJobs]] = {
    F_DATA.kind: jobs_of_f_data,
    PM100.kind: jobs_of_pm100,
    OPENB.kind: jobs_of_openb,
}


class PublishedReader:
    """Reads one file; the layout is told by its columns."""

    def read(self, path: Path) -> tuple[JobLog, ReadReport]:
        """Read a whole file, csv (gzipped or plain) or parquet.

        Raises:
            AccountingLogError: the file is missing or broken, lacks a column or any record, or a
                value is not understood; says file, line or row, and field.
        """
        layout = layout_of_parquet(path)
        if layout is None:
            return self.parse(read_log_file(path))
        stream, form = LogStream(path), PublishedStream(layout)
        return _log(list(form.jobs(stream)), form, stream.checksum)

    def parse(self, log: LogFile) -> tuple[JobLog, ReadReport]:
        """Read a csv file whose bytes are at hand; see `read`."""
        line = log.content.lstrip().partition(b"\n")[0].decode(errors="replace")
        layout = layout_of(header_columns(line))
        if layout is None:
            raise log.fault("these are no columns of F-DATA, PM100 or openb; give one of them")
        form = PublishedStream(layout)
        rows = rows_of_csv(log.path, layout, [log.content])
        return _log(list(form.judged(log.path, rows)), form, log.checksum)


class PublishedStream:
    """Jobs of files of one layout, in batches.

    Args:
        layout: of all files.
    """

    processors_available = None

    def __init__(self, layout: PublishedLayout) -> None:
        self.kind = layout.kind
        self._layout = layout
        self._tally = PublishedTally()

    def jobs(self, stream: LogStream) -> Iterator[pl.DataFrame]:
        """The jobs of a file; see `PublishedReader.read`.

        Raises:
            AccountingLogError: as that reader says.
        """
        if layout_of_parquet(stream.path) is None:
            rows = rows_of_csv(stream.path, self._layout, stream.batches())
        else:
            stream.pass_over()
            rows = rows_of_parquet(stream.path, self._layout)
        return self.judged(stream.path, rows)

    def judged(self, path: Path, batches: Iterable[PublishedRows]) -> Iterator[pl.DataFrame]:
        """The jobs among the records of a file.

        Raises:
            AccountingLogError: a value is not understood, or there is no record.
        """
        before = self._tally.read
        for rows in batches:
            yield self._tally.take(_JOBS[self.kind](rows))
        if self._tally.read == before:
            raise AccountingLogError(path, "the file holds no record; export it again")

    def report(self, checksum: str) -> ReadReport:
        """What became of every record."""
        return self._tally.report(checksum)

    def finishing(self) -> tuple[pl.Expr, ...]:
        """What only the whole log tells of its jobs: nothing."""
        return ()

    def rest(self) -> Iterator[pl.DataFrame]:
        """Jobs that only the whole log tells: none."""
        return iter(())


def _log(
    batches: list[pl.DataFrame], form: PublishedStream, checksum: str
) -> tuple[JobLog, ReadReport]:
    jobs = pl.concat(batches).sort("submit", maintain_order=True)
    return job_log(jobs, form.kind, form.processors_available), form.report(checksum)
