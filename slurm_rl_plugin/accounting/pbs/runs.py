"""Runs that ended, of PBS accounting files: one file a day, a whole folder of them, or any part.

The daemon reads them too, on a head node without polars.
"""

from __future__ import annotations

import io
import math
import re
from array import array
from collections.abc import Iterator
from datetime import tzinfo
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from slurm_rl_plugin.accounting.log_file import LogFile
from slurm_rl_plugin.accounting.pbs.records import (
    HEAD,
    WHOLE_ARRAY,
    PbsRequest,
    account_of,
    cut_values,
    parse_duration,
    parse_job_id,
    parse_processors,
    parse_stamp,
    request_of,
    requests_of_runs,
    time_of,
    unread_requests,
)
from slurm_rl_plugin.accounting.port import JobLog, ReadReport, Tally
from slurm_rl_plugin.errors import AccountingLogError
from slurm_rl_plugin.units import IntArray

#: Malformed lines that are reported with their place; all are counted.
MOST_PLACES = 20
_MALFORMED = "malformed record"
_DAILY_FILE = re.compile(r"\d{8}(\.gz)?", re.ASCII)
_WHAT_IT_IS = "PBS accounting file (lines of MM/DD/YYYY HH:MM:SS;TYPE;JOB;name=value ...)"
_TIMES = ("submit", "eligible", "start", "end", "time_limit")
#: What is kept once, and numbered.
_REPEATED = ("server", "user", "account", "queue", "job_name", "request")


class EndedRuns:
    """The E records of some files, one for each run that ended; other types are counted.

    A run may be recorded twice, and the last record counts. It takes about a hundred bytes. The
    zone is that of the local times at the start of each line, by default this machine's. They give
    the end only if the record itself has none; all other times are seconds of the epoch.
    """

    def __init__(self, zone: tzinfo | None = None) -> None:
        self._zone = zone
        self._tally = Tally()
        # a column grows by a run at a time; what is repeated is numbered
        self._columns = {name: array("d" if name in _TIMES else "q") for name in Run._fields}
        self._known: dict[str, dict[Any, int]] = {name: {} for name in _REPEATED}

    def take(self, log: LogFile) -> None:
        """Read the lines of one file."""
        path = log.path
        first_odd, records = 0, 0
        for number, stored in enumerate(_lines(log), start=1):
            line = stored.decode("utf-8", errors="replace").strip()
            if not line:
                continue
            head = HEAD.match(line)
            if head is None:
                first_odd = first_odd or number
                self._malformed(path, number, f"{line[:40]!r} begins no record")
                continue
            records += 1
            if head[2] != "E":
                self._tally.others[head[2]] += 1
                continue
            try:
                run = self._judge(head[1], head[3], line[head.end() :])
            except ValueError as error:
                self._malformed(path, number, str(error))
                continue
            self._tally.read += 1
            if isinstance(run, str):
                self._tally.dropped[run] += 1
            else:
                self._append(run)
        if not records:
            raise AccountingLogError(path, f"this is no {_WHAT_IT_IS}", line=first_odd)

    def _malformed(self, path: Path, line: int, what: str) -> None:
        self._tally.read += 1
        self._tally.dropped[_MALFORMED] += 1
        if len(self._tally.malformed) < MOST_PLACES:
            self._tally.malformed.append(f"{path}:{line}: {what}")

    def _judge(self, stamp: str, name: str, text: str) -> Run | str:
        job = parse_job_id(name)
        if job is None:
            raise ValueError(f"{name[:40]!r} is no job id")
        if job.subjob == WHOLE_ARRAY:
            return "job array as a whole"
        values = cut_values(text)
        given = (time_of(values, name) for name in ("ctime", "etime", "start", "end"))
        submit, eligible, start, end = given
        if math.isnan(end):
            end = parse_stamp(stamp, self._zone)
        processors = parse_processors(values)
        faults = {
            "no submit time": math.isnan(submit),
            "never ran": math.isnan(start) or end == start,
            "end before start": end < start,
            "start before submit": start < submit,
            "no processors": not processors,
        }
        if any(faults.values()):
            return next(reason for reason, at_fault in faults.items() if at_fault)
        within = submit <= eligible <= start
        if not (within or math.isnan(eligible)):
            self._tally.noticed["eligible outside submit to start"] += 1
        if values.get("run_count", "1") not in ("0", "1"):
            self._tally.noticed["run again"] += 1
        self._tally.noticed.update(unread_requests(values))
        limit = parse_duration(values.get("Resource_List.walltime", ""))
        return Run(
            *job,
            submit,
            eligible if within else submit,
            start,
            end,
            processors,
            limit if limit > 0 else math.nan,
            user=values.get("user", ""),
            account=account_of(values),
            queue=values.get("queue", ""),
            job_name=values.get("jobname", ""),
            request=request_of(values, processors),
        )

    def log_and_report(self, whole: Path) -> tuple[JobLog, ReadReport]:
        """The table, and what became of every record; `whole` names what was read."""
        if not self._tally.read:
            problem = "no run ends in it (no E record); give the accounting files of more days"
            raise AccountingLogError(whole, problem)
        columns = {
            # numpy's own names of the types: an array of "q" would print another
            name: np.asarray(column).view(np.int64 if column.typecode == "q" else np.float64)
            for name, column in self._columns.items()
        }
        kept = _told_last(columns)
        submit = columns["submit"][kept]
        order = kept[np.argsort(submit, kind="stable")]
        self._tally.dropped["duplicate record"] += len(columns["submit"]) - len(kept)
        backwards = np.count_nonzero(np.diff(submit) < 0)
        self._tally.noticed["submit going backwards"] += int(backwards)
        self._tally.kept = len(kept)
        log = self._table({name: each[order] for name, each in columns.items()})
        return log, self._tally.report("")

    def _append(self, run: Run) -> None:
        for name, value in zip(Run._fields, run, strict=True):
            number: Any = value
            if (known := self._known.get(name)) is not None:
                number = known.setdefault(value, len(known))
            self._columns[name].append(number)

    def _table(self, runs: dict[str, Any]) -> JobLog:
        account, accounts = self._index("account", runs)
        user, users = self._index("user", runs)
        partition, partitions = self._index("queue", runs)
        names = list(self._known["job_name"])
        return JobLog(
            job_id=runs["number"],
            submit=runs["submit"],
            eligible=runs["eligible"],
            start=runs["start"],
            run_time=runs["end"] - runs["start"],
            processors=runs["processors"],
            time_limit=runs["time_limit"],
            account=account,
            user=user,
            partition=partition,
            accounts=accounts,
            users=users,
            partitions=partitions,
            job_name=tuple(names[place] for place in runs["job_name"].tolist()),
            kind="pbs",
            requests=requests_of_runs(
                list(self._known["request"]), runs["request"], runs["processors"]
            ),
        )

    def _index(self, name: str, runs: dict[str, Any]) -> tuple[IntArray, tuple[str, ...]]:
        """Place of each run's text among the sorted ones that runs have, and these."""
        texts = np.array(list(self._known[name]), dtype=object)
        distinct, column = np.unique(texts[runs[name]], return_inverse=True)
        return column.astype(np.int64), tuple(distinct.tolist())


