"""Event files of any size, read as a stream; says what `sbatch.SbatchReader` says."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from slurm_rl_plugin.accounting.log_stream import LogStream
from slurm_rl_plugin.accounting.port import ReadReport
from slurm_rl_plugin.accounting.sbatch.reader import KIND, no_submission, plain_lines
from slurm_rl_plugin.accounting.sbatch.submissions import Submissions


class SbatchStream:
    """Jobs of one file."""

    kind = KIND
    processors_available = None

    def __init__(self) -> None:
        self._submissions = Submissions()

    def jobs(self, stream: LogStream) -> Iterator[pl.DataFrame]:
        """The jobs of a file in batches; see `sbatch.SbatchReader.read`.

        Raises:
            AccountingLogError: as that reader says.
        """
        head = stream.head()
        for data in stream.batches():
            yield self._submissions.take(head, plain_lines(data.removesuffix(b"\n")))
        if not self._submissions.read:
            raise no_submission(head)

    def report(self, checksum: str) -> ReadReport:
        """What became of every record."""
        return self._submissions.report(checksum)

    def finishing(self) -> tuple[pl.Expr, ...]:
        """What only the whole log tells of its jobs: nothing."""
        return ()

    def rest(self) -> Iterator[pl.DataFrame]:
        """Jobs that only the whole log tells: none."""
        return iter(())
