"""Logs of any size become one parquet file, in memory that does not grow with their text.

Jobs come in batches, are gathered in sorted runs in a folder beside the file, and are joined in
submit order.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
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
from slurm_rl_plugin.units import FloatArray, IntArray
from slurm_rl_plugin.whole_file import own_file, put_in_place

#: Rows of a group, the least that is read of a file.
GROUP = 1 << 16
#: Jobs of one part of the joined file, about; one part is in memory at a time.
PART = 1 << 18
_PLACE = "place"
#: Rows of a group of a run: parts of a log in no order read a little of each run.
_GROUP_OF_RUN = 1 << 15
#: So many jobs of a run tell where it may be cut.
_SAMPLES = 128
#: Submit and place of a job.
_Bound = tuple[float, int]
_ENDING = ".work"
#: Tells whose the folder is: locked as long as that process lives, its host's name inside.
_OWNER = "owner"
#: Letters of a host's name at most.
_LONGEST_NAME = 256


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
        with working_folder(output) as folder, StoredRuns(folder, part=part) as runs:
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
            # a run that is killed here leaves one folder, which the next run removes
            runs.write(folder / "joined", described, changes)
            put_in_place(folder / "joined", output)
    except (OSError, PolarsError) as error:
        why = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        problem = f"the file cannot be written ({why}); check the folder"
        raise AccountingLogError(output, problem) from error
    return report


@dataclass(frozen=True, slots=True)
class _Run:
    """Jobs of some batches in submit order."""

    path: Path  #: of the file that holds them
    first: float  #: the earliest submit
    last: float  #: the latest
    #: Submit and place of every so manieth job; shapes [samples].
    sample: tuple[FloatArray, IntArray]
    jobs: int  #: how many there are


class StoredRuns:
    """A folder that fills with sorted runs of jobs, of which `part` are in memory at a time."""

    def __init__(self, folder: Path, *, part: int = PART) -> None:
        self._folder = folder
        self._part = part
        self._runs: list[_Run] = []
        self._places = 0
        self._waiting: list[pl.DataFrame] = []
        self._jobs = 0
        self._asks = False
        self._worker = ThreadPoolExecutor(max_workers=1)
        self._storing: Future[_Run] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        """Wait for what is being written, so that the folder may be removed."""
        self._worker.shutdown()

    def add(self, jobs: pl.DataFrame) -> None:
        """Put a batch by; jobs of equal submit keep the order in which they come.

        Columns are those of `stored.log.COLUMNS`, and of REQUESTS where the log tells of them.
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
        path = self._folder / f"run-{len(self._runs):06}"
        self._storing = self._worker.submit(_stored_run, self._waiting, path)
        self._waiting, self._jobs = [], 0

    def _stored(self) -> None:
        """Wait for the run that is being written."""
        if self._storing is not None:
            self._runs.append(self._storing.result())
            self._storing = None

    def write(
        self,
        path: Path,
        metadata: dict[str, str],
        changes: Sequence[pl.Expr] = (),
    ) -> None:
        """Join all batches into one file, with the changes that only the whole log tells."""
        schema = {**COLUMNS, **REQUESTS} if self._asks else COLUMNS

        def changed(
            columns: list[str] | None, condition: object, most: object, size: object
        ) -> Iterator[pl.DataFrame]:
            del condition, most, size  # nothing is asked that would need them
            for part in read_ahead(self.parts()):
                yield part.with_columns(*changes).select(columns or list(schema))

        rows = register_io_source(changed, schema=schema, is_pure=True)
        rows.sink_parquet(
            path,
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


def _stored_run(batches: list[pl.DataFrame], path: Path) -> _Run:
    ordered = pl.concat(batches, how="diagonal").sort("submit", _PLACE)
    ordered.write_parquet(path, compression="lz4", row_group_size=_GROUP_OF_RUN)
    submit, place = (ordered[name].to_numpy() for name in ("submit", _PLACE))
    step = max(len(submit) // _SAMPLES, 1)
    sample = submit[::step].copy(), place[::step].copy()
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


@contextmanager
def working_folder(output: Path) -> Iterator[Path]:
    """A new folder beside `output`, removed with the files in it when the block ends.

    Those of the same output whose process was killed are removed first.
    """
    for each in _of(output):
        _remove_if_left(each)
    folder = Path(tempfile.mkdtemp(prefix=f".{output.name}.", suffix=_ENDING, dir=output.parent))
    with ExitStack() as stack:
        stack.callback(_remove, folder)
        opened = own_file(folder / _OWNER, os.O_RDWR | os.O_CREAT)
        owner = stack.enter_context(os.fdopen(opened, "w"))
        # where files cannot be locked nobody can tell, so the folder stays without a name in it
        with suppress(OSError):
            _lock(owner)
            owner.write(socket.gethostname())
            owner.flush()
        yield folder


def _of(output: Path) -> list[Path]:
    """Such folders of this user: root must not follow a link of another user."""
    pattern = re.compile(rf"\.{re.escape(output.name)}\.\w{{8}}{re.escape(_ENDING)}")
    ours: list[Path] = []
    for each in output.parent.iterdir():
        with suppress(OSError):
            if pattern.fullmatch(each.name) and stat.S_ISDIR((found := each.lstat()).st_mode):
                ours += [each] * (found.st_uid == os.geteuid())
    return ours


def _remove_if_left(folder: Path) -> None:
    """Remove a folder, unless its process may live: here, on another host, or nobody can tell."""
    with (
        suppress(OSError),
        os.fdopen(own_file(folder / _OWNER, os.O_RDWR), "r+", errors="replace") as owner,
    ):
        if owner.read(_LONGEST_NAME) == socket.gethostname():
            _lock(owner)
            _remove(folder)


def _lock(file: IO[str]) -> None:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _remove(folder: Path) -> None:
    """Remove a folder and its files; one in which a folder stands is none that we made."""
    with suppress(OSError):
        # the name of the owner last: a run that is killed before leaves what the next one knows
        files = sorted(folder.iterdir(), key=lambda file: file.name == _OWNER)
        if any(each.is_dir() for each in files):
            return
        for each in files:
            each.unlink()
        folder.rmdir()
