"""Picks the reader of an accounting log by what the file holds, not by its name.

Every function raises AccountingLogError where the file cannot be read or its format is unknown.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, cast

from slurm_rl_plugin.accounting.log_file import LogFile, log_of_any
from slurm_rl_plugin.accounting.pbs.runs import daily_files
from slurm_rl_plugin.accounting.port import OWN_BEGINNING, JobLog, ReadReport
from slurm_rl_plugin.accounting.published.layouts import header_columns, layout_of
from slurm_rl_plugin.errors import AccountingLogError

if TYPE_CHECKING:
    from slurm_rl_plugin.accounting.log_reader import AccountingReader

_PBS_HEAD = re.compile(r"([^\s;]*:)?\d\d/\d\d/\d{4} \d\d:\d\d:\d\d(\.\d+)?;\w;", re.ASCII)
_EVENT = re.compile(r"-(dt\s+\S+\s+-e|e\s+\w+\s+-dt)\s", re.ASCII)
_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?", re.ASCII)


def read_log(path: Path) -> tuple[JobLog, ReadReport]:
    """Read an accounting log of any format that we know, gzipped or plain.

    A parquet file holds what `slurm-rl convert` made of a log, or a published data set. A folder
    holds PBS's daily files; a name with `*`, `?` or `[` that no file has matches all such files
    that it matches.
    """
    if path.is_dir() or _is_pattern(path):
        return reader_of("pbs").read(*files_of([path]))
    if is_stored(path):
        from slurm_rl_plugin.accounting.stored.log import StoredLog  # noqa: PLC0415

        stored = StoredLog(path)
        return stored.log(), stored.report
    file = log_of_any(path)
    return reader_for([file]).read(file)


def reader_for(files: Sequence[LogFile]) -> AccountingReader:
    """A new reader of the form that all of these logs have."""
    kinds = [kind_of(file) for file in files]
    for file, kind in zip(files, kinds, strict=True):
        if kind != kinds[0]:
            problem = f"this is a log of {kind}, the one before of {kinds[0]}; convert each alone"
            raise file.fault(problem)
    if len(files) > 1 and kinds[0] in OWN_BEGINNING:
        problem = "such logs count their seconds from a beginning of their own; convert one alone"
        raise files[1].fault(problem)
    return reader_of(kinds[0])


def kind_of(log: LogFile) -> str:
    """The format of a log, as `JobLog.kind` has it."""
    if is_parquet(log.path):
        from slurm_rl_plugin.accounting.published.files import layout_of_parquet  # noqa: PLC0415

        if (columns := layout_of_parquet(log.path)) is not None:
            return columns.kind
        problem = "this parquet file is no F-DATA or PM100; what convert wrote is a LOG as it is"
        raise log.fault(problem)
    first = log.head().lstrip().partition(b"\n")[0].decode(errors="replace").strip()
    words = first.split()
    numbers = [word for word in words if _NUMBER.fullmatch(word)]
    # A row with a faulty word or a missing column is still SWF: its reader can name the fault.
    is_row = words[:1] == numbers[:1] and (len(words) == 18 or len(words) == len(numbers))
    if first.startswith(";") or is_row:
        return "swf"
    if _EVENT.match(first):
        return "sbatch"
    if (published := layout_of(header_columns(first))) is not None:
        return published.kind
    if "|" in first:
        return "sacct"
    if _PBS_HEAD.match(first):
        return "pbs"
    raise log.fault(
        "this is neither a workload log in SWF, nor a dump of `sacct -P`, nor an accounting file "
        "of PBS, nor an event file of a Slurm simulator, nor F-DATA, PM100 or openb; give one of "
        "these"
    )


def files_of(logs: Sequence[Path]) -> list[Path]:
    """The files that LOG arguments stand for: themselves, or PBS's daily files of a folder.

    Of several files, empty ones are days on which nothing happened.
    """
    files = [file for log in logs for file in _files_of(log)]
    return [each for each in files if not (len(files) > 1 and _is_empty(each))] or files[:1]


def _files_of(path: Path) -> list[Path]:
    if path.is_dir():
        return daily_files(path)
    if not _is_pattern(path):
        return [path]
    found = sorted(each for each in path.parent.glob(path.name) if each.is_file())
    if not found:
        raise AccountingLogError(path, "no file matches; check the path")
    return found


def _is_empty(path: Path) -> bool:
    try:
        return path.stat().st_size == 0
    except OSError:
        return False  # reading it says why


def is_stored(path: Path) -> bool:
    """Whether a file begins as parquet does and is no published data set: `convert` wrote it."""
    if not is_parquet(path):
        return False
    from slurm_rl_plugin.accounting.published.files import layout_of_parquet  # noqa: PLC0415

    return layout_of_parquet(path) is None


def is_parquet(path: Path) -> bool:
    """Whether a file begins as parquet does; what is no file, as a pipe, loses what is read."""
    try:
        with path.open("rb") if path.is_file() else io.BytesIO() as file:
            return file.read(4) == b"PAR1"
    except OSError:
        return False  # reading it says why


def _is_pattern(path: Path) -> bool:
    return any(mark in path.name for mark in "*?[") and not path.exists()


#: Kind of a log -> module and class of its reader, which imports polars; others are published.
_READERS = {
    "swf": ("swf.reader", "SwfReader"),
    "sacct": ("sacct.reader", "SacctReader"),
    "sbatch": ("sbatch.reader", "SbatchReader"),
    "pbs": ("pbs.reader", "PbsReader"),
}


def reader_of(kind: str) -> AccountingReader:
    """A new reader of logs of this kind, as `JobLog.kind` has it."""
    module, name = _READERS.get(kind, ("published.reader", "PublishedReader"))
    reader = getattr(import_module(f"slurm_rl_plugin.accounting.{module}"), name)
    return cast("AccountingReader", reader())
