"""Dumps of Slurm's `sacct -P`: with a header line, or in the form that XDMoD asks sites for."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.accounting.log_file import LogFile, read_log_file
from slurm_rl_plugin.accounting.port import JobLog, ReadReport
from slurm_rl_plugin.accounting.sacct.fields import (
    REQUIRED,
    SACCT_COMMAND,
    STRICT,
    XDMOD_FIELDS,
    is_unfinished,
    parse_count,
    parse_duration,
    parse_time,
)
from slurm_rl_plugin.accounting.sacct.layout import SEPARATOR, Layout
from slurm_rl_plugin.accounting.sacct.records import MOST_LINES, cut_records
from slurm_rl_plugin.errors import AccountingLogError
from slurm_rl_plugin.units import IntArray

_FIELD_NAME = re.compile(r"[a-z_]+(%-?\d+)?", re.ASCII)


class _Job(NamedTuple):
    """One row of the table, names not yet indexed."""

    job_id: int
    submit: float
    eligible: float
    start: float
    run_time: float
    processors: int
    time_limit: float
    account: str
    user: str
    partition: str
    qos: str
    job_name: str
    submit_line: str


class SacctReader:
    """Reads what `sacct -P` prints; job steps are skipped, their job's row has all we need."""

    def read(self, path: Path) -> tuple[JobLog, ReadReport]:
        """Read a whole dump, gzipped or plain; local times are taken as UTC.

        Raises:
            AccountingLogError: the file is missing, truncated, holds no job, or lacks a field
                that the table needs; says which `sacct` line prints them all.
        """
        return self.parse(read_log_file(path))

    def parse(self, log: LogFile) -> tuple[JobLog, ReadReport]:
        """Read a dump whose bytes are at hand; see `read`."""
        lines = plain_lines(log)
        layout = recognise(log, lines)
        jobs, dropped, noticed = _sift(cut_records(lines, layout), layout)
        read = len(jobs) + sum(dropped.values())
        if not jobs and set(dropped) <= {"truncated record"}:
            raise no_record(log, lines, layout)
        report = ReadReport(
            read=read,
            kept=len(jobs),
            dropped=dict(dropped),
            noticed=dict(noticed),
            checksum=log.checksum,
        )
        return _to_job_log(sorted(jobs, key=lambda job: job.submit)), report


def plain_lines(log: LogFile) -> list[str]:
    """The lines of a dump, broken letters marked, Windows' line ends made plain."""
    return log.content.decode("utf-8", errors="replace").replace("\r\n", "\n").split("\n")


def recognise(log: LogFile, lines: list[str]) -> Layout:
    """Which fields a dump holds.

    Raises:
        AccountingLogError: it is no dump, or lacks a field that the table needs.
    """
    # a line of separators of ASCII's own (FS to US) is blank to str, but not to the file's check
    position, first = next(((i, line) for i, line in enumerate(lines) if line.strip()), (0, ""))
    names = [name.strip().lower() for name in first.split(SEPARATOR)]
    trailing = names[-1] == ""
    named = names[:-1] if trailing else names
    if all(_FIELD_NAME.fullmatch(name) for name in named) and set(named) & set(STRICT):
        layout = Layout(tuple(name.partition("%")[0] for name in named), trailing, first)
        _check_required(log, layout, position + 1)
        return layout
    for candidate in (Layout(XDMOD_FIELDS, trailing=True), Layout(XDMOD_FIELDS, trailing=False)):
        head = [line for line in lines[position:] if line.strip()][:MOST_LINES]
        if any(candidate.cut(line) for line in head):
            return candidate
    raise log.fault(
        "this is no dump of `sacct -P` with a header line, nor one of XDMoD's 26 fields without; "
        f"export it again with `{SACCT_COMMAND}`"
    )


def _check_required(log: LogFile, layout: Layout, line: int) -> None:
    missing = [name for name, any_of in REQUIRED.items() if not layout.column.keys() & {*any_of}]
    if missing:
        problem = f"is not in the header; export the log again with `{SACCT_COMMAND}`"
        raise log.fault(problem, line=line, field=", ".join(missing))


def no_record(log: LogFile, lines: list[str], layout: Layout) -> AccountingLogError:
    """The error of a dump in which no line is a record."""
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line == layout.header:
            continue
        odd = layout.odd_field(line)
        if odd is not None and line.count(SEPARATOR) + 1 >= len(layout.names):
            problem = f"{odd[1]!r} is not what sacct prints; export the log with `{SACCT_COMMAND}`"
            return log.fault(problem, line=number, field=odd[0])
    return log.fault(f"the dump holds no whole job record; export it with `{SACCT_COMMAND}`")


