"""Event files of a Slurm simulator: what `sbatch` was told when, and for how long each job ran.

A line is `-dt SECONDS -e submit_batch_job | -sim-walltime SECONDS --uid=USER [options] job.sh`.
"""

from __future__ import annotations

from pathlib import Path

from slurm_rl_plugin.accounting.log_file import LogFile, read_log_file
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
        jobs = submissions.take(log, plain_lines(log.content))
        if not submissions.read:
            raise no_submission(log)
        ordered = jobs.sort("submit", maintain_order=True)
        return job_log(ordered, KIND, None), submissions.report(log.checksum)


def plain_lines(content: bytes) -> list[str]:
    """Lines as text, broken letters marked."""
    return content.decode("utf-8", errors="replace").split("\n")


def no_submission(log: LogFile) -> AccountingLogError:
    """The error of a file without any job."""
    return log.fault("the file holds no submit_batch_job; export it again")
