"""Reads published data sets, csv or parquet, whole or as a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import polars as pl

from slurm_rl_plugin.accounting.log_file import LogFile
from slurm_rl_plugin.accounting.log_reader import AccountingReader
from slurm_rl_plugin.accounting.port import ReadReport
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
    header_columns,
    layout_of,
)
from slurm_rl_plugin.accounting.published.openb import jobs_of_openb
from slurm_rl_plugin.accounting.published.pm100 import jobs_of_pm100
from slurm_rl_plugin.accounting.published.rows import PublishedRows

_JOBS: Mapping[str, Callable[[PublishedRows], PublishedJobs]] = {
    F_DATA.kind: jobs_of_f_data,
    PM100.kind: jobs_of_pm100,
    OPENB.kind: jobs_of_openb,
}


class PublishedReader(AccountingReader):
    """Reads files of one layout, csv or parquet, which is told by their columns."""

    def __init__(self) -> None:
        self._tally = PublishedTally()

    def jobs(self, log: LogFile) -> Iterator[pl.DataFrame]:
        """The jobs of a file; a missing column or a value that is not understood is a fault."""
        layout = layout_of_parquet(log.path)
        if layout is not None:
            log.pass_over()
            batches = rows_of_parquet(log.path, layout)
        else:
            line = log.head().lstrip().partition(b"\n")[0].decode(errors="replace")
            layout = layout_of(header_columns(line))
            if layout is None:
                raise log.fault("these are no columns of F-DATA, PM100 or openb; give one of them")
            batches = rows_of_csv(log.path, layout, log.batches())
        self.kind = layout.kind
        before = self._tally.read
        for rows in batches:
            yield self._tally.take(_JOBS[self.kind](rows))
        if self._tally.read == before:
            raise log.fault("the file holds no record; export it again")

    def report(self, checksum: str) -> ReadReport:
        """What became of every record."""
        return self._tally.report(checksum)
