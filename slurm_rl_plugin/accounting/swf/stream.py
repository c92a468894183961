"""Workload logs in SWF of any size, read as a stream; says what `swf.SwfReader` says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import polars as pl

from slurm_rl_plugin.accounting.log_stream import LogStream
from slurm_rl_plugin.accounting.port import ReadReport
from slurm_rl_plugin.accounting.swf.reader import (
    machine_size,
    no_job,
    oddities,
    parse_rows,
    processors_of,
    sift,
    starts,
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
        frame = _frame(jobs)
        self._groups.update(frame["account"].unique().to_list())
        return frame


def _frame(jobs: FloatArray) -> pl.DataFrame:
    """Rows as they are stored; names are the log's numbers."""
    numbered = {"user": 11, "account": 12, "partition": 14}
    nothing = pl.lit("", dtype=pl.String)
    return pl.DataFrame(
        {
            "job_id": jobs[:, 0].astype(np.int64),
            "submit": jobs[:, 1],
            "eligible": jobs[:, 1],
            "start": starts(jobs[:, 1], jobs[:, 2]),
            "run_time": jobs[:, 3],
            "processors": processors_of(jobs),
            "time_limit": np.where(jobs[:, 8] > 0, jobs[:, 8], np.nan),
            **{name: jobs[:, column].astype(np.int64) for name, column in numbered.items()},
        }
    ).with_columns(
        pl.col(*numbered).cast(pl.String), qos=nothing, job_name=nothing, submit_line=nothing
    )
