"""Logs of any size become one parquet file, in memory that does not grow with their text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from polars.exceptions import PolarsError

from slurm_rl_plugin.accounting.log_format import files_of, is_parquet, is_stored, kind_of
from slurm_rl_plugin.accounting.log_stream import BATCH, LogStream
from slurm_rl_plugin.accounting.port import ReadReport, joined_checksum
from slurm_rl_plugin.accounting.published.layouts import LAYOUTS
from slurm_rl_plugin.accounting.stored.log import metadata
from slurm_rl_plugin.accounting.stored.runs import PART, StoredRuns
from slurm_rl_plugin.accounting.working_folder import working_folder
from slurm_rl_plugin.errors import AccountingLogError
from slurm_rl_plugin.whole_file import put_in_place

if TYPE_CHECKING:
    from slurm_rl_plugin.accounting.pbs.stream import PbsStream
    from slurm_rl_plugin.accounting.published.reader import PublishedStream
    from slurm_rl_plugin.accounting.sacct.stream import SacctStream
    from slurm_rl_plugin.accounting.sbatch.reader import SbatchStream
    from slurm_rl_plugin.accounting.swf.stream import SwfStream

    _Form = SacctStream | SbatchStream | SwfStream | PbsStream | PublishedStream


def convert(
    logs: Sequence[Path],
    output: Path,
    *,
    progress: Callable[[int], None] | None = None,
    batch: int = BATCH,
    part: int = PART,
) -> ReadReport:
    """Read logs as `log_format.read_log` does, and write their jobs as parquet.

    Args:
        logs: one log, several dumps of sacct or months of F-DATA that go together, or files and
            folders of PBS.
        output: the file to write; it appears whole or not at all.
        progress: is told how many stored bytes more are read.
        batch: bytes read at a time.
        part: jobs put in order at a time.

    Raises:
        AccountingLogError: a log is faulty, the logs do not go together, or the file cannot be
            written.
    """
    streams = [LogStream(path, batch=batch, progress=progress) for path in _files(logs)]
    form = _form(streams)
    try:
        with working_folder(output) as folder, StoredRuns(folder, part=part) as runs:
            report = _gather(form, streams, runs)
            if why := report.why_none_kept():
                others = f"with {len(streams) - 1} more logs " if len(streams) > 1 else ""
                raise AccountingLogError(streams[0].path, others + why)
            told = metadata(report, form.kind, form.processors_available)
            changes = form.finishing()
            del form  # what it remembers of 10 million records has 200 MB
            # whoever is killed meanwhile leaves one folder, which the next run removes
            runs.write(folder / "joined", told, changes)
            put_in_place(folder / "joined", output)
    except (OSError, PolarsError) as error:
        why = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        problem = f"the file cannot be written ({why}); check the folder"
        raise AccountingLogError(output, problem) from error
    return report


def _gather(form: _Form, streams: Sequence[LogStream], runs: StoredRuns) -> ReadReport:
    """Put all jobs of the logs by; what became of their records."""
    for stream in streams:
        for jobs in form.jobs(stream):
            runs.add(jobs)
    for jobs in form.rest():
        runs.add(jobs)
    return form.report(joined_checksum([each.checksum for each in streams]))


def _files(logs: Sequence[Path]) -> list[Path]:
    from slurm_rl_plugin.accounting.pbs.reader import is_empty  # noqa: PLC0415

    files = [file for log in logs for file in files_of(log)]
    # days on which nothing happened
    return [each for each in files if not (len(files) > 1 and is_empty(each))] or files[:1]


def _kind(stream: LogStream) -> str:
    if not is_parquet(stream.path):
        return kind_of(stream.head())
    if is_stored(stream.path):
        problem = "this parquet file is no F-DATA or PM100; what convert wrote is a LOG as it is"
        raise AccountingLogError(stream.path, problem)
    from slurm_rl_plugin.accounting.published.files import layout_of_parquet  # noqa: PLC0415

    layout = layout_of_parquet(stream.path)
    assert layout is not None
    return layout.kind


def _form(streams: Sequence[LogStream]) -> _Form:
    """The stream reader for the form that all of these logs have.

    Raises:
        AccountingLogError: they are of several forms, or each has an epoch of its own.
    """
    kinds = [_kind(stream) for stream in streams]
    for stream, kind in zip(streams, kinds, strict=True):
        if kind != kinds[0]:
            problem = f"this is a log of {kind}, the one before of {kinds[0]}; convert each alone"
            raise AccountingLogError(stream.path, problem)
    if kinds[0] == "sacct":
        from slurm_rl_plugin.accounting.sacct.stream import SacctStream  # noqa: PLC0415

        return SacctStream()
    if kinds[0] == "pbs":
        from slurm_rl_plugin.accounting.pbs.stream import PbsStream  # noqa: PLC0415

        return PbsStream()
    layout = LAYOUTS.get(kinds[0])
    if len(streams) > 1 and not (layout and layout.from_epoch):
        problem = "such logs count their seconds from a beginning of their own; convert one alone"
        raise AccountingLogError(streams[1].path, problem)
    if layout is not None:
        from slurm_rl_plugin.accounting.published.reader import PublishedStream  # noqa: PLC0415

        return PublishedStream(layout)
    if kinds[0] == "sbatch":
        from slurm_rl_plugin.accounting.sbatch.reader import SbatchStream  # noqa: PLC0415

        return SbatchStream()
    from slurm_rl_plugin.accounting.swf.stream import SwfStream  # noqa: PLC0415

    return SwfStream()
