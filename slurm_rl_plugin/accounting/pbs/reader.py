"""The reader of accounting files of PBS and Torque."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import tzinfo
from pathlib import Path

import polars as pl

from slurm_rl_plugin.accounting.log_file import LogFile
from slurm_rl_plugin.accounting.log_reader import AccountingReader
from slurm_rl_plugin.accounting.pbs.runs import EndedRuns, daily_files, read_files
from slurm_rl_plugin.accounting.port import JobLog, ReadReport
from slurm_rl_plugin.accounting.stored.log import frame_of

#: Jobs that are turned into a frame at a time.
_BATCH = 1 << 18


class PbsReader(AccountingReader):
    """Reads E records; jobs come when all files were read."""

    kind = "pbs"

    def __init__(self, zone: tzinfo | None = None) -> None:
        super().__init__()
        self._zone = zone
        self._runs = EndedRuns(zone)
        self._last = Path()
        self._report: ReadReport | None = None

    def jobs(self, log: LogFile) -> Iterator[pl.DataFrame]:
        """Read a file; its jobs come with `rest`."""
        self._runs.take(log)
        self._last = log.path
        return iter(())

    def rest(self) -> Iterator[pl.DataFrame]:
        """The jobs of all files, in submit order; without the end of a run the last is blamed."""
        log, self._report = self._runs.log_and_report("", self._last)
        self._runs = EndedRuns()
        for first in range(0, len(log), _BATCH):
            yield frame_of(log, first, first + _BATCH)

    def report(self, checksum: str) -> ReadReport:
        """What became of every record, once `rest` is through."""
        assert self._report is not None
        return replace(self._report, checksum=checksum)

    def read(self, log: Path | LogFile) -> tuple[JobLog, ReadReport]:
        """Read a file, gzipped or plain, or a folder of daily files (YYYYMMDD, also .gz)."""
        if isinstance(log, Path):
            return read_files(daily_files(log) if log.is_dir() else [log], log, self._zone)
        self._runs.take(log)
        return self._runs.log_and_report(log.checksum, log.path)
