"""Jobs that come in batches, gathered on disk and joined to one file in submit order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from slurm_rl_plugin.accounting.stored_log import COLUMNS

#: Rows of a group, the least that is read of a file.
GROUP = 1 << 16
#: Jobs of one part of the joined file, about; one part is in memory at a time.
PART = 1 << 20
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
        self._jobs = 0

    def add(self, jobs: pl.DataFrame) -> None:
        """Put a batch by; jobs of equal submit keep the order in which they come."""
        if not jobs.height:
            return
        places = pl.Series(_PLACE, np.arange(self._jobs, self._jobs + jobs.height))
        ordered = jobs.select(list(COLUMNS)).with_columns(places).sort("submit", maintain_order=True)
        path = self._folder / f"run-{len(self._runs):06}"
        ordered.write_parquet(path, compression="lz4", row_group_size=GROUP)
        submit = ordered["submit"].to_numpy()
        step = max(self._part // 64, 1)
        self._runs.append(_Run(path, submit[0], submit[-1], submit[::step], jobs.height))
        self._jobs += jobs.height

    def write(
        self,
        path: Path,
        metadata: dict[str, str],
        changes: Sequence[pl.Expr] = (),
        told: Callable[[int], None] = lambda jobs: None,
    ) -> None:
        """Join all batches into one file.

        Args:
            path: to write.
            metadata: of the file.
            changes: columns that only the whole log tells.
            told: is told how many jobs more are in order.
        """
        parts = [pl.scan_parquet(each) for each in self._ordered(told)]
        whole = pl.concat(parts) if parts else pl.DataFrame(schema=COLUMNS).lazy()
        rows = whole.with_columns(*changes).select(list(COLUMNS))
        rows.sink_parquet(path, row_group_size=GROUP, metadata=metadata)

    def _ordered(self, told: Callable[[int], None]) -> Iterator[Path]:
        """Files of jobs, each behind the one before it."""
        for number, runs in enumerate(_overlapping(self._runs)):
            if len(runs) == 1:
                told(runs[0].jobs)
                yield runs[0].path
                continue
            for turn, (begin, end) in enumerate(self._bounds(runs)):
                rows = [_between(each, begin, end) for each in runs if _meet(each, begin, end)]
                part = pl.concat(rows).collect().sort("submit", _PLACE)
                if not part.height:
                    continue
                path = self._folder / f"part-{number:06}-{turn:06}"
                part.write_parquet(path, compression="lz4", row_group_size=GROUP)
                told(part.height)
                yield path

    def _bounds(self, runs: list[_Run]) -> list[tuple[float, float]]:
        """Stretches of submit times that hold about `part` jobs each, all jobs together."""
        samples = np.sort(np.concatenate([each.sample for each in runs]))
        jobs = sum(each.jobs for each in runs)
        count = max(round(jobs / self._part), 1)
        cuts = np.unique(samples[np.linspace(0, len(samples) - 1, count + 1)[1:-1].astype(int)])
        edges = [-np.inf, *cuts.tolist(), np.inf]
        return list(zip(edges[:-1], edges[1:], strict=True))


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
