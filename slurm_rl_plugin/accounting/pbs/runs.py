"""Runs that ended, of PBS accounting files: one file a day, a whole folder of them, or any part.

The daemon reads them too, on a head node without polars.
"""

from __future__ import annotations

import io
import math
import re
from array import array
from collections.abc import Iterator, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.accounting.log_file import LogFile, log_of_any
from slurm_rl_plugin.accounting.pbs.records import (
    WHOLE_ARRAY,
    JobNumber,
    Record,
    ValueCutter,
    account_of,
    cut_record,
    parse_duration,
    parse_epoch,
    parse_job_id,
    parse_processors,
    parse_stamp,
)
from slurm_rl_plugin.accounting.pbs.requests import (
    PbsRequest,
    request_of,
    requests_of_runs,
    unread_requests,
)
from slurm_rl_plugin.accounting.port import JobLog, ReadReport, Tally, joined_checksum
from slurm_rl_plugin.errors import AccountingLogError
from slurm_rl_plugin.units import FloatArray, IntArray

#: So many malformed lines are told with their place; all are counted.
MOST_PLACES = 20
_MALFORMED = "malformed record"
_DAILY_FILE = re.compile(r"\d{8}(\.gz)?", re.ASCII)
_WHAT_IT_IS = "PBS accounting file (lines of MM/DD/YYYY HH:MM:SS;TYPE;JOB;name=value ...)"
#: Columns of a run.
_TIMES = ("submit", "eligible", "start", "end", "time_limit")
_NUMBERS = ("number", "subjob", "processors")
_NAMES = ("server", "user", "account", "queue", "job_name")
#: Times of a record.
_TIMES_TOLD = ("ctime", "etime", "start", "end")


class EndedRuns:
    """The E records of some files, one for each run that ended; other types are counted.

    A run may be told twice, and the last time counts. It takes about a hundred bytes.

    Args:
        zone: of the local times in front of each line; None takes this machine's. They tell the
            end only where the record itself has none; all other times are seconds of the epoch.
    """

    def __init__(self, zone: tzinfo | None = None) -> None:
        self._zone = zone
        self._tally = Tally()
        self._runs = RunColumns()
        self._cutter = ValueCutter()

    def take(self, log: LogFile) -> None:
        """Read the lines of one file."""
        path = log.path
        first_odd, records = 0, 0
        for number, stored in enumerate(_lines(log), start=1):
            line = stored.decode("utf-8", errors="replace").strip()
            if not line:
                continue
            record = cut_record(line)
            if record is None:
                first_odd = first_odd or number
                self._malformed(path, number, f"{line[:40]!r} begins no record")
                continue
            records += 1
            if record.kind != "E":
                self._tally.others[record.kind] += 1
                continue
            self._take_end(path, number, record)
        if not records:
            raise AccountingLogError(path, f"this is no {_WHAT_IT_IS}", line=first_odd)

    def _take_end(self, path: Path, number: int, record: Record) -> None:
        try:
            run = self._judge(record)
        except ValueError as error:
            self._malformed(path, number, str(error))
            return
        self._tally.read += 1
        if isinstance(run, str):
            self._tally.dropped[run] += 1
        else:
            self._runs.append(run)

    def _malformed(self, path: Path, line: int, what: str) -> None:
        self._tally.read += 1
        self._tally.dropped[_MALFORMED] += 1
        if len(self._tally.malformed) < MOST_PLACES:
            self._tally.malformed.append(f"{path}:{line}: {what}")

    def _judge(self, record: Record) -> Run | str:
        """The run of an E record, or the reason why there is none."""
        job = parse_job_id(record.job)
        if job is None:
            raise ValueError(f"{record.job[:40]!r} is no job id")
        if job.subjob == WHOLE_ARRAY:
            return "job array as a whole"
        values = self._cutter.cut(record.text)
        submit, eligible, start, end = (_time(values, name) for name in _TIMES_TOLD)
        if math.isnan(end):
            end = parse_stamp(record.stamp, self._zone)
        processors = parse_processors(values)
        reason = _impossible(submit, start, end) or ("" if processors else "no processors")
        if reason:
            return reason
        within = submit <= eligible <= start
        if not (within or math.isnan(eligible)):
            self._tally.noticed["eligible outside submit to start"] += 1
        if values.get("run_count", "1") not in ("0", "1"):
            self._tally.noticed["run again"] += 1
        self._tally.noticed.update(unread_requests(values))
        return _run(job, values, (submit, eligible if within else submit, start, end), processors)

    def log_and_report(self, checksum: str, whole: Path) -> tuple[JobLog, ReadReport]:
        """The table, and what became of every record; `whole` names what was read."""
        if not self._tally.read:
            problem = "no run ends in it (no E record); give the accounting files of more days"
            raise AccountingLogError(whole, problem)
        log, told_twice, backwards = self._runs.job_log()
        self._tally.dropped["duplicate record"] += told_twice
        self._tally.noticed["submit going backwards"] += backwards
        self._tally.kept = len(log)
        return log, self._tally.report(checksum)


