"""Dumps of `sacct -P` of any size, read as a stream; says what `sacct.SacctReader` says."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from slurm_rl_plugin.accounting.log_stream import LogStream, read_ahead
from slurm_rl_plugin.accounting.port import ReadReport
from slurm_rl_plugin.accounting.sacct.batches import Batch, RecordCutter
from slurm_rl_plugin.accounting.sacct.judgement import RecordJudge
from slurm_rl_plugin.accounting.sacct.marked import MarkedCutter, cutter_of
from slurm_rl_plugin.accounting.sacct.reader import KIND, no_record, plain_lines, recognise


class SacctStream:
    """Jobs of one dump, or of several that belong together."""

    kind = KIND
    processors_available = None

    def __init__(self) -> None:
        self._judge = RecordJudge()

    def jobs(self, stream: LogStream) -> Iterator[pl.DataFrame]:
        """The jobs of a dump in batches; see `sacct.SacctReader.read`.

        Raises:
            AccountingLogError: as that reader says.
        """
        head = stream.head()
        lines = plain_lines(head)
        layout = recognise(head, lines)
        judge, before = self._judge, self._judge.records
        for batch in read_ahead(_cut(cutter_of(layout), stream)):
            yield judge.jobs(batch, layout)
        if judge.records == before:
            raise no_record(head, lines, layout)

    def report(self, checksum: str) -> ReadReport:
        """What became of every record."""
        return self._judge.report(checksum)

    def finishing(self) -> tuple[pl.Expr, ...]:
        """What only the whole log tells of its jobs: nothing."""
        return ()

    def rest(self) -> Iterator[pl.DataFrame]:
        """Jobs that only the whole log tells: none."""
        return iter(())


def _cut(cutter: MarkedCutter | RecordCutter, stream: LogStream) -> Iterator[Batch]:
    for data in read_ahead(stream.batches()):
        yield cutter.cut(data)
    yield cutter.cut(b"", last=True)
