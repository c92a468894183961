"""Event files of a Slurm simulator: what `sbatch` was told when, and for how long each job ran.

A line is `-dt SECONDS -e submit_batch_job | -sim-walltime SECONDS --uid=USER [options] job.sh`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from slurm_rl_plugin.accounting.log_file import LogFile, read_log_file
from slurm_rl_plugin.accounting.log_stream import LogStream
from slurm_rl_plugin.accounting.port import JobLog, ReadReport
from slurm_rl_plugin.accounting.sbatch.submissions import Submissions
from slurm_rl_plugin.accounting.stored.log import job_log
from slurm_rl_plugin.errors import AccountingLogError

#: What `JobLog.kind` calls such a log.
KIND = "sbatch"


class SbatchReader:
    """Reads event files; there are no recorded starts in them.

    A job without a run time runs to its limit, one without an account (-A) is its user's.
    """

    def read(self, path: Path) -> tuple[JobLog, ReadReport]:
        """Read a whole file, gzipped or plain; submissions are seconds since its beginning.

        Raises:
            AccountingLogError: the file is missing, truncated, holds no job, or a line is not
                understood; says file, line and field.
        """
        return self.parse(read_log_file(path))

    def parse(self, log: LogFile) -> tuple[JobLog, ReadReport]:
        """Read a file whose bytes are at hand; see `read`."""
        submissions = Submissions()
        jobs = submissions.take(log, _plain_lines(log.content))
        if not submissions.read:
            raise _no_submission(log)
        ordered = jobs.sort("submit", maintain_order=True)
        return job_log(ordered, KIND, None), submissions.report(log.checksum)


def _plain_lines(content: bytes) -> list[str]:
    """Lines as text, broken letters marked."""
    return content.decode("utf-8", errors="replace").split("\n")


def _no_submission(log: LogFile) -> AccountingLogError:
    """The error of a file without any job."""
    return log.fault("the file holds no submit_batch_job; export it again")


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
            yield self._submissions.take(head, _plain_lines(data.removesuffix(b"\n")))
        if not self._submissions.read:
            raise _no_submission(head)

    def report(self, checksum: str) -> ReadReport:
        """What became of every record."""
        return self._submissions.report(checksum)

    def finishing(self) -> tuple[pl.Expr, ...]:
        """What only the whole log tells of its jobs: nothing."""
        return ()

    def rest(self) -> Iterator[pl.DataFrame]:
        """Jobs that only the whole log tells: none."""
        return iter(())
