"""Dumps of `sacct -P` of any size, read as a stream; says what `sacct.SacctReader` says."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from slurm_rl_plugin.accounting.log_stream import LogStream
from slurm_rl_plugin.accounting.port import ReadReport
from slurm_rl_plugin.accounting.sacct import no_record, plain_lines, recognise
from slurm_rl_plugin.accounting.sacct_batches import RecordCutter
from slurm_rl_plugin.accounting.sacct_judgement import RecordJudge
from slurm_rl_plugin.accounting.sacct_layout import Layout

_CUT_OFF = "truncated record"


class SacctStream:
    """Jobs of one dump, or of several that belong together."""

    kind = "sacct"
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
        cutter, before = RecordCutter(layout), self._records()
        for data in stream.batches():
            yield self._taken(cutter, data, layout, last=False)
        yield self._taken(cutter, b"", layout, last=True)
        if self._records() == before:
            raise no_record(head, lines, layout)

    def report(self, checksum: str) -> ReadReport:
        """What became of every record."""
        judge = self._judge
        return ReadReport(
            read=judge.kept + sum(judge.dropped.values()),
            kept=judge.kept,
            dropped=dict(judge.dropped),
            noticed=dict(judge.noticed),
            checksum=checksum,
        )

    def finishing(self) -> tuple[pl.Expr, ...]:
        """What only the whole log tells of its jobs: nothing."""
        return ()

    def rest(self) -> Iterator[pl.DataFrame]:
        """Jobs that only the whole log tells: none."""
        return iter(())

    def _taken(
        self, cutter: RecordCutter, data: bytes, layout: Layout, *, last: bool
    ) -> pl.DataFrame:
        batch = cutter.cut(data, last=last)
        if batch.cut_off:
            self._judge.dropped[_CUT_OFF] += batch.cut_off
        return self._judge.jobs(batch.fields, layout)

    def _records(self) -> int:
        """Whole records so far."""
        judge = self._judge
        return judge.kept + sum(judge.dropped.values()) - judge.dropped[_CUT_OFF]
