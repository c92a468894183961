"""Accounting files of PBS of any size, line by line; says what `pbs.PbsReader` says."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl

from slurm_rl_plugin.accounting.log_stream import LogStream
from slurm_rl_plugin.accounting.pbs.reader import SiftedRecords, no_run
from slurm_rl_plugin.accounting.port import ReadReport
from slurm_rl_plugin.accounting.stored.log import frame_of

#: Jobs that are turned into a frame at a time.
_BATCH = 1 << 18


class PbsStream:
    """Jobs of any number of accounting files.

    A run may be told twice, and the last time counts, so jobs come when all files are read. Until
    then a run takes about a hundred bytes.
    """

    kind = "pbs"
    processors_available = None

    def __init__(self) -> None:
        self._sifted = SiftedRecords(None)
        self._report: ReadReport | None = None
        self._path = Path()

    def jobs(self, stream: LogStream) -> Iterator[pl.DataFrame]:
        """Read a file; its jobs come with `rest`.

        Raises:
            AccountingLogError: as `pbs.PbsReader` says.
        """
        stream.head()
        self._path = stream.path
        self._sifted.take(stream.path, _lines(stream))
        return iter(())

    def rest(self) -> Iterator[pl.DataFrame]:
        """The jobs of all files, in submit order.

        Raises:
            AccountingLogError: no run ends in any of them; names the last one.
        """
        if not self._sifted.read:
            raise no_run(self._path)
        log, self._report = self._sifted.log_and_report("")
        self._sifted = SiftedRecords(None)
        for first in range(0, len(log), _BATCH):
            yield frame_of(log, first, first + _BATCH)

    def report(self, checksum: str) -> ReadReport:
        """What became of every record, once `rest` is through."""
        assert self._report is not None
        return replace(self._report, checksum=checksum)

    def finishing(self) -> tuple[pl.Expr, ...]:
        """What only the whole log tells of its jobs: nothing."""
        return ()


def _lines(stream: LogStream) -> Iterator[bytes]:
    for data in stream.batches():
        yield from io.BytesIO(data)
