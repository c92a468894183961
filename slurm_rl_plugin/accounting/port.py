"""The accounting port: a path becomes a table of jobs and a report of what was dropped and why."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from slurm_rl_plugin.units import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLog:
    """Jobs that ran, in submit order (stable for equal submits); every column has shape [n].

    Attributes:
        job_id: the log's number of the job.
        submit: seconds since the log's epoch.
        eligible: seconds since the log's epoch, from which on the job could have run; equals submit
            where the log does not tell.
        start: recorded start; NaN where the log does not tell.
        run_time: seconds, > 0.
        processors: processors occupied, > 0.
        time_limit: requested run time in seconds; NaN where none was given.
        account: index into `accounts`.
        user: index into `users`.
        partition: index into `partitions`.
        accounts, users, partitions: names.
        qos: QOS name of each job, "" where unknown.
        job_name: job name of each job, "" where unknown.
        processors_available: size of the machine if the log says it, else None.
        kind: "swf", "sacct" or "pbs": which class rule applies by default.
        submit_line: the command that submitted each job where the log tells, else empty strings.
    """

    job_id: IntArray
    submit: FloatArray
    eligible: FloatArray
    start: FloatArray
    run_time: FloatArray
    processors: IntArray
    time_limit: FloatArray
    account: IntArray
    user: IntArray
    partition: IntArray
    accounts: tuple[str, ...]
    users: tuple[str, ...]
    partitions: tuple[str, ...]
    qos: tuple[str, ...]
    job_name: tuple[str, ...]
    submit_line: tuple[str, ...]
    processors_available: int | None
    kind: str

    def __len__(self) -> int:
        return len(self.job_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReport:
    """What a reader did with every record of its input: read = kept + sum(dropped).

    Attributes:
        read: records found (job steps are folded into their job and are no records).
        kept: jobs in the table.
        dropped: reason -> number of records dropped for it.
        noticed: oddity -> number of kept records that show it (submit going backwards, ...).
        checksum: sha256 of the file's bytes as stored on disk; of several files, of theirs.
        other_records: type -> records that tell of no run (PBS writes a job's whole life).
        malformed: the first malformed records, each as `file:line: what is wrong`.
    """

    read: int
    kept: int
    dropped: dict[str, int] = field(default_factory=dict)
    noticed: dict[str, int] = field(default_factory=dict)
    checksum: str = ""
    other_records: dict[str, int] = field(default_factory=dict)
    malformed: tuple[str, ...] = ()


class AccountingReader(Protocol):
    """Reads one format of accounting log."""

    def read(self, path: Path) -> tuple[JobLog, ReadReport]:
        """Read a whole log, gzipped or plain.

        Raises:
            AccountingLogError: the file is missing, truncated or not of this format; says the
                file, the line and the field. Impossible values in single records are counted in
                the report instead.
        """
        ...


def joined_checksum(checksums: Sequence[str]) -> str:
    """The checksum of one file; of several files, that of their checksums in order."""
    if len(checksums) == 1:
        return checksums[0]
    return hashlib.sha256("".join(checksums).encode()).hexdigest()
