"""Jobs that come in batches, gathered on disk and joined to one file in submit order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from slurm_rl_plugin.accounting.stored_log import COLUMNS

#: Rows of a group, the least that is read of a file.
GROUP = 1 << 16
#: Jobs of one part of the joined file, about; one part is in memory at a time.
PART = 1 << 19
_PLACE = "place"


@dataclass(frozen=True, slots=True)
class _Run:
    """Jobs of one batch in submit order; the times between which they were submitted."""

    path: Path
    first: float
    last: float
    sample: np.ndarray
    jobs: int


class StoredRuns:
    """A folder that fills with sorted batches.

    Args:
        folder: for them; it must exist and is the caller's to remove.
        part: jobs in memory at a time when the batches are joined.
    """

    def __init__(self, folder: Path, *, part: int = PART) -> None:
        self._folder = folder
        self._part = part
        self._runs: list[_Run] = []
        self._places = 0

    def add(self, jobs: pl.DataFrame) -> None:
        """Put a batch by; jobs of equal submit keep the order in which they come.

        Args:
            jobs: columns as in `stored_log.COLUMNS`, and `place` where their order is another.
        """
        if not jobs.height:
            return
        if _PLACE not in jobs.columns:
            jobs = jobs.with_columns(pl.Series(_PLACE, np.arange(jobs.height)))
        ordered = jobs.select(*COLUMNS, pl.col(_PLACE) + self._places).sort("submit", _PLACE)
        path = self._folder / f"run-{len(self._runs):06}"
        ordered.write_parquet(path, compression="lz4", row_group_size=GROUP)
        submit = ordered["submit"].to_numpy()
        step = max(self._part // 64, 1)
        self._runs.append(_Run(path, submit[0], submit[-1], submit[::step], jobs.height))
        self._places += int(jobs[_PLACE].max()) + 1  # type: ignore[arg-type]

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

        def parts(
            columns: list[str] | None, condition: object, most: object, size: object
        ) -> Iterator[pl.DataFrame]:
            del condition, most, size  # nothing is asked that would need them
            for part in self._ordered():
                yield part.with_columns(*changes).select(columns or list(COLUMNS))

        rows = register_io_source(parts, schema=COLUMNS, is_pure=True)
        rows.sink_parquet(path, row_group_size=GROUP, metadata=metadata)

    def _ordered(self) -> Iterator[pl.DataFrame]:
        """Jobs, each part behind the one before it."""
        for runs in _overlapping(self._runs):
            for begin, end in self._bounds(runs):
                rows = [_between(each, begin, end) for each in runs if _meet(each, begin, end)]
                part = pl.concat(rows).collect() if rows else pl.DataFrame()
                if part.height:
                    yield part.sort("submit", _PLACE)

    def _bounds(self, runs: list[_Run]) -> list[tuple[float, float]]:
        """Stretches of submit times that hold about `part` jobs each, all jobs together."""
        samples = np.sort(np.concatenate([each.sample for each in runs]))
        jobs = sum(each.jobs for each in runs)
        count = max(round(jobs / self._part), 1)
        cuts = np.unique(samples[np.linspace(0, len(samples) - 1, count + 1)[1:-1].astype(int)])
        edges = [-np.inf, *cuts.tolist(), np.inf]
        return list(pairwise(edges))


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


def _meet(run: _Run, begin: float, end: float) -> bool:
    return run.first < end and run.last >= begin


def _between(run: _Run, begin: float, end: float) -> pl.LazyFrame:
    submit = pl.col("submit")
    return pl.scan_parquet(run.path).filter((submit >= begin) & (submit < end))
