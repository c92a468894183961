"""Accounting files of PBS and Torque: one file a day, a whole folder of them, or any part."""

from __future__ import annotations

import io
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo
from pathlib import Path

from slurm_rl_plugin.accounting.log_file import LogFile, read_log_file
from slurm_rl_plugin.accounting.pbs.fields import (
    WHOLE_ARRAY,
    JobNumber,
    account_of,
    parse_duration,
    parse_epoch,
    parse_job_id,
    parse_processors,
)
from slurm_rl_plugin.accounting.pbs.records import Record, ValueCutter, cut_record, parse_stamp
from slurm_rl_plugin.accounting.pbs.requests import request_of, unread_requests
from slurm_rl_plugin.accounting.pbs.runs import Run, RunColumns
from slurm_rl_plugin.accounting.port import JobLog, ReadReport, joined_checksum
from slurm_rl_plugin.errors import AccountingLogError

#: So many malformed lines are told with their place; all are counted.
MOST_PLACES = 20
_MALFORMED = "malformed record"
_DAILY_FILE = re.compile(r"\d{8}(\.gz)?", re.ASCII)
_WHAT_IT_IS = "PBS accounting file (lines of MM/DD/YYYY HH:MM:SS;TYPE;JOB;name=value ...)"


class PbsReader:
    """Reads the E records, one for each run that ended; records of other types are counted.

    Args:
        zone: of the local times in front of each line; None takes this machine's. They tell the
            end only where the record itself has none; all other times are seconds of the epoch.
    """

    def __init__(self, zone: tzinfo | None = None) -> None:
        self._zone = zone

    def read(self, path: Path) -> tuple[JobLog, ReadReport]:
        """Read a file, gzipped or plain, or a folder of daily files (YYYYMMDD, also .gz).

        Raises:
            AccountingLogError: a file is missing, truncated, or holds no accounting record at all;
                there is no end of a run in any of them.
        """
        if path.is_dir():
            return self.read_files(daily_files(path), path)
        return self.read_files([path], path)

    def read_files(self, paths: Sequence[Path], whole: Path) -> tuple[JobLog, ReadReport]:
        """Read several files as one log; `whole` names them in messages. See `read`."""
        several = len(paths) > 1
        logs = (read_log_file(path) for path in paths if not (several and is_empty(path)))
        return self._parse(logs, whole)

    def parse(self, log: LogFile) -> tuple[JobLog, ReadReport]:
        """Read a file whose bytes are at hand; see `read`."""
        return self._parse([log], log.path)

    def _parse(
        self, logs: Iterator[LogFile] | list[LogFile], whole: Path
    ) -> tuple[JobLog, ReadReport]:
        sifted = SiftedRecords(self._zone)
        checksums = []
        for log in logs:
            sifted.take(log.path, io.BytesIO(log.content))
            checksums.append(log.checksum)
        if not sifted.read:
            raise no_run(whole)
        return sifted.log_and_report(joined_checksum(checksums))


class SiftedRecords:
    """What the files so far have given."""

    def __init__(self, zone: tzinfo | None) -> None:
        self.read = 0
        self._zone = zone
        self._runs = RunColumns()
        self._cutter = ValueCutter()
        self._dropped: Counter[str] = Counter()
        self._noticed: Counter[str] = Counter()
        self._others: Counter[str] = Counter()
        self._places: list[str] = []

    def take(self, path: Path, lines: Iterable[bytes]) -> None:
        """Read the lines of one file.

        Raises:
            AccountingLogError: none of its lines is an accounting record.
        """
        first_odd, records = 0, 0
        for number, stored in enumerate(lines, start=1):
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
                self._others[record.kind] += 1
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
        self.read += 1
        if isinstance(run, str):
            self._dropped[run] += 1
        else:
            self._runs.append(run)

    def _malformed(self, path: Path, line: int, what: str) -> None:
        self.read += 1
        self._dropped[_MALFORMED] += 1
        if len(self._places) < MOST_PLACES:
            self._places.append(f"{path}:{line}: {what}")

    def _judge(self, record: Record) -> Run | str:
        """The run of an E record, or the reason why there is none."""
        job = parse_job_id(record.job)
        if job is None:
            raise ValueError(f"{record.job[:40]!r} is no job id")
        if job.subjob == WHOLE_ARRAY:
            return "job array as a whole"
        values = self._cutter.cut(record.text)
        submit, eligible, start, end = (_time(values, name) for name in _TIMES)
        if math.isnan(end):
            end = parse_stamp(record.stamp, self._zone)
        processors = parse_processors(values)
        reason = _impossible(submit, start, end) or ("" if processors else "no processors")
        if reason:
            return reason
        within = submit <= eligible <= start
        if not (within or math.isnan(eligible)):
            self._noticed["eligible outside submit to start"] += 1
        if values.get("run_count", "1") not in ("0", "1"):
            self._noticed["run again"] += 1
        self._noticed.update(unread_requests(values))
        return _run(job, values, (submit, eligible if within else submit, start, end), processors)

    def log_and_report(self, checksum: str) -> tuple[JobLog, ReadReport]:
        """The table, and what became of every record."""
        log, oddities = self._runs.job_log()
        if oddities.told_twice:
            self._dropped["duplicate record"] += oddities.told_twice
        if oddities.submit_going_backwards:
            self._noticed["submit going backwards"] += oddities.submit_going_backwards
        report = ReadReport(
            read=self.read,
            kept=len(log),
            dropped=dict(self._dropped),
            noticed=dict(self._noticed),
            checksum=checksum,
            other_records=dict(sorted(self._others.items())),
            malformed=tuple(self._places),
        )
        return log, report


_TIMES = ("ctime", "etime", "start", "end")


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


def no_run(path: Path) -> AccountingLogError:
    """The error of accounting files without the end of a run."""
    problem = "no run ends in it (no E record); give the accounting files of more days"
    return AccountingLogError(path, problem)


def is_empty(path: Path) -> bool:
    """A day on which nothing happened."""
    try:
        return path.stat().st_size == 0
    except OSError:
        return False  # reading it tells why
