"""The accounting port: a path becomes a table of jobs and a report of what was dropped and why."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from slurm_rl_plugin.domain.jobs import JobColumns
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, CPUS, Rows
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: Columns of a log that are texts.
TEXTS = ("qos", "job_name", "submit_line")
#: How an oddity ends that names what jobs asked for and no reader reads.
NOT_READ = " is not read"
#: Kinds of logs whose times count from a beginning of their own, at 0; those of others are dates.
OWN_BEGINNING = ("swf", "sbatch", "openb")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLog(JobColumns):
    """Jobs that ran, in submit order (stable for equal submits); every column has shape [n].

    Times are seconds since the log's epoch; `eligible` equals `submit` if the log has none,
    and `processors` are those that a job occupied, > 0.
    """

    start: FloatArray  #: recorded start; NaN if the log has none
    run_time: FloatArray  #: seconds, > 0
    #: accounts, users, partitions: names; `account`, `user` and `partition` index them.
    accounts: tuple[str, ...]
    users: tuple[str, ...]
    partitions: tuple[str, ...]
    qos: tuple[str, ...] = ()  #: name of each job's QOS, "" where unknown; by default of all jobs
    job_name: tuple[str, ...] = ()  #: job name of each job, the same
    submit_line: tuple[str, ...] = ()  #: the command that submitted each job, the same
    processors_available: int | None = None  #: size of the machine if the log says it, else None
    #: "swf", "sacct", "sbatch", "pbs" or a published data set's ("f-data", "pm100", "openb"): which
    #: class rule applies by default.
    kind: str

    def __post_init__(self) -> None:
        for name in TEXTS:
            if not getattr(self, name):
                object.__setattr__(self, name, ("",) * len(self))

    @property
    def names_users(self) -> bool:
        """Whether the log names the user of any job; in SWF, -1 names none."""
        return any(name and not name.startswith("-") for name in self.users)

    def select(self, index: IntArray | BoolArray) -> Self:
        """The jobs named by an index or boolean array, in that order."""
        places = np.arange(len(self))[index].tolist()
        texts: dict[str, Any] = {
            name: tuple(map(getattr(self, name).__getitem__, places)) for name in TEXTS
        }
        return replace(Rows.select(self, index), **texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReport:
    """What a reader did with every record of its input: read = kept + sum(dropped)."""

    read: int  #: records found (job steps are folded into their job and are no records)
    kept: int  #: jobs in the table
    dropped: dict[str, int] = field(default_factory=dict)  #: reason -> records dropped for it
    #: Oddity -> number of kept records that show it (submit going backwards, ...).
    noticed: dict[str, int] = field(default_factory=dict)
    checksum: str = ""  #: sha256 of the file's bytes as stored on disk; of several files, of theirs
    #: Type -> records without a run (PBS writes a job's whole life).
    other_records: dict[str, int] = field(default_factory=dict)
    malformed: tuple[str, ...] = ()  #: the first malformed records, as `file:line: what is wrong`

    def why_none_kept(self) -> str:
        """Why no record became a job, and what to give in its place; "" where one did."""
        if self.kept:
            return ""
        reasons = [f"{count} {reason}" for reason, count in sorted(self.dropped.items())]
        counts = ", ".join(reasons) + "".join(f"; {each}" for each in self.malformed[:1])
        return (
            f"none of its {self.read} records is a job that ran"
            + (f" ({counts})" if counts else "")
            + ": give a log of jobs that have ended"
        )


@dataclass(slots=True)
class Tally:
    """Counts for a report, taken while a log is read; see `ReadReport`."""

    read: int = 0
    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    noticed: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    malformed: list[str] = field(default_factory=list)
    last_submit: float = -np.inf

    def sift(self, faults: Iterable[tuple[str, BoolArray]], count: int) -> BoolArray:
        """Which of `count` records are jobs that ran; counts the others by their first fault.

        Faults say which records show them, shape [count].
        """
        self.read += count
        kept = np.ones(count, dtype=np.bool_)
        for reason, at_fault in faults:
            self.dropped[reason] += int(np.count_nonzero(kept & at_fault))
            kept &= ~at_fault
        return kept

    def keep(self, submit: FloatArray) -> None:
        """Count the next jobs that ran, by their submissions in the order of the log, shape [n]."""
        self.kept += len(submit)
        backwards = np.diff(submit, prepend=self.last_submit) < 0
        self.noticed["submit going backwards"] += int(np.count_nonzero(backwards))
        self.last_submit = float(submit[-1]) if len(submit) else self.last_submit

    def report(self, checksum: str) -> ReadReport:
        """What became of every record so far."""
        return ReadReport(
            read=self.read,
            kept=self.kept,
            dropped={reason: count for reason, count in self.dropped.items() if count},
            noticed={oddity: count for oddity, count in self.noticed.items() if count},
            checksum=checksum,
            other_records=dict(sorted(self.others.items())),
            malformed=tuple(self.malformed),
        )


def joined_checksum(checksums: Sequence[str]) -> str:
    """The checksum of one file; of several files, that of their checksums in order."""
    if len(checksums) == 1:
        return checksums[0]
    return hashlib.sha256("".join(checksums).encode()).hexdigest()


def resources_text(amounts: Mapping[str, float]) -> str:
    """Amounts as they are stored, such as `cpus=32,memory=512000,gpus=2,gres/gpu:a100=2`.

    By the names of `ResourceRequests`; memory in MiB. What is not there is 0, but for CPUs: without
    a word of them they are the job's processors.
    """
    others = sorted(amounts.keys() - set(BASIC_RESOURCES))
    told = [name for name in (*BASIC_RESOURCES, *others) if amounts.get(name) or name == CPUS]
    return ",".join(f"{name}={_written(amounts[name])}" for name in told if name in amounts)


def _written(amount: float) -> str:
    return str(int(amount)) if float(amount).is_integer() else repr(float(amount))


def amounts_of(text: str) -> dict[str, float]:
    """The amounts of a stored text."""
    found: dict[str, float] = {}
    for part in text.split(",") if text else ():
        name, _, value = part.rpartition("=")
        amount = float(value)
        if not name or not 0.0 <= amount < math.inf:
            raise ValueError(part)
        found[name] = amount
    return found


def totals_of(
    texts: Sequence[str], place: IntArray, processors: IntArray
) -> tuple[tuple[str, ...], FloatArray]:
    """Names of resources, and what each job asks of them, shape [n, resources].

    `place` is the index of each job into the texts; its processors are its CPUs where its text says
    nothing of them.
    """
    if not texts:
        return BASIC_RESOURCES, np.zeros((0, len(BASIC_RESOURCES)))
    amounts = [amounts_of(text) for text in texts]
    others = sorted({name for each in amounts for name in each} - set(BASIC_RESOURCES))
    names = (*BASIC_RESOURCES, *others)
    rows = np.zeros((len(amounts), len(names)))
    for row, told in zip(rows, amounts, strict=True):
        row[:] = [told.get(name, np.nan if name == CPUS else 0.0) for name in names]
    total: FloatArray = rows[place]
    cpus = total[:, 0]
    total[:, 0] = np.where(np.isnan(cpus), processors, cpus)
    return names, total
