"""Forecasts that were given, kept in a file until their jobs have started, and to be scored."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slurm_rl_plugin.domain.resources import Rows
from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.forecasts.forecast import LEVELS, Forecasts
from slurm_rl_plugin.forecasts.live.sources import SOURCES
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray
from slurm_rl_plugin.whole_file import own_file

_FORM = 2
#: In `gone`: the job left the queue unseen; its user changed it, so its wait is no outcome.
_LEFT, _CHANGED = 1, 2
#: The lot of a forecast, below `_LOTS`, by its job and moment alone: the same at each draw, and
#: nothing that its wait has to do with. SQLite has no hash; the square mixes what comes evenly.
_LOTS = 2**31 - 1
_MIXED = f"((job % {_LOTS} * 48271 + cast(moment as integer) % {_LOTS} * 69621) % {_LOTS})"
_LOT = f"({_MIXED} * {_MIXED} % {_LOTS})"
_TABLES = f"""
create table if not exists given (
    job integer not null, moment real not null, partition text not null, user text not null,
    kind integer not null, interactive integer not null, shown integer not null,
    sources blob not null, plain blob not null, forecast blob not null,
    start real, gone integer not null default 0,
    primary key (job, moment)) without rowid;
create index if not exists given_moment on given (moment);
create index if not exists given_started on given (user, start) where start is not null;
create index if not exists given_open on given (job) where start is null and gone = 0;
create index if not exists lots_of_known on given ({_LOT}) where start is not null;
create index if not exists lots_of_others on given ({_LOT}) where start is null;
"""
#: Columns that are numbers or texts in the file too.
_PLAIN: Mapping[str, type] = {
    "job": np.int64,
    "moment": np.float64,
    "partition": np.str_,
    "user": np.str_,
    "kind": np.int64,
    "interactive": np.bool_,
    "shown": np.bool_,
}
_KEPT = f"{', '.join(_PLAIN)}, sources, plain, forecast, start"
_KEEP = f"insert or replace into given ({_KEPT}) values ({', '.join('?' * 11)})"  # noqa: S608
_DRAWS = tuple(
    f"select {_KEPT}, gone, {_LOT} from given indexed by {index} "  # noqa: S608 - constants
    f"where moment >= ? and start {is_known} order by {_LOT} limit ?"
    for index, is_known in (("lots_of_known", "is not null"), ("lots_of_others", "is null"))
)
_OPEN = "select job, max(moment) from given where start is null and gone = 0 group by job"
_UNSETTLED = "select distinct job from given where start is null and gone <> ? and moment >= ?"
#: Forecasts that have come true which bands, weights and scores are made of at most.
_MOST = 10_000
_STARTED = (
    f"select {_KEPT}, gone, 1.0, min(moment) from given "  # noqa: S608 - constants
    "where user = ? and start >= ? and shown group by job order by start desc limit ?"
)
_NUMBERS = np.dtype("<f4")
#: Seconds by which a start may precede its forecast: clocks differ, and seconds are whole.
_SAME_LIFE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenRows(Rows):
    """Forecasts as they are kept; arrays of shape [n]."""

    job: IntArray  #: the batch system's number
    moment: FloatArray  #: when each was given, seconds since the epoch
    partition: NDArray[np.str_]  #: where the job waits
    user: NDArray[np.str_]  #: its owner
    kind: IntArray  #: class and horizon as one number, as bands are set apart
    interactive: BoolArray  #: job class
    shown: BoolArray  #: whether bands were shown, and not yet too little known
    #: Log10 of the wait by each of SOURCES, nan where it said nothing, [n, sources].
    sources: FloatArray
    plain: Forecasts  #: before the bands were set
    forecasts: Forecasts  #: as given
    start: FloatArray  #: of the job, seconds since the epoch; nan while it waits
    #: The job left the queue and no look saw it start, or its user kept it from starting or changed
    #: its request.
    gone: BoolArray
    stands_for: FloatArray  #: forecasts that each represents, if not all were taken

    def __len__(self) -> int:
        """How many."""
        return len(self.job)

    @property
    def known(self) -> BoolArray:
        """Whose job has started, shape [n]."""
        return np.isfinite(self.start)

    @property
    def counts(self) -> FloatArray:
        """How much each counts where one that has come true counts 1, shape [n]."""
        known = self.stands_for[self.known]
        return self.stands_for / (known.mean() if len(known) else 1.0)

    def wait_by(self, now: float) -> FloatArray:
        """Seconds from each forecast to the start, or what it has been so far, shape [n]."""
        return np.where(self.known, self.start, now) - self.moment

    def as_known_at(self, now: float) -> GivenRows:
        """Those given before a time, with the starts that had happened by then."""
        before = self.select(self.moment < now)
        return replace(before, start=np.where(before.start <= now, before.start, np.nan))


class KeptForecasts:
    """A file of forecasts; one process writes it, others may read. Any of its threads may ask.

    Whatever is asked of it raises ConfigurationError where the file cannot be used any more: the
    disk is full, or another process keeps it locked.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, which is made where there is none."""
        self._lock, self._path = threading.Lock(), path
        try:
            os.close(own_file(path, os.O_RDWR | os.O_CREAT))  # SQLite would follow a link
            self._file = sqlite3.connect(path, timeout=10.0, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(getattr(error, "strerror", None) or error) from None
        with self._working() as file:
            form = int(file.execute("pragma user_version").fetchone()[0])
            if form not in (0, _FORM):
                raise sqlite3.DatabaseError("made by another release")
            file.executescript(f"pragma journal_mode=wal; {_TABLES}")
            file.execute(f"pragma user_version={_FORM}")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @contextmanager
    def _working(self) -> Iterator[sqlite3.Connection]:
        """The file for one thread at a time; what is done to it is done as a whole, or not."""
        try:
            with self._lock, self._file as file:
                yield file
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    def _unusable(self, why: object) -> ConfigurationError:
        return ConfigurationError(
            f"[forecast] kept_file {self._path} cannot be used ({why}): move it away, or let "
            "this user write it and its folder."
        )

    def keep(self, rows: GivenRows) -> None:
        """Add forecasts; one of the same job and moment is replaced."""
        columns = [getattr(rows, name).tolist() for name in _PLAIN]
        logs = (rows.sources, rows.plain.logs, rows.forecasts.logs)
        columns += [[row.tobytes() for row in each.astype(_NUMBERS)] for each in logs]
        columns.append([None if np.isnan(start) else start for start in rows.start.tolist()])
        with self._working() as file:
            file.executemany(_KEEP, zip(*columns, strict=True))

    def open_jobs(self) -> dict[int, float]:
        """Jobs whose start is not known, and when the last forecast of each was kept."""
        with self._working() as file:
            return dict(file.execute(_OPEN).fetchall())

    def unsettled(self, since: float) -> set[int]:
        """Jobs of forecasts since a time whose start may still become known."""
        with self._working() as file:
            return {int(job) for (job,) in file.execute(_UNSETTLED, (_CHANGED, since)).fetchall()}

    def settle(self, starts: Mapping[int, float], gone: set[int]) -> int:
        """Note which jobs have started and which have left unseen; how many forecasts came true.

        Starts are in seconds since the epoch. A forecast given a minute later than that was of a
        later life of the job, and stays.
        """
        with self._working() as file:
            done = file.executemany(
                "update given set start = ?, gone = 0 "
                "where job = ? and start is null and gone <> ? and moment <= ?",
                [(start, job, _CHANGED, start + _SAME_LIFE) for job, start in starts.items()],
            )
            count = max(done.rowcount, 0)
            file.executemany(
                "update given set gone = ? where job = ? and start is null and gone = 0",
                [(_LEFT, job) for job in gone],
            )
        return count

    def withdraw(self, jobs: set[int]) -> None:
        """Never score the forecasts so far of jobs that their users held or changed."""
        with self._working() as file:
            file.executemany(
                "update given set gone = ? where job = ? and start is null",
                [(_CHANGED, job) for job in jobs],
            )

    def forget(self, before: float) -> None:
        """Drop what was given before a time, seconds since the epoch."""
        with self._working() as file:
            file.execute("delete from given where moment < ?", (before,))

    def rows(self, since: float, *, most: int = _MOST) -> GivenRows:
        """Forecasts since a time, in the order in which they were given.

        Where there are more, some are drawn evenly from the whole time. The newest would be those
        of short waits: of two that were given together, the shorter one is known first. There are
        `most` of those that have come true, and of the others: a long queue must not hide them.
        """
        found: list[tuple[Any, ...]] = []
        with self._working() as file:
            for draw in _DRAWS:
                rows = file.execute(draw, (since, most + 1)).fetchall()
                # those of the lowest lots; its lot is replaced by how many rows each represents
                stands_for = _LOTS / max(rows[most][-1], 1) if len(rows) > most else 1.0
                found += [(*row[:-1], stands_for) for row in rows[:most]]
        return self._read(sorted(found, key=lambda row: (row[1], row[0])))

    def started_of(self, user: str, since: float, most: int) -> GivenRows:
        """First forecast of each job of a user that started since a time, the last start first."""
        with self._working() as file:
            found = file.execute(_STARTED, (user, since, most)).fetchall()
        return self._read(found)

    def _read(self, found: Sequence[tuple[Any, ...]]) -> GivenRows:
        try:
            rows = _given_rows(found)
        except (ValueError, TypeError, OverflowError):
            raise self._unusable("a forecast in it is damaged") from None
        if not all(np.isfinite(each.seconds).all() for each in (rows.plain, rows.forecasts)):
            raise self._unusable("a forecast in it is damaged")
        return rows


def _given_rows(found: Sequence[tuple[Any, ...]]) -> GivenRows:
    columns = list(zip(*found, strict=True)) if found else [()] * 13
    plain: dict[str, Any] = {
        name: np.array(column, dtype=kind)
        for (name, kind), column in zip(_PLAIN.items(), columns[:7], strict=True)
    }
    sources, *quantiles = (
        np.frombuffer(b"".join(blobs), dtype=_NUMBERS).astype(np.float64) for blobs in columns[7:10]
    )
    return GivenRows(
        **plain,
        sources=sources.reshape(-1, len(SOURCES)),
        plain=Forecasts.of_logs(quantiles[0].reshape(-1, len(LEVELS))),
        forecasts=Forecasts.of_logs(quantiles[1].reshape(-1, len(LEVELS))),
        start=np.array(columns[10], dtype=np.float64),  # nan where it has none
        gone=np.array(columns[11], dtype=np.bool_),
        stands_for=np.array(columns[12], dtype=np.float64),
    )
