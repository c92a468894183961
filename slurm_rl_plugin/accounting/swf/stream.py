"""Workload logs in SWF of any size, read as a stream; says what `swf.SwfReader` says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import polars as pl

from slurm_rl_plugin.accounting.log_stream import LogStream
from slurm_rl_plugin.accounting.port import ReadReport
from slurm_rl_plugin.accounting.stored.log import frame_of
from slurm_rl_plugin.accounting.swf.reader import (
    jobs_of,
    machine_size,
    no_job,
    oddities,
    parse_rows,
    sift,
    tells_groups,
)
from slurm_rl_plugin.units import FloatArray


class SwfStream:
    """Jobs of one log."""

    kind = "swf"

    def __init__(self) -> None:
        self.processors_available: int | None = None
        self._read = self._kept = 0
        self._dropped: Counter[str] = Counter()
        self._noticed: Counter[str] = Counter()
        self._groups: set[str] = set()
        self._last_submit = -np.inf

    def jobs(self, stream: LogStream) -> Iterator[pl.DataFrame]:
        """The jobs of a log in batches; see `swf.SwfReader.read`.

        Raises:
            AccountingLogError: as that reader says.
        """
        head, before = stream.head(), 0
        comments: list[str] = []
        for data in stream.batches():
            lines = data.decode("latin-1").split("\n")
            comments += [line for line in lines if line.startswith(";")]
            rows = parse_rows(head, lines, before=before)
            before += len(lines) - 1
            yield self._sifted(rows)
        if not self._read:
            raise no_job(head)
        self.processors_available = machine_size(comments)

    def report(self, checksum: str) -> ReadReport:
        """What became of every record."""
        return ReadReport(
            read=self._read,
            kept=self._kept,
            dropped=dict(self._dropped),
            noticed=dict(self._noticed),
            checksum=checksum,
        )

    def finishing(self) -> tuple[pl.Expr, ...]:
        """Whose a job is: its group's where the whole log has two of them, else its user's."""
        return () if tells_groups(self._groups) else (pl.col("user").alias("account"),)

    def rest(self) -> Iterator[pl.DataFrame]:
        """Jobs that only the whole log tells: none."""
        return iter(())

    def _sifted(self, rows: FloatArray) -> pl.DataFrame:
        kept, dropped = sift(rows)
        self._read += len(rows)
        self._dropped.update(dropped)
        jobs = rows[kept]
        self._kept += len(jobs)
        self._noticed.update(oddities(jobs, self._last_submit))
        if len(jobs):
            self._last_submit = float(jobs[-1, 1])
        log = jobs_of(jobs)
        self._groups.update(log.accounts)
        return frame_of(log)
