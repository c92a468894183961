"""Logs of any size become one parquet file, in memory that does not grow with their text.

Jobs come in batches and are stored in sorted runs in a file without a name, which a killed
conversion does not leave behind. The runs are then read by stretches of submissions, in order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import polars as pl
from polars.exceptions import PolarsError
from polars.io.plugins import register_io_source

from slurm_rl_plugin.accounting.log_file import BATCH, LogFile, read_ahead
from slurm_rl_plugin.accounting.log_format import files_of, reader_for
from slurm_rl_plugin.accounting.port import ReadReport, joined_checksum
from slurm_rl_plugin.accounting.stored.log import COLUMNS, REQUESTS, metadata, with_requests
from slurm_rl_plugin.errors import AccountingLogError
from slurm_rl_plugin.units import DAY
from slurm_rl_plugin.whole_file import remove_leftovers, replacing

#: Rows of a group, the least that is read of a file.
GROUP = 1 << 16
#: Jobs of a run and of a part of the joined file, about; one of them is in memory at a time.
PART = 1 << 18
#: Rows of a group of a run: parts of a log in no order read a little of each run.
_GROUP_OF_RUN = 1 << 15
#: Jobs of a part by which the stretches are chosen.
_SAMPLES = 128
#: Place of a job in the log; jobs of one submission keep its order.
_PLACE = "place"
#: Seconds after which a file that a killed conversion was writing is removed.
_LEFT_AFTER = DAY


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
        progress: called with the number of stored bytes that were read since the last call.
        batch: bytes read at a time.
        part: jobs put in order at a time.

    Raises:
        AccountingLogError: logs are faulty or do not go together, or the file cannot be written.
    """
    files = [LogFile(path, batch=batch, progress=progress) for path in files_of(logs)]
    reader = reader_for(files)
    try:
        with TemporaryFile(dir=output.parent) as file:
            if output.parent.stat().st_uid == os.geteuid():  # this user's own folder
                before = os.fstat(file.fileno()).st_mtime - _LEFT_AFTER
                remove_leftovers(output.parent, before, output.name)
            columns = store_runs(reader.batches(files), file, part // 2)
            report = reader.report(joined_checksum([each.checksum for each in files]))
            if why := report.why_none_kept():
                others = f"with {len(files) - 1} more logs " if len(files) > 1 else ""
                raise files[0].fault(others + why)
            described = metadata(report, reader.kind, reader.processors_available)
            changes = reader.finishing()
            del reader  # what it remembers of 10 million records has 200 MB
            parts = (each.with_columns(*changes) for each in read_ahead(parts_of(file, part)))
            with replacing(output) as joined:
                _sink(
                    parts,
                    columns,
                    joined,
                    compression="zstd",
                    compression_level=1,  # as small as others here, in two thirds of the time
                    row_group_size=GROUP,
                    metadata=described,
                )
    except (OSError, PolarsError) as error:
        why = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        problem = f"the file cannot be written ({why}); check the folder"
        raise AccountingLogError(output, problem) from error
    return report


def _sink(
    frames: Iterator[pl.DataFrame], schema: dict[str, Any], file: IO[bytes], **form: Any
) -> None:
    """Write frames as one parquet file."""

    def given(columns: list[str] | None, *_: object) -> Iterator[pl.DataFrame]:
        for frame in frames:
            yield frame.select(columns or list(schema))

    register_io_source(given, schema=schema, is_pure=True).sink_parquet(file, **form)


def store_runs(batches: Iterable[pl.DataFrame], file: IO[bytes], part: int) -> dict[str, Any]:
    """Store jobs, each `part` of them in submit order; names and types of the columns they have."""
    columns = COLUMNS

    def runs() -> Iterator[pl.DataFrame]:
        nonlocal columns
        waiting: list[pl.DataFrame] = []
        first = jobs = 0
        for batch in batches:
            if "resources" in batch.columns:
                columns = {**COLUMNS, **REQUESTS}
            waiting.append(with_requests(batch))
            jobs += batch.height
            if jobs >= part:
                run = _in_order(waiting, first)
                first, jobs, waiting = first + jobs, 0, []
                yield run
        if waiting:
            yield _in_order(waiting, first)

    schema = {**COLUMNS, **REQUESTS, _PLACE: pl.Int64}
    _sink(runs(), schema, file, compression="lz4", row_group_size=_GROUP_OF_RUN)
    file.flush()
    return columns


def _in_order(batches: list[pl.DataFrame], first: int) -> pl.DataFrame:
    place = pl.int_range(first, first + pl.len()).alias(_PLACE)
    return pl.concat(batches, how="diagonal").with_columns(place).sort("submit", _PLACE)


def parts_of(file: IO[bytes], part: int) -> Iterator[pl.DataFrame]:
    """All jobs of stored runs in order, about `part` at a time, with their places."""
    stored = pl.scan_parquet(f"/proc/self/fd/{file.fileno()}")
    submit, place = pl.col("submit"), pl.col(_PLACE)
    step = max(part // _SAMPLES, 1)
    sample = stored.select(submit, place).gather_every(step).collect().sort(submit, place)
    edges = sample.gather_every(part // step, offset=part // step).rows()
    for begin, end in pairwise([None, *edges, None]):
        rows = stored
        if begin is not None:
            rows = rows.filter(submit >= begin[0], (submit > begin[0]) | (place >= begin[1]))
        if end is not None:
            rows = rows.filter(submit <= end[0], (submit < end[0]) | (place < end[1]))
        yield rows.collect().sort(submit, place)
