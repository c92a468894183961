"""Jobs that come in batches, gathered on disk and joined to one file in submit order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Self

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from slurm_rl_plugin.accounting.log_stream import read_ahead
from slurm_rl_plugin.accounting.stored.log import COLUMNS
from slurm_rl_plugin.accounting.stored.requests import REQUESTS, with_requests
from slurm_rl_plugin.units import FloatArray, IntArray

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


@dataclass(frozen=True, slots=True)
class _Run:
    """Jobs of some batches in submit order.

    Attributes:
        path: of the file that holds them.
        first, last: submits between which all are.
        sample: submit and place of every so manieth job; shapes [samples].
        jobs: how many there are.
    """

    path: Path
    first: float
    last: float
    sample: tuple[FloatArray, IntArray]
    jobs: int


class StoredRuns:
    """A folder that fills with sorted runs of jobs.

    Args:
        folder: for them; it must exist and is the caller's to remove.
        part: jobs in memory at a time, in a run and when the runs are joined.
    """

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

        Args:
            jobs: columns as in `stored.log.COLUMNS`, those of `stored.requests` where the log
                tells of them, and `place` where their order is another.
        """
        told = [name for name in REQUESTS if name in jobs.columns]
        self._asks |= bool(told)
        if not jobs.height:
            return
        if _PLACE not in jobs.columns:
            jobs = jobs.with_columns(pl.Series(_PLACE, np.arange(jobs.height)))
        self._waiting.append(jobs.select(*COLUMNS, *told, pl.col(_PLACE) + self._places))
        self._places += int(jobs[_PLACE].max()) + 1  # type: ignore[arg-type]
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
        """Join all batches into one file.

        Args:
            path: to write.
            metadata: of the file.
            changes: columns that only the whole log tells.
        """
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
                rows = [_between(each, begin, end) for each in runs if _meet(each, begin, end)]
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


def _meet(run: _Run, begin: _Bound, end: _Bound) -> bool:
    return run.first <= end[0] and run.last >= begin[0]


def _between(run: _Run, begin: _Bound, end: _Bound) -> pl.LazyFrame:
    """Jobs of a run from one bound until before the other."""
    rows = pl.scan_parquet(run.path)
    submit, place = pl.col("submit"), pl.col(_PLACE)
    if run.last >= end[0]:
        rows = rows.filter((submit < end[0]) | ((submit == end[0]) & (place < end[1])))
    if run.first <= begin[0]:
        rows = rows.filter((submit > begin[0]) | ((submit == begin[0]) & (place >= begin[1])))
    return rows
