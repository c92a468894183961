"""The Standard Workload Format of the Parallel Workloads Archive: read and write.

Format: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html, version 2.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from slurm_rl_plugin.accounting.log_file import LogFile, read_log_file
from slurm_rl_plugin.accounting.port import JobLog, ReadReport
from slurm_rl_plugin.domain.resources import BASIC_RESOURCES, ResourceRequests
from slurm_rl_plugin.errors import AccountingLogError
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

_COLUMNS = (
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
)
_WHOLE_COLUMNS = [0, 4, 7, 11, 12, 14]
_UNKNOWN = -1
#: Statuses of lines that tell one portion of a job's run: to be continued, the last one that
#: completed, and the last one that failed. The job has a line of its own for all of it too.
_PORTIONS = (2, 3, 4)
#: Beyond this a float64 no longer holds every whole number.
_LARGEST = 2.0**53
_SIZE = re.compile(r"^;[ \t]*(MaxProcs|MaxNodes):[ \t]*(\d{1,15})\b", re.MULTILINE | re.ASCII)


class SwfReader:
    """Reads workload logs in SWF."""

    def read(self, path: Path) -> tuple[JobLog, ReadReport]:
        """Read a whole log, gzipped or plain; starts are told to the microsecond.

        Raises:
            AccountingLogError: the file is missing, truncated, holds no job, or a line has not 18
                numbers; says file, line and field.
        """
        return self.parse(read_log_file(path))

    def parse(self, log: LogFile) -> tuple[JobLog, ReadReport]:
        """Read a log whose bytes are at hand; see `read`."""
        # Comments may be in any encoding; Latin-1 decodes all, and numbers are ASCII.
        text = log.content.decode("latin-1")
        rows = parse_rows(log, text.split("\n"))
        if not len(rows):
            raise no_job(log)
        kept, dropped = sift(rows)
        rows_kept = rows[kept]
        order = np.argsort(rows_kept[:, 1], kind="stable")
        report = ReadReport(
            read=len(rows),
            kept=len(rows_kept),
            dropped=dropped,
            noticed=oddities(rows_kept),
            checksum=log.checksum,
        )
        return _whole(jobs_of(rows_kept[order]), machine_size([text])), report


def parse_rows(log: LogFile, lines: list[str], *, before: int = 0) -> FloatArray:
    """The rows of some lines as numbers, shape [rows, 18].

    Args:
        log: for messages.
        lines: of the log.
        before: how many lines of the log stand before these.

    Raises:
        AccountingLogError: a row has not 18 numbers; says line and field.
    """
    data = [line for line in map(str.strip, lines) if line and line[0] != ";"]
    if not data:
        return np.empty((0, len(_COLUMNS)))
    try:
        rows = np.loadtxt(data, dtype=np.float64, comments=None, ndmin=2)
    except ValueError:
        return _parse_rows_singly(log, lines, before)
    return rows if _all_sound(rows) else _parse_rows_singly(log, lines, before)


def no_job(log: LogFile) -> AccountingLogError:
    """The error of a log without rows."""
    return log.fault("the log holds no job; export it again")


def _all_sound(rows: FloatArray) -> bool:
    if rows.shape[1] != len(_COLUMNS) or not np.all(np.abs(rows) < _LARGEST):
        return False
    whole = rows[:, _WHOLE_COLUMNS]
    return bool(np.all(whole == np.floor(whole)))


def _parse_rows_singly(log: LogFile, lines: list[str], before: int) -> FloatArray:
    """Parse line by line: slower, but it can tell the line and field at fault."""
    rows = []
    for number, line in enumerate(lines, start=before + 1):
        words = line.split()
        if not words or words[0].startswith(";"):
            continue
        if len(words) != len(_COLUMNS):
            problem = f"has {len(words)} columns instead of {len(_COLUMNS)}; mend or remove it"
            raise log.fault(f"the line {problem}", line=number)
        rows.append([_parse_number(log, number, i, word) for i, word in enumerate(words)])
    return np.array(rows, dtype=np.float64)


def _parse_number(log: LogFile, line: int, column: int, word: str) -> float:
    field = f"{column + 1} ({_COLUMNS[column]})"
    try:
        value = float(word.replace("_", "no digit"))
    except ValueError:
        raise log.fault(f"{word!r} is no number; mend it", line=line, field=field) from None
    if not abs(value) < _LARGEST:
        raise log.fault(f"{word} is out of range; mend it", line=line, field=field)
    if column in _WHOLE_COLUMNS and value != int(value):
        raise log.fault(f"{word} is no whole number; mend it", line=line, field=field)
    return value


def sift(rows: FloatArray) -> tuple[BoolArray, dict[str, int]]:
    """Which rows are jobs that ran, and how many are not and why."""
    run_time = rows[:, 3]
    faults = {
        "part of a job": np.isin(rows[:, 10], _PORTIONS),
        "negative run time": (run_time < 0) & (run_time != _UNKNOWN),
        "never ran": (run_time == 0) | (run_time == _UNKNOWN),
        "no processors": _processors_of(rows) <= 0,
        "negative submit time": rows[:, 1] < 0,
    }
    kept = np.ones(len(rows), dtype=np.bool_)
    dropped = {}
    for reason, at_fault in faults.items():
        count = int(np.count_nonzero(kept & at_fault))
        if count:
            dropped[reason] = count
        kept &= ~at_fault
    return kept, dropped


def _processors_of(rows: FloatArray) -> IntArray:
    """Processors of each job: allocated ones, else those asked for."""
    return np.where(rows[:, 4] == _UNKNOWN, rows[:, 7], rows[:, 4]).astype(np.int64)


def oddities(kept: FloatArray, last_submit: float = -np.inf) -> dict[str, int]:
    """Oddity -> how many jobs show it; `last_submit` is of the job before these."""
    wait = kept[:, 2]
    backwards = np.diff(kept[:, 1], prepend=last_submit) < 0
    counts = {
        "submit going backwards": int(np.count_nonzero(backwards)),
        "negative wait": int(np.count_nonzero((wait < 0) & (wait != _UNKNOWN))),
    }
    return {oddity: count for oddity, count in counts.items() if count}


def machine_size(texts: Iterable[str]) -> int | None:
    """Processors of the machine, where the comments tell; the first that tells counts."""
    sizes: dict[str, int] = {}
    for text in texts:
        for word, number in _SIZE.findall(text):
            sizes.setdefault(word, int(number))
    return sizes.get("MaxProcs") or sizes.get("MaxNodes") or None


def jobs_of(rows: FloatArray) -> JobLog:
    """Rows of jobs that ran, whose accounts are their groups; shape [rows, 18]."""
    user, users = _index(rows[:, 11])
    processors = _processors_of(rows)
    account, accounts = _index(rows[:, 12])
    partition, partitions = _index(rows[:, 14])
    return JobLog(
        job_id=rows[:, 0].astype(np.int64),
        submit=rows[:, 1].copy(),
        eligible=rows[:, 1].copy(),
        start=_starts(rows[:, 1], rows[:, 2]),
        run_time=rows[:, 3].copy(),
        processors=processors,
        time_limit=np.where(rows[:, 8] > 0, rows[:, 8], np.nan),
        account=account,
        user=user,
        partition=partition,
        accounts=accounts,
        users=users,
        partitions=partitions,
        kind="swf",
        requests=_requests(rows[:, 9], processors),
    )


def _requests(memory: FloatArray, processors: IntArray) -> ResourceRequests | None:
    """What jobs ask of nodes; None where none tells the memory that it asks for.

    Args:
        memory: KB for each processor, not positive where it is not told; shape [jobs].
        processors: shape [jobs].
    """
    told = memory > 0
    if not told.any():
        return None
    total = np.zeros((len(memory), len(BASIC_RESOURCES)))
    total[:, 0] = processors
    total[:, 1] = np.where(told, memory * processors / 1024, 0.0)
    nodes = np.zeros(len(memory), dtype=np.int64)
    return replace(ResourceRequests.of_totals(total, nodes=nodes), memory_per_cpu=told)


def _whole(jobs: JobLog, processors_available: int | None) -> JobLog:
    """The jobs with what only the whole log tells."""
    if not tells_groups(jobs.accounts):
        jobs = replace(jobs, account=jobs.user, accounts=jobs.users)
    return replace(jobs, processors_available=processors_available)


def tells_groups(groups: Iterable[str]) -> bool:
    """Whether the groups of a log are its accounts; else its users are (definitions)."""
    return len([name for name in groups if not name.startswith("-")]) >= 2


def _index(numbers: FloatArray) -> tuple[IntArray, tuple[str, ...]]:
    values, positions = np.unique(numbers.astype(np.int64), return_inverse=True)
    return positions.astype(np.int64), tuple(str(value) for value in values)


def _starts(submit: FloatArray, wait: FloatArray) -> FloatArray:
    """Recorded starts; NaN where no wait is told."""
    start = np.where(wait < 0, np.nan, submit + wait)
    # a sum with decimal fractions is off by a last binary digit, which would not survive a rewrite.
    exact = (wait == 0) | ((wait % 1 == 0) & (submit % 1 == 0))
    return np.where(exact, start, np.round(start, 6))
