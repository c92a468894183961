"""Forecasts that were given, kept in a file until their jobs have started, and to be scored."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.forecasts.forecast import LEVELS, Forecasts
from slurm_rl_plugin.forecasts.live.sources import SOURCES
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

_FORM = 1
_TABLES = """
create table if not exists given (
    job integer not null, moment real not null, partition text not null,
    kind integer not null, interactive integer not null, shown integer not null,
    sources blob not null, plain blob not null, forecast blob not null,
    start real, gone integer not null default 0,
    primary key (job, moment)) without rowid;
create index if not exists given_moment on given (moment);
create index if not exists given_open on given (job) where start is null and gone = 0;
"""
#: Forecasts that have come true which bands, weights and scores are made of at most, the newest.
_MOST = 10_000
_NUMBERS = np.dtype("<f4")
#: Seconds by which a start may be told earlier than a forecast was given: clocks and whole seconds.
_SAME_LIFE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenRows:
    """Forecasts as they are kept; arrays of shape [n].

    Attributes:
        job: the batch system's number.
        moment: when each was given, seconds since the epoch.
        partition: where the job waits.
        kind: class and horizon as one number, as bands are set apart.
        interactive: job class.
        shown: whether bands were shown, and not yet too little known.
        sources: log10 of the wait by each of SOURCES, nan where it said nothing, [n, sources].
        plain: before the bands were set.
        forecasts: as given.
        start: of the job, seconds since the epoch; nan while it waits.
        gone: the job left the queue and nobody saw it start.
    """

    job: IntArray
    moment: FloatArray
    partition: tuple[str, ...]
    kind: IntArray
    interactive: BoolArray
    shown: BoolArray
    sources: FloatArray
    plain: Forecasts
    forecasts: Forecasts
    start: FloatArray
    gone: BoolArray

    def __len__(self) -> int:
        """How many."""
        return len(self.job)

    @property
    def known(self) -> BoolArray:
        """Whose job has started, shape [n]."""
        return np.isfinite(self.start)

    def wait_by(self, now: float) -> FloatArray:
        """Seconds from each forecast to the start, or what it has been so far, shape [n]."""
        return np.where(self.known, self.start, now) - self.moment

    def as_known_at(self, now: float) -> GivenRows:
        """Those given before a time, with the starts that had happened by then."""
        before = self.moment < now
        places = np.flatnonzero(before)
        return GivenRows(
            job=self.job[before],
            moment=self.moment[before],
            partition=tuple(self.partition[each] for each in places.tolist()),
            kind=self.kind[before],
            interactive=self.interactive[before],
            shown=self.shown[before],
            sources=self.sources[before],
            plain=self.plain.select(before),
            forecasts=self.forecasts.select(before),
            start=np.where(self.start[before] <= now, self.start[before], np.nan),
            gone=self.gone[before],
        )


class KeptForecasts:
    """A file of forecasts; one process writes it, others may read. Any of its threads may ask."""

    def __init__(self, path: Path) -> None:
        """Open the file, which is made where there is none.

        Raises:
            ConfigurationError: it cannot be opened or written, or another release made it.
        """
        self._lock = threading.Lock()
        try:
            self._file = sqlite3.connect(path, timeout=10.0, check_same_thread=False)
            form = int(self._file.execute("pragma user_version").fetchone()[0])
            if form not in (0, _FORM):
                raise sqlite3.DatabaseError("made by another release")
            self._file.executescript(f"pragma journal_mode=wal; {_TABLES}")
            self._file.execute(f"pragma user_version={_FORM}")
            self._file.commit()
        except sqlite3.Error as error:
            raise ConfigurationError(
                f"[forecast] kept_file {path} cannot be used ({error}): move it away, or let this "
                "user write it and its folder."
            ) from None

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def keep(self, rows: GivenRows) -> None:
        """Add forecasts; one of the same job and moment is replaced."""
        logs = (rows.sources, rows.plain.logs, rows.forecasts.logs)
        texts = [each.astype(_NUMBERS) for each in logs]
        with self._lock, self._file:
            self._file.executemany(
                "insert or replace into given (job, moment, partition, kind, interactive, shown, "
                "sources, plain, forecast, start) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        int(rows.job[each]),
                        float(rows.moment[each]),
                        rows.partition[each],
                        int(rows.kind[each]),
                        int(rows.interactive[each]),
                        int(rows.shown[each]),
                        *(text[each].tobytes() for text in texts),
                        float(rows.start[each]) if rows.known[each] else None,
                    )
                    for each in range(len(rows))
                ],
            )

    def open_jobs(self) -> dict[int, float]:
        """Jobs whose start is not known, and when the last forecast of each was kept."""
        with self._lock:
            found = self._file.execute(
                "select job, max(moment) from given where start is null and gone = 0 group by job"
            ).fetchall()
        return {int(job): float(moment) for job, moment in found}

    def unsettled(self, since: float) -> set[int]:
        """Jobs of forecasts since a time whose start is not known, also those that have gone."""
        with self._lock:
            found = self._file.execute(
                "select distinct job from given where start is null and moment >= ?", (since,)
            ).fetchall()
        return {int(job) for (job,) in found}

    def settle(self, starts: Mapping[int, float], gone: set[int]) -> int:
        """Note which jobs have started, and which have left without anybody seeing it.

        Args:
            starts: job -> start, seconds since the epoch. A forecast given a minute later than
                that was of a later life of the job, and stays.
            gone: jobs that neither wait nor run.

        Returns:
            Forecasts that have come true by it.
        """
        with self._lock, self._file:
            done = self._file.executemany(
                "update given set start = ?, gone = 0 "
                "where job = ? and start is null and moment <= ?",
                [(start, job, start + _SAME_LIFE) for job, start in starts.items()],
            )
            count = max(done.rowcount, 0)
            self._file.executemany(
                "update given set gone = 1 where job = ? and start is null",
                [(job,) for job in gone],
            )
        return count

    def forget(self, before: float) -> None:
        """Drop what was given before a time, seconds since the epoch."""
        with self._lock, self._file:
            self._file.execute("delete from given where moment < ?", (before,))

    def rows(self, since: float, *, most: int = _MOST) -> GivenRows:
        """The newest forecasts since a time, in the order in which they were given.

        Args:
            since: seconds since the epoch.
            most: of those that have come true, and as many of the others: a long queue must not
                hide what is known.
        """
        found = []
        with self._lock:
            for is_open in (0, 1):
                found += self._file.execute(
                    "select job, moment, partition, kind, interactive, shown, sources, plain, "
                    "forecast, start, gone from given where moment >= ? and (start is null) = ? "
                    "order by moment desc, job desc limit ?",
                    (since, is_open, most),
                ).fetchall()
        found.sort(key=_turn)
        columns = list(zip(*found, strict=True)) if found else [()] * 11
        return GivenRows(
            job=np.array(columns[0], dtype=np.int64),
            moment=np.array(columns[1], dtype=np.float64),
            partition=tuple(columns[2]),
            kind=np.array(columns[3], dtype=np.int64),
            interactive=np.array(columns[4], dtype=np.bool_),
            shown=np.array(columns[5], dtype=np.bool_),
            sources=_numbers(columns[6], len(SOURCES)),
            plain=Forecasts.of_logs(_numbers(columns[7], len(LEVELS))),
            forecasts=Forecasts.of_logs(_numbers(columns[8], len(LEVELS))),
            start=np.array(
                [np.nan if each is None else each for each in columns[9]], dtype=np.float64
            ),
            gone=np.array(columns[10], dtype=np.bool_),
        )


def _turn(row: tuple[Any, ...]) -> tuple[float, int]:
    """A row of the file in the order of its moment, then of its job."""
    return row[1], row[0]


def _numbers(blobs: tuple[bytes, ...], width: int) -> FloatArray:
    numbers = np.frombuffer(b"".join(blobs), dtype=_NUMBERS).astype(np.float64)
    return numbers.reshape(len(blobs), width)