def _sift(
    records: Iterable[list[str] | None], layout: Layout
) -> tuple[list[_Job], Counter[str], Counter[str]]:
    jobs: list[_Job] = []
    dropped: Counter[str] = Counter()
    noticed: Counter[str] = Counter()
    seen: set[str] = set()
    for fields in records:
        if fields is None:
            dropped["truncated record"] += 1
            continue
        if "." in layout.value(fields, "jobid", "jobidraw"):
            continue
        whole = SEPARATOR.join(fields)
        job = "duplicate record" if whole in seen else _judge(fields, layout)
        seen.add(whole)
        if isinstance(job, str):
            dropped[job] += 1
            continue
        noticed.update(_oddities(fields, layout, job))
        if jobs and job.submit < jobs[-1].submit:
            noticed["submit going backwards"] += 1
        jobs.append(job)
    return jobs, dropped, noticed


def _judge(fields: Sequence[str], layout: Layout) -> _Job | str:
    """Return the job of a record, or the reason why there is none."""
    if is_unfinished(layout.value(fields, "state").partition(" ")[0].rstrip("+")):
        return "not finished"
    submit, start, end = (
        parse_time(layout.value(fields, name)) for name in ("submit", "start", "end")
    )
    run_time = _run_time(fields, layout, start, end)
    processors = parse_count(layout.value(fields, "ncpus", "alloccpus", "reqcpus"))
    reason = _impossible(submit, start, end, run_time)
    if reason or not processors > 0:
        return reason or "no processors"
    eligible = parse_time(layout.value(fields, "eligible"))
    return _Job(
        job_id=int(re.split(r"\D", layout.value(fields, "jobidraw", "jobid"), maxsplit=1)[0]),
        submit=submit,
        eligible=eligible if submit <= eligible <= start else submit,
        start=start,
        run_time=run_time,
        processors=int(processors),
        time_limit=_time_limit(fields, layout),
        account=layout.value(fields, "account"),
        user=layout.value(fields, "user"),
        partition=layout.value(fields, "partition"),
        qos=layout.value(fields, "qos"),
        job_name=layout.value(fields, "jobname"),
        submit_line=layout.value(fields, "submitline"),
    )


def _impossible(submit: float, start: float, end: float, run_time: float) -> str:
    """Return the first reason why no job ran at such times, "" if there is none."""
    faults = (
        ("no submit time", math.isnan(submit)),
        ("never ran", math.isnan(start)),
        ("end before start", end < start),
        ("negative run time", run_time < 0),
        ("not finished", math.isnan(run_time)),
        ("never ran", run_time == 0),
        ("start before submit", start < submit),
    )
    return next((reason for reason, at_fault in faults if at_fault), "")


def _run_time(fields: Sequence[str], layout: Layout, start: float, end: float) -> float:
    told = parse_count(layout.value(fields, "elapsedraw"))
    if math.isnan(told):
        told = parse_duration(layout.value(fields, "elapsed"))
    return end - start if math.isnan(told) else told


def _time_limit(fields: Sequence[str], layout: Layout) -> float:
    limit = 60.0 * parse_count(layout.value(fields, "timelimitraw"))
    if math.isnan(limit):
        limit = parse_duration(layout.value(fields, "timelimit"))
    return limit if limit > 0 else math.nan


def _oddities(fields: Sequence[str], layout: Layout, job: _Job) -> list[str]:
    found = []
    eligible = parse_time(layout.value(fields, "eligible"))
    if eligible < job.submit or eligible > job.start:
        found.append("eligible outside submit to start")
    if abs(parse_time(layout.value(fields, "end")) - job.start - job.run_time) > 1:
        found.append("elapsed is not end minus start")
    return found


def _to_job_log(jobs: list[_Job]) -> JobLog:
    columns = list(zip(*jobs, strict=True)) or [()] * len(_Job._fields)
    ids, submit, eligible, start, run_time, processors, limit, *names = columns
    account, accounts = _index(names[0])
    user, users = _index(names[1])
    partition, partitions = _index(names[2])
    return JobLog(
        job_id=np.array(ids, dtype=np.int64),
        submit=np.array(submit, dtype=np.float64),
        eligible=np.array(eligible, dtype=np.float64),
        start=np.array(start, dtype=np.float64),
        run_time=np.array(run_time, dtype=np.float64),
        processors=np.array(processors, dtype=np.int64),
        time_limit=np.array(limit, dtype=np.float64),
        account=account,
        user=user,
        partition=partition,
        accounts=accounts,
        users=users,
        partitions=partitions,
        qos=names[3],
        job_name=names[4],
        submit_line=names[5],
        processors_available=None,
        kind="sacct",
    )


def _index(names: Sequence[str]) -> tuple[IntArray, tuple[str, ...]]:
    distinct = tuple(sorted(set(names)))
    position = {name: i for i, name in enumerate(distinct)}
    return np.array([position[name] for name in names], dtype=np.int64), distinct