def _lines(log: LogFile) -> Iterator[bytes]:
    log.head()
    for data in log.batches():
        yield from io.BytesIO(data)


def _time(values: dict[str, str], name: str) -> float:
    try:
        return parse_epoch(values.get(name, ""))
    except ValueError as error:
        raise ValueError(f"{name}={str(error)[:40]} is no time") from None


def _impossible(submit: float, start: float, end: float) -> str:
    """The first reason why no job ran at such times, "" if there is none."""
    faults = (
        ("no submit time", math.isnan(submit)),
        ("never ran", math.isnan(start)),
        ("end before start", end < start),
        ("never ran", end == start),
        ("start before submit", start < submit),
    )
    return next((reason for reason, at_fault in faults if at_fault), "")


def _run(
    job: JobNumber,
    values: dict[str, str],
    times: tuple[float, float, float, float],
    processors: int,
) -> Run:
    limit = parse_duration(values.get("Resource_List.walltime", ""))
    return Run(
        job,
        *times,
        processors,
        limit if limit > 0 else math.nan,
        user=values.get("user", ""),
        account=account_of(values),
        queue=values.get("queue", ""),
        job_name=values.get("jobname", ""),
        request=request_of(values, processors),
    )


class Run(NamedTuple):
    """One run of a job; times in seconds since the epoch, the limit in seconds (NaN for none)."""

    job: JobNumber
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


