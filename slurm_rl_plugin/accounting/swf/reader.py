"""The Standard Workload Format of the Parallel Workloads Archive, read.

Format: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html, version 2.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import polars as pl

from slurm_rl_plugin.accounting.log_file import LogFile
from slurm_rl_plugin.accounting.log_reader import AccountingReader
from slurm_rl_plugin.accounting.port import TEXTS
from slurm_rl_plugin.accounting.stored.log import resource_texts
from slurm_rl_plugin.units import FloatArray, IntArray

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
#: Columns that number names.
_NAMES = {"user": 11, "account": 12, "partition": 14}
_UNKNOWN = -1
#: Statuses of lines with one portion of a job's run: to be continued, the last one that
#: completed, and the last one that failed. The job has a line of its own for all of it too.
_PORTIONS = (2, 3, 4)
#: Beyond this a float64 no longer holds every whole number.
_LARGEST = 2.0**53
_SIZE = re.compile(r"^;[ \t]*(MaxProcs|MaxNodes):[ \t]*(\d{1,15})\b", re.MULTILINE | re.ASCII)


class SwfReader(AccountingReader):
    """Reads workload logs in SWF; starts are exact to the microsecond."""

    kind = "swf"

    def __init__(self) -> None:
        super().__init__()
        self._groups: set[str] = set()

    def jobs(self, log: LogFile) -> Iterator[pl.DataFrame]:
        """The jobs of a log; a line that has not 18 numbers is a fault."""
        log.head()
        before = 0
        comments: list[str] = []
        for data in log.batches():
            # comments may be in any encoding; Latin-1 decodes all, and numbers are ASCII
            lines = data.decode("latin-1").split("\n")
            comments += [line for line in lines if line.startswith(";")]
            rows = _parse_rows(log, lines, before)
            before += len(lines) - 1
            yield self._sifted(rows)
        if not self.tally.read:
            raise log.fault("the log holds no job; export it again")
        sizes: dict[str, int] = {}  # of two equal comments the first counts
        for word, number in _SIZE.findall("\n".join(comments)):
            sizes.setdefault(word, int(number))
        self.processors_available = sizes.get("MaxProcs") or sizes.get("MaxNodes") or None

    def finishing(self) -> tuple[pl.Expr, ...]:
        """Whose a job is: its group's where the whole log has two of them, else its user's."""
        groups = [name for name in self._groups if not name.startswith("-")]
        return () if len(groups) >= 2 else (pl.col("user").alias("account"),)

    def _sifted(self, rows: FloatArray) -> pl.DataFrame:
        run_time = rows[:, 3]
        faults = {
            "part of a job": np.isin(rows[:, 10], _PORTIONS),
            "negative run time": (run_time < 0) & (run_time != _UNKNOWN),
            "never ran": (run_time == 0) | (run_time == _UNKNOWN),
            "no processors": _processors_of(rows) <= 0,
            "negative submit time": rows[:, 1] < 0,
        }
        jobs = rows[self.tally.sift(faults.items(), len(rows))]
        wait = jobs[:, 2]
        self.tally.keep(jobs[:, 1])
        odd = (wait < 0) & (wait != _UNKNOWN)
        self.tally.noticed["negative wait"] += int(np.count_nonzero(odd))
        frame = _jobs_of(jobs)
        self._groups.update(frame["account"].unique())
        return frame


def _parse_rows(log: LogFile, lines: list[str], before: int) -> FloatArray:
    """The rows of lines as numbers, shape [rows, 18]; `before` lines of the log precede them."""
    data = [line for line in map(str.strip, lines) if line and line[0] != ";"]
    if not data:
        return np.empty((0, len(_COLUMNS)))
    try:
        rows = np.loadtxt(data, dtype=np.float64, comments=None, ndmin=2)
    except ValueError:
        return _parse_rows_singly(log, lines, before)
    if rows.shape[1] == len(_COLUMNS) and np.all(np.abs(rows) < _LARGEST):
        whole = rows[:, _WHOLE_COLUMNS]
        if np.all(whole == np.floor(whole)):
            return rows
    return _parse_rows_singly(log, lines, before)


def _parse_rows_singly(log: LogFile, lines: list[str], before: int) -> FloatArray:
    """Parse line by line: slower, but it finds the line and field at fault."""
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


def _processors_of(rows: FloatArray) -> IntArray:
    """Processors of each job: allocated ones, else those asked for."""
    return np.where(rows[:, 4] == _UNKNOWN, rows[:, 7], rows[:, 4]).astype(np.int64)


def _jobs_of(rows: FloatArray) -> pl.DataFrame:
    processors = _processors_of(rows)
    names = {name: rows[:, place].astype(np.int64) for name, place in _NAMES.items()}
    columns = {
        "job_id": rows[:, 0].astype(np.int64),
        "submit": rows[:, 1],
        "eligible": rows[:, 1],
        "start": _starts(rows[:, 1], rows[:, 2]),
        "run_time": rows[:, 3],
        "processors": processors,
        "time_limit": np.where(rows[:, 8] > 0, rows[:, 8], np.nan),
        **{name: pl.Series(numbers).cast(pl.String) for name, numbers in names.items()},
    }
    if (memory := rows[:, 9] > 0).any():  # KB for each processor
        mebibytes = np.where(memory, rows[:, 9] * processors / 1024, 0.0)
        total = np.column_stack([processors, mebibytes, np.zeros(len(rows))])
        columns |= {"resources": resource_texts(total), "memory_per_cpu": memory}
    return pl.DataFrame(columns).with_columns(pl.lit("").alias(name) for name in TEXTS)


def _starts(submit: FloatArray, wait: FloatArray) -> FloatArray:
    """Recorded starts; NaN without a wait."""
    start = np.where(wait < 0, np.nan, submit + wait)
    # a sum with decimal fractions is off by a last binary digit, which would not survive a rewrite.
    exact = (wait == 0) | ((wait % 1 == 0) & (submit % 1 == 0))
    return np.where(exact, start, np.round(start, 6))
