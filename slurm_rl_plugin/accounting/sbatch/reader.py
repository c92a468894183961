"""Event files of a Slurm simulator: what `sbatch` was told when, and for how long each job ran.

A line is `-dt SECONDS -e submit_batch_job | -sim-walltime SECONDS --uid=USER [options] job.sh`.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from slurm_rl_plugin.accounting.log_file import LogFile
from slurm_rl_plugin.accounting.log_reader import AccountingReader
from slurm_rl_plugin.accounting.port import ReadReport
from slurm_rl_plugin.accounting.sbatch.submissions import Submissions


class SbatchReader(AccountingReader):
    """Reads event files, whose submissions are seconds since their beginning, and no starts told.

    A job without a run time runs to its limit, one without an account (-A) is its user's.
    """

    kind = "sbatch"

    def __init__(self) -> None:
        self._submissions = Submissions()

    def jobs(self, log: LogFile) -> Iterator[pl.DataFrame]:
        """The jobs of a file; a line that is not understood is a fault."""
        log.head()
        for data in log.batches():
            lines = data.removesuffix(b"\n").decode("utf-8", errors="replace").split("\n")
            yield self._submissions.take(log, lines)
        if not self._submissions.read:
            raise log.fault("the file holds no submit_batch_job; export it again")

    def report(self, checksum: str) -> ReadReport:
        """What became of every event."""
        return self._submissions.report(checksum)