class RunColumns:
    """Columns that grow by one run at a time."""

    def __init__(self) -> None:
        self._times = {name: array("d") for name in _TIMES}
        self._numbers = {name: array("q") for name in _NUMBERS}
        self._indices = {name: array("q") for name in _NAMES}
        self._names: dict[str, dict[str, int]] = {name: {} for name in _NAMES}
        self._requests: dict[PbsRequest, int] = {}
        self._request = array("q")

    def append(self, run: Run) -> None:
        """Add a run."""
        for name, column in self._times.items():
            column.append(getattr(run, name))
        numbers = (run.job.number, run.job.subjob, run.processors)
        for name, number in zip(_NUMBERS, numbers, strict=True):
            self._numbers[name].append(number)
        names = (run.job.server, run.user, run.account, run.queue, run.job_name)
        for name, text in zip(_NAMES, names, strict=True):
            known = self._names[name]
            self._indices[name].append(known.setdefault(text, len(known)))
        self._request.append(self._requests.setdefault(run.request, len(self._requests)))

    def job_log(self) -> tuple[JobLog, int, int]:
        """The table, in submit order; runs that were told twice, and submits going backwards."""
        times = {name: np.array(column) for name, column in self._times.items()}
        kept = self._told_last(times)
        submit = times["submit"][kept]
        backwards = int(np.count_nonzero(np.diff(submit) < 0))
        order = kept[np.argsort(submit, kind="stable")]
        log = self._table({name: column[order] for name, column in times.items()}, order)
        return log, len(times["submit"]) - len(kept), backwards

    def _told_last(self, times: dict[str, FloatArray]) -> IntArray:
        """Places of the runs, each once: a server that is restarted may tell an end again."""
        keys = (
            times["start"],
            np.array(self._numbers["subjob"]),
            np.array(self._numbers["number"]),
            np.array(self._indices["server"]),
        )
        order = np.lexsort((np.arange(len(times["start"])), times["end"], *keys))
        if not len(order):
            return order
        same = np.logical_and.reduce([np.diff(key[order]) == 0 for key in keys])
        return np.sort(order[np.append(~same, True)])

    def _table(self, times: dict[str, FloatArray], order: IntArray) -> JobLog:
        account, accounts = self._index("account", order)
        user, users = self._index("user", order)
        partition, partitions = self._index("queue", order)
        processors = np.array(self._numbers["processors"], dtype=np.int64)[order]
        request = np.array(self._request, dtype=np.int64)[order]
        return JobLog(
            job_id=np.array(self._numbers["number"], dtype=np.int64)[order],
            submit=times["submit"],
            eligible=times["eligible"],
            start=times["start"],
            run_time=times["end"] - times["start"],
            processors=processors,
            time_limit=times["time_limit"],
            account=account,
            user=user,
            partition=partition,
            accounts=accounts,
            users=users,
            partitions=partitions,
            job_name=self._texts("job_name", order),
            kind="pbs",
            requests=requests_of_runs(list(self._requests), request, processors),
        )

    def _column(self, name: str) -> IntArray:
        return np.array(self._indices[name], dtype=np.int64)

    def _texts(self, name: str, order: IntArray) -> tuple[str, ...]:
        texts = list(self._names[name])
        return tuple(texts[place] for place in self._column(name)[order].tolist())

    def _index(self, name: str, order: IntArray) -> tuple[IntArray, tuple[str, ...]]:
        texts = list(self._names[name])
        places, column = np.unique(self._column(name)[order], return_inverse=True)
        rank = np.argsort(np.array([texts[place] for place in places], dtype=object))
        position = np.empty(len(rank), dtype=np.int64)
        position[rank] = np.arange(len(rank))
        distinct = tuple(texts[places[place]] for place in rank)
        return position[column].astype(np.int64), distinct


def read_files(
    paths: Sequence[Path], whole: Path, zone: tzinfo | None = None
) -> tuple[JobLog, ReadReport]:
    """Read several files as one log.

    Args:
        paths: of the files, the oldest first.
        whole: names them in messages.

    Raises:
        AccountingLogError: a file is missing, truncated, or holds no accounting record at all;
            there is no end of a run in any of them.
    """
    logs = [log_of_any(path) for path in paths if not (len(paths) > 1 and is_empty(path))]
    runs = EndedRuns(zone)
    for log in logs:
        runs.take(log)
    return runs.log_and_report(joined_checksum([log.checksum for log in logs]), whole)


def daily_files(folder: Path) -> list[Path]:
    """The accounting files in a folder, the oldest first.

    Raises:
        AccountingLogError: there is none, or the folder cannot be read.
    """
    try:
        found = sorted(path for path in folder.iterdir() if _DAILY_FILE.fullmatch(path.name))
    except OSError as error:
        problem = f"the folder cannot be read ({error.strerror}); check its permissions"
        raise AccountingLogError(folder, problem) from None
    if not found:
        problem = "this is a directory without PBS accounting files (YYYYMMDD, also .gz)"
        raise AccountingLogError(folder, f"{problem}; give one log file or the folder of them")
    return found


def is_empty(path: Path) -> bool:
    """A day on which nothing happened."""
    try:
        return path.stat().st_size == 0
    except OSError:
        return False  # reading it tells why
