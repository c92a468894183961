"""Logs of any size become one parquet file, in memory that does not grow with their text.

Jobs come in batches and are stored in sorted runs in files without names, which a killed
conversion does not leave behind. The runs are then read by stretches of submissions, in order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

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
    """Read logs as `log_format.read_log` does, and write their jobs as parquet, whole or not.

    They are one log, several dumps of sacct or months of F-DATA that go together, or files and
    folders of PBS. `progress` gets the number of stored bytes that were read since the last call;
    `batch` bytes are read and `part` jobs put in order at a time.

    Raises:
        AccountingLogError: logs are faulty or do not go together, or the file cannot be written.
    """
    files = [LogFile(path, batch=batch, progress=progress) for path in files_of(logs)]
    reader = reader_for(files)
    try:
        with ExitStack() as stored:
            file = stored.enter_context(TemporaryFile(dir=output.parent))  # refused now, not later
            if output.parent.stat().st_uid == os.geteuid():  # this user's own folder
                before = os.fstat(file.fileno()).st_mtime - _LEFT_AFTER
                remove_leftovers(output.parent, before, output.name)
            runs, columns = store_runs(reader.batches(files), output.parent, stored, part)
            report = reader.report(joined_checksum([each.checksum for each in files]))
            if why := report.why_none_kept():
                others = f"with {len(files) - 1} more logs " if len(files) > 1 else ""
                raise files[0].fault(others + why)
            described = metadata(report, reader.kind, reader.processors_available)
            changes = reader.finishing()
            del reader  # what it remembers of 10 million records has 200 MB
            parts = read_ahead(parts_of(runs, part))

            def given(names: list[str] | None, *_: object) -> Iterator[pl.DataFrame]:
                for each in parts:
                    yield each.with_columns(*changes).select(names or list(columns))

            with replacing(output) as joined:
                register_io_source(given, schema=columns, is_pure=True).sink_parquet(
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


def store_runs(
    batches: Iterable[pl.DataFrame], folder: Path, stored: ExitStack, part: int
) -> tuple[list[str], dict[str, Any]]:
    """Store jobs, each `part` of them in submit order; paths, and names and types of columns."""
    columns, paths = COLUMNS, list[str]()

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

    # Ctrl-C reaches a reader within a sink of polars twice, and polars may panic
    for run in runs():
        file = stored.enter_context(TemporaryFile(dir=folder))  # noqa: SIM115
        run.select(*COLUMNS, *REQUESTS, _PLACE).write_parquet(
            file, compression="lz4", row_group_size=_GROUP_OF_RUN
        )
        file.flush()
        paths.append(f"/proc/self/fd/{file.fileno()}")
    return paths, columns


def _in_order(batches: list[pl.DataFrame], first: int) -> pl.DataFrame:
    place = pl.int_range(first, first + pl.len()).alias(_PLACE)
    return pl.concat(batches, how="diagonal").with_columns(place).sort("submit", _PLACE)


def parts_of(runs: list[str], part: int) -> Iterator[pl.DataFrame]:
    """All jobs of stored runs in order, about `part` at a time, with their places."""
    stored = pl.scan_parquet(runs)
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