def _lines(log: LogFile) -> Iterator[bytes]:
    log.head()
    for data in log.batches():
        yield from io.BytesIO(data)


class Run(NamedTuple):
    """One run of a job; times in seconds since the epoch, the limit in seconds (NaN for none)."""

    number: int
    subjob: int
    server: str
    submit: float
    eligible: float
    start: float
    end: float
    processors: int
    time_limit: float
    user: str
    account: str
    queue: str
    job_name: str
    request: PbsRequest


def _told_last(runs: dict[str, Any]) -> IntArray:
    """Places of the runs, each once: a restarted server may record an end again."""
    keys = [runs[name] for name in ("start", "subjob", "number", "server")]
    order = np.lexsort((np.arange(len(keys[0])), runs["end"], *keys))
    if not len(order):
        return order
    same = np.logical_and.reduce([np.diff(key[order]) == 0 for key in keys])
    return np.sort(order[np.append(~same, True)])


def daily_files(folder: Path) -> list[Path]:
    """The accounting files in a folder, the oldest first, one at least."""
    try:
        found = sorted(path for path in folder.iterdir() if _DAILY_FILE.fullmatch(path.name))
    except OSError as error:
        problem = f"the folder cannot be read ({error.strerror}); check its permissions"
        raise AccountingLogError(folder, problem) from None
    if not found:
        problem = "this is a directory without PBS accounting files (YYYYMMDD, also .gz)"
        raise AccountingLogError(folder, f"{problem}; give one log file or the folder of them")
    return found
