"""The reader of accounting files of PBS and Torque."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import tzinfo
from pathlib import Path

import polars as pl

from slurm_rl_plugin.accounting.log_file import LogFile, log_of_any
from slurm_rl_plugin.accounting.log_reader import AccountingReader
from slurm_rl_plugin.accounting.pbs.runs import EndedRuns
from slurm_rl_plugin.accounting.port import JobLog, ReadReport, joined_checksum
from slurm_rl_plugin.accounting.stored.log import frame_of

#: Jobs that are turned into a frame at a time.
_BATCH = 1 << 18


class PbsReader(AccountingReader):
    """Reads E records; jobs come when all files were read."""

    kind = "pbs"

    def __init__(self, zone: tzinfo | None = None) -> None:
        super().__init__()
        self._runs = EndedRuns(zone)
        self._paths: list[Path] = []
        self._report: ReadReport | None = None

    def jobs(self, log: LogFile) -> Iterator[pl.DataFrame]:
        """Read a file; its jobs come with `rest`."""
        self._runs.take(log)
        self._paths.append(log.path)
        return iter(())

    def read(self, *logs: Path | LogFile) -> tuple[JobLog, ReadReport]:
        """As of any log, but not by way of frames, which takes three times the memory."""
        files = [log if isinstance(log, LogFile) else log_of_any(log) for log in logs]
        for file in files:
            self.jobs(file)
        log, report = self._ended()
        return log, replace(report, checksum=joined_checksum([file.checksum for file in files]))

    def _ended(self) -> tuple[JobLog, ReadReport]:
        """The jobs of all files, in submit order; where no run ends their folder is blamed."""
        path = self._paths[0] if len(self._paths) == 1 else self._paths[0].parent
        return self._runs.log_and_report(path)

    def rest(self) -> Iterator[pl.DataFrame]:
        """The jobs of all files."""
        log, self._report = self._ended()
        self._runs = EndedRuns()
        for first in range(0, max(len(log), 1), _BATCH):
            yield frame_of(log, first, first + _BATCH)

    def report(self, checksum: str) -> ReadReport:
        """What became of every record, once `rest` is through."""
        assert self._report is not None
        return replace(self._report, checksum=checksum)
