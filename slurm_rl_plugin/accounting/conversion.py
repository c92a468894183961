"""Logs of any size become one parquet file, in memory that does not grow with their text.

Jobs come in batches, are gathered in sorted runs in a folder next to the file, and are joined in
submit order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Self

import numpy as np
import polars as pl
from polars.exceptions import PolarsError
from polars.io.plugins import register_io_source

from slurm_rl_plugin.accounting.log_file import BATCH, LogFile, read_ahead
from slurm_rl_plugin.accounting.log_format import files_of, reader_for
from slurm_rl_plugin.accounting.port import ReadReport, joined_checksum
from slurm_rl_plugin.accounting.stored.log import COLUMNS, REQUESTS, metadata, with_requests
from slurm_rl_plugin.errors import AccountingLogError
from slurm_rl_plugin.units import DAY, FloatArray, IntArray
from slurm_rl_plugin.whole_file import remove_leftovers, replacing

#: Rows of a group, the least that is read of a file.
GROUP = 1 << 16
#: Jobs of one part of the joined file, about; one part is in memory at a time.
PART = 1 << 18
_PLACE = "place"
#: Rows of a group of a run: parts of a log in no order read a little of each run.
_GROUP_OF_RUN = 1 << 15
#: Jobs of a run by which its cuts are chosen.
_SAMPLES = 128
#: Submit and place of a job.
_Bound = tuple[float, int]
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
        with TemporaryFile(dir=output.parent) as new:  # refused now where none can be made later
            if output.parent.stat().st_uid == os.geteuid():  # this user's own folder
                before = os.fstat(new.fileno()).st_mtime - _LEFT_AFTER
                remove_leftovers(output.parent, before, output.name)
        with StoredRuns(output.parent, part=part) as runs:
            for file in files:
                for jobs in reader.jobs(file):
                    runs.add(jobs)
            for jobs in reader.rest():
                runs.add(jobs)
            report = reader.report(joined_checksum([each.checksum for each in files]))
            if why := report.why_none_kept():
                others = f"with {len(files) - 1} more logs " if len(files) > 1 else ""
                raise files[0].fault(others + why)
            described = metadata(report, reader.kind, reader.processors_available)
            changes = reader.finishing()
            del reader  # what it remembers of 10 million records has 200 MB
            with replacing(output) as joined:
                runs.write(joined, described, changes)
    except (OSError, PolarsError) as error:
        why = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        problem = f"the file cannot be written ({why}); check the folder"
        raise AccountingLogError(output, problem) from error
    return report


@dataclass(frozen=True, slots=True)
class _Run:
    """Jobs of some batches in submit order."""

    path: str  #: of the file that holds them
    first: float  #: the earliest submit
    last: float  #: the latest
    sample: tuple[FloatArray, IntArray]  #: submit and place of some jobs; shapes [samples]
    jobs: int  #: how many there are


class StoredRuns:
    """Sorted runs of jobs in files without names in a folder; `part` jobs are in memory at a time.

    The system takes such files back whatever ends the process.
    """

    def __init__(self, folder: Path, *, part: int = PART) -> None:
        self._folder = folder
        self._part = part
        self._runs: list[_Run] = []
        self._places = 0
        self._waiting: list[pl.DataFrame] = []
        self._jobs = 0
        self._asks = False
        self._files = ExitStack()
        self._worker = ThreadPoolExecutor(max_workers=1)
        self._storing: Future[_Run] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        """Wait for what is being written, and give the room back."""
        self._worker.shutdown()
        self._files.close()

    def add(self, jobs: pl.DataFrame) -> None:
        """Put a batch by; jobs of equal submit keep the order in which they come.

        Columns are those of `stored.log.COLUMNS`, and of REQUESTS if the log has them.
        """
        requested = [name for name in REQUESTS if name in jobs.columns]
        self._asks |= bool(requested)
        if not jobs.height:
            return
        place = pl.int_range(self._places, self._places + jobs.height).alias(_PLACE)
        self._waiting.append(jobs.select(*COLUMNS, *requested, place))
        self._places += jobs.height
        self._jobs += jobs.height
        if self._jobs >= self._part:
            self._store()

    def _store(self) -> None:
        """Have what waits written as one run, while the caller goes on; one run at a time."""
        self._stored()
        file = self._files.enter_context(TemporaryFile(dir=self._folder))  # noqa: SIM115
        self._storing = self._worker.submit(_stored_run, self._waiting, file)
        self._waiting, self._jobs = [], 0

    def _stored(self) -> None:
        """Wait for the run that is being written."""
        if self._storing is not None:
            self._runs.append(self._storing.result())
            self._storing = None

    def write(
        self,
        file: IO[bytes],
        metadata: dict[str, str],
        changes: Sequence[pl.Expr] = (),
    ) -> None:
        """Join all batches into one file, with the changes that need the whole log."""
        schema = {**COLUMNS, **REQUESTS} if self._asks else COLUMNS

        def changed(
            columns: list[str] | None, condition: object, most: object, size: object
        ) -> Iterator[pl.DataFrame]:
            del condition, most, size  # nothing is asked that would need them
            for part in read_ahead(self.parts()):
                yield part.with_columns(*changes).select(columns or list(schema))

        rows = register_io_source(changed, schema=schema, is_pure=True)
        rows.sink_parquet(
            file,
            compression="zstd",
            compression_level=1,  # as small as others here, in two thirds of the time
            row_group_size=GROUP,
            metadata=metadata,
        )

    def parts(self) -> Iterator[pl.DataFrame]:
        """All jobs in order, about `part` at a time, with their places."""
        if self._jobs:
            self._store()
        self._stored()
        for runs in _overlapping(self._runs):
            for begin, end in self._bounds(runs):
                meet = [each for each in runs if each.first <= end[0] and each.last >= begin[0]]
                rows = [_between(each, begin, end) for each in meet]
                part = pl.concat(rows, how="diagonal").collect() if rows else pl.DataFrame()
                if part.height:
                    ordered = part.sort("submit", _PLACE)
                    yield with_requests(ordered) if self._asks else ordered

    def _bounds(self, runs: list[_Run]) -> list[tuple[_Bound, _Bound]]:
        """Stretches that hold about `part` jobs each, all jobs together."""
        submits = np.concatenate([run.sample[0] for run in runs])
        places = np.concatenate([run.sample[1] for run in runs])
        count = max(round(sum(each.jobs for each in runs) / self._part), 1)
        order = np.lexsort((places, submits))
        cuts = np.unique(order[np.linspace(0, len(order) - 1, count + 1)[1:-1].astype(int)])
        edges = sorted(zip(submits[cuts].tolist(), places[cuts].tolist(), strict=True))
        return list(pairwise([(-np.inf, -1), *edges, (np.inf, -1)]))


def _stored_run(batches: list[pl.DataFrame], file: IO[bytes]) -> _Run:
    ordered = pl.concat(batches, how="diagonal").sort("submit", _PLACE)
    ordered.write_parquet(file, compression="lz4", row_group_size=_GROUP_OF_RUN)
    file.flush()
    submit, place = (ordered[name].to_numpy() for name in ("submit", _PLACE))
    step = max(len(submit) // _SAMPLES, 1)
    sample = submit[::step].copy(), place[::step].copy()
    path = f"/proc/self/fd/{file.fileno()}"
    return _Run(path, submit[0], submit[-1], sample, len(submit))


def _overlapping(runs: list[_Run]) -> Iterator[list[_Run]]:
    """Runs that must be sorted together, the earliest first."""
    together: list[_Run] = []
    last = -np.inf
    for run in sorted(runs, key=lambda each: (each.first, each.last)):
        if together and run.first > last:
            yield together
            together = []
        together.append(run)
        last = max(last, run.last) if len(together) > 1 else run.last
    if together:
        yield together


def _between(run: _Run, begin: _Bound, end: _Bound) -> pl.LazyFrame:
    """Jobs of a run from one bound until before the other."""
    rows = pl.scan_parquet(run.path)
    submit, place = pl.col("submit"), pl.col(_PLACE)
    if run.last >= end[0]:
        rows = rows.filter((submit < end[0]) | ((submit == end[0]) & (place < end[1])))
    if run.first <= begin[0]:
        rows = rows.filter((submit > begin[0]) | ((submit == begin[0]) & (place >= begin[1])))
    return rows
