"""Readers of accounting logs: nothing but the documented error, and every record accounted for."""

from __future__ import annotations

import re
from datetime import UTC
from pathlib import Path

import numpy as np

from slurm_rl_plugin.accounting.conversion import convert
from slurm_rl_plugin.accounting.log_file import LogFile
from slurm_rl_plugin.accounting.log_format import read_log
from slurm_rl_plugin.accounting.pbs.reader import PbsReader
from slurm_rl_plugin.accounting.port import JobLog, ReadReport
from slurm_rl_plugin.accounting.sacct.reader import SacctReader, plain_lines, recognise
from slurm_rl_plugin.accounting.stored.log import StoredLog
from slurm_rl_plugin.accounting.swf.reader import SwfReader
from slurm_rl_plugin.errors import AccountingLogError

#: An end of a run in PBS's form.
_PBS_END = re.compile(rb"([^\s;]*:)?\d\d/\d\d/\d{4} \d\d:\d\d:\d\d(\.\d+)?;E;[^;]*;")


def read_swf(content: bytes, folder: Path) -> bool:
    """A workload log; every row is a record."""
    content, file = _file(content)
    try:
        log, report = SwfReader().read(file)
    except AccountingLogError as error:
        return _told(error)
    rows = [line.split() for line in content.decode("latin-1").split("\n")]
    assert report.read == sum(bool(row) and not row[0].startswith(";") for row in rows)
    return _accounted_for(log, report)


def read_sacct(content: bytes, folder: Path) -> bool:
    """A dump of sacct; every line that is a whole row, and of no step, is a record."""
    content, file = _file(content)
    try:
        log, report = SacctReader().read(file)
    except AccountingLogError as error:
        return _told(error)
    lines = plain_lines(content)
    layout = recognise(file, lines)
    rows = [fields for line in lines if (fields := layout.cut(line)) is not None]
    whose = [layout.column[name] for name in ("jobid", "jobidraw") if name in layout.column]
    told = [next((row[place] for place in whose if row[place]), "") for row in rows]
    records = sum("." not in each for each in told)
    assert report.read >= records
    return _accounted_for(log, report)


def read_pbs(content: bytes, folder: Path) -> bool:
    """An accounting file of PBS; every line is a record, or malformed, and every end is read."""
    content, file = _file(content)
    try:
        log, report = PbsReader(UTC).read(file)
    except AccountingLogError as error:
        return _told(error)
    lines = [line for line in content.split(b"\n") if line.decode("utf-8", "replace").strip()]
    assert report.read + sum(report.other_records.values()) == len(lines)
    ends = sum(bool(_PBS_END.match(line.strip())) for line in lines)
    assert ends <= report.read
    return _accounted_for(log, report)


def read_any(content: bytes, folder: Path) -> bool:
    """A file of whatever form, as a user gives it; also gzipped, cut and of the wrong kind."""
    path = folder / "any"
    path.write_bytes(content)
    try:
        log, report = read_log(path)
    except AccountingLogError as error:
        return _told(error)
    return _accounted_for(log, report)


def convert_log(content: bytes, folder: Path) -> bool:
    """What is converted reads as the log does."""
    path, output = folder / "log", folder / "log.parquet"
    path.write_bytes(content)
    try:
        expected = read_log(path)
    except AccountingLogError:
        expected = None
    try:
        report = convert([path], output, batch=700, part=7)
    except AccountingLogError as error:
        if expected is not None:
            raise AssertionError("readable, but not converted") from error
        return _told(error)
    assert expected is not None, "converted, but not readable"
    log, told = read_log(output)
    assert told == report == expected[1]
    assert repr(log) == repr(expected[0])
    return _accounted_for(log, report)


def read_parquet(content: bytes, folder: Path) -> bool:
    """A file of ours that was damaged."""
    path = folder / "any.parquet"
    path.write_bytes(content)
    try:
        log = StoredLog(path).log()
    except AccountingLogError as error:
        return _told(error)
    assert (log.run_time > 0).all()
    return True


def _file(content: bytes) -> tuple[bytes, LogFile]:
    """A log without the bytes for which every reader refuses a file."""
    content = content.replace(b"\0", b"").removeprefix(b"\xef\xbb\xbf")
    return content, LogFile(Path("log"), content)


def _told(error: AccountingLogError) -> bool:
    """One sentence that names the file."""
    words = str(error)
    assert words
    assert "Traceback" not in words
    return False


def _accounted_for(log: JobLog, report: ReadReport) -> bool:
    assert report.read == report.kept + sum(report.dropped.values())
    assert all(count > 0 for count in report.dropped.values())
    assert len(log) == report.kept == len(log.qos) == len(log.submit_line)
    assert (log.run_time > 0).all()
    assert (log.processors > 0).all()
    assert (np.diff(log.submit) >= 0).all()
    assert not (log.start < log.submit).any()
    for name in ("account", "user", "partition"):
        index = getattr(log, name)
        assert not len(index) or 0 <= index.min() <= index.max() < len(getattr(log, f"{name}s"))
    return True
