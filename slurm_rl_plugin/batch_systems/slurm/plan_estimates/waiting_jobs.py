"""What `squeue` tells of waiting jobs for their estimates: TimeMin, and what stands against one."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_rl_plugin.batch_systems.slurm.answers.fields import (
    ASK_WAITING,
    NO_TIME,
    SEPARATOR,
    parse_duration,
)
from slurm_rl_plugin.batch_systems.slurm.process import not_understood

#: None is a user's free text; the reservation comes last, whose name an administrator gave.
FIELDS = (
    *("JobID", "ArrayJobID", "HetJobID", "Reason", "TimeLimit", "MinTime", "Deadline"),
    *("Partition", "Reservation"),
)
#: With -r each task is a line: without, `squeue` shows an array's records as one, with the values
#: of one of them.
WAITING = (
    *("squeue", "--noheader", "--all", "--local", "-r", "--states", ASK_WAITING, "-O"),
    ",".join(f"{field}:{SEPARATOR}" for field in FIELDS).removesuffix(SEPARATOR),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRecord:
    """One record of slurmctld that waits: a job, a component, or tasks of an array.

    Attributes:
        time_limit: seconds; NaN where there is none.
        estimate: seconds of TimeMin; 0 for none.
        has_deadline: whether the user gave one; backfill plans by it.
        reservations: that the job asked for, one of which it is to start in.
    """

    job_id: int
    array_id: int
    het_id: int
    reason: str
    time_limit: float
    estimate: int
    has_deadline: bool
    partitions: tuple[str, ...]
    reservations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job by the number that a snapshot has, and its records, of which there is at least one.

    A write to an array or heterogeneous job by its number reaches all of them.
    """

    records: tuple[WaitingRecord, ...]

    @property
    def estimate(self) -> int:
        """The longest TimeMin of a record, seconds."""
        return max(record.estimate for record in self.records)

    def all_have(self, seconds: int) -> bool:
        """Whether the TimeMin of every record is this."""
        return all(record.estimate == seconds for record in self.records)


def parse_waiting(text: str) -> dict[int, WaitingJob]:
    """Read the answer of WAITING; jobs by their number, arrays and heterogeneous ones whole.

    Raises:
        BatchSystemError: a line has another form.
    """
    jobs: dict[int, dict[WaitingRecord, None]] = {}
    for line in text.splitlines():
        record = _parse_record(line)
        jobs.setdefault(record.het_id or record.array_id, {})[record] = None
    return {number: WaitingJob(tuple(records)) for number, records in jobs.items()}


def _parse_record(line: str) -> WaitingRecord:
    values = line.split(SEPARATOR, len(FIELDS) - 1)
    if len(values) != len(FIELDS):
        raise not_understood("squeue", line)
    field = dict(zip(FIELDS, values, strict=True))
    try:
        return WaitingRecord(
            job_id=int(field["JobID"]),
            array_id=int(field["ArrayJobID"]),
            het_id=0 if field["HetJobID"] == "N/A" else int(field["HetJobID"]),
            reason=field["Reason"],
            time_limit=parse_duration(field["TimeLimit"]),
            estimate=_seconds(field["MinTime"]),
            has_deadline=field["Deadline"] not in NO_TIME,
            partitions=tuple(field["Partition"].split(",")),
            reservations=_names(field["Reservation"]),
        )
    except ValueError as error:
        raise not_understood("squeue", line) from error


def _seconds(text: str) -> int:
    """Whole seconds, 0 for none.

    Raises:
        ValueError: another form.
    """
    return 0 if text in NO_TIME else int(parse_duration(text))


def _names(text: str) -> tuple[str, ...]:
    return () if text.strip() in NO_TIME else tuple(text.strip().split(","))
