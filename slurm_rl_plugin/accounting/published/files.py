"""Published files, csv or parquet, as batches of records of numbers, times and texts."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from slurm_rl_plugin.accounting.published.layouts import (
    PublishedLayout,
    layout_of,
)
from slurm_rl_plugin.errors import AccountingLogError
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: What csv files write where a table holds nothing.
_NOTHING = ("", "nan", "nat", "none", "null", "<na>")
#: Without its offset a time is taken as UTC.
_WITH_OFFSET, _WITHOUT = "%Y-%m-%d %H:%M:%S%.f%#z", "%Y-%m-%d %H:%M:%S%.f"
_MICROSECONDS = 1e6
#: Rows of a parquet file in memory at a time.
_ROWS = 1 << 18
#: Records of a csv file in memory at a time.
_RECORDS = 1 << 15
#: Characters of the longest field; a field of PM100 lists the power of all nodes at all times.
_LONGEST_FIELD = 1 << 28
#: What polars raises for a file that is broken.
_BROKEN = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)


@dataclass(frozen=True, slots=True)
class PublishedRows:
    """Some records of a file."""

    path: Path  #: of the file, for messages
    frame: pl.DataFrame  #: a column for each that is read; of csv all are texts
    place: IntArray  #: line of each record in a csv file, row in a parquet file, from 1; shape [n]
    unit: str  #: "line" or "row"

    def __len__(self) -> int:
        return self.frame.height

    def numbers(self, name: str, *, nothing: tuple[str, ...] = ()) -> FloatArray:
        """A column of numbers, shape [n]; NaN where it says nothing, or is not there.

        Words of `nothing` stand for no number too.
        """
        if name not in self.frame.columns:
            return np.full(len(self), np.nan)
        told = self._told(name, nothing)
        found = told.cast(pl.Float64, strict=False)
        unread = told.is_not_null() & (found.is_null() | found.is_infinite())
        self._refuse(name, unread.to_numpy(), "is no number")
        return found.fill_null(np.nan).to_numpy().copy()

    def times(self, name: str) -> FloatArray:
        """A column of times, seconds since the epoch, shape [n]; NaN where it says nothing."""
        if name not in self.frame.columns:
            return np.full(len(self), np.nan)
        column = self.frame[name]
        if not column.dtype.is_temporal():
            column = self._parsed_times(name)
        micro = column.cast(pl.Datetime("us", column.dtype.time_zone)).dt.epoch("us")  # type: ignore[attr-defined]
        return micro.cast(pl.Float64).fill_null(np.nan).to_numpy() / _MICROSECONDS

    def texts(self, name: str) -> pl.Series:
        """A column of texts; "" where it says nothing, or is not there."""
        if name not in self.frame.columns:
            return pl.Series(name, [""] * len(self), dtype=pl.String)
        return self._told(name).cast(pl.String).fill_null("")

    def numbers_in(self, name: str) -> IntArray:
        """The last number in each text, such as 7 in openb-pod-0007; the place where it has none.

        Shape [n].
        """
        found = self.texts(name).str.extract(r"(\d{1,18})\D*$").cast(pl.Int64)
        there: BoolArray = found.is_not_null().to_numpy()
        return np.where(there, found.fill_null(0).to_numpy(), self.place)

    def _told(self, name: str, nothing: tuple[str, ...] = ()) -> pl.Series:
        """A column with null where it says nothing; texts without spaces around them."""
        column = self.frame[name]
        if column.dtype in (pl.Categorical, pl.Enum):
            column = column.cast(pl.String)
        if column.dtype == pl.String:
            column = column.str.strip_chars()
            silent = column.str.to_lowercase().is_in([*_NOTHING, *nothing])
            return column.set(silent, None)
        if not (column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null)):
            problem = f"the column holds {column.dtype}, where numbers or texts belong"
            raise AccountingLogError(self.path, problem, field=name)
        return column.fill_nan(None) if column.dtype.is_float() else column

    def _parsed_times(self, name: str) -> pl.Series:
        told = self._told(name).cast(pl.String)
        plain = told.str.replace("T", " ", literal=True).str.replace(r"Z$", "+00:00")
        found = plain.str.to_datetime(_WITH_OFFSET, time_unit="us", strict=False)
        found = found.dt.replace_time_zone(None) if found.dtype.time_zone else found  # type: ignore[attr-defined]
        local = plain.str.to_datetime(_WITHOUT, time_unit="us", strict=False)
        found = pl.select(pl.coalesce(found, local)).to_series()
        unread = told.is_not_null() & found.is_null()
        self._refuse(name, unread.to_numpy(), "is no time, such as 2021-04-01 10:28:01+09")
        return found

    def _refuse(self, name: str, unread: BoolArray, problem: str) -> None:
        if not unread.any():
            return
        first = int(np.flatnonzero(unread)[0])
        value, place = self.frame[name][first], int(self.place[first])
        where = "" if self.unit == "line" else f" of row {place}"
        raise AccountingLogError(
            self.path,
            f"{value!r}{where} {problem}; mend it, or take the record out",
            line=place if self.unit == "line" else None,
            field=name,
        )


def layout_of_parquet(path: Path) -> PublishedLayout | None:
    """The layout of a parquet file; None for any other, and where it cannot be read."""
    try:
        return layout_of(pl.read_parquet_schema(path))
    except _BROKEN:
        return None


def rows_of_parquet(path: Path, layout: PublishedLayout) -> Iterator[PublishedRows]:
    """The records of a parquet file; other columns, some of them large, are not read."""
    try:
        rows = pl.scan_parquet(path)
        chosen = _chosen(path, layout, list(rows.collect_schema()), line=None)
        count = int(rows.select(pl.len()).collect().item())
        for first in range(0, max(count, 1), _ROWS):
            frame = rows.select(chosen).slice(first, _ROWS).collect()
            frame = frame.rename({name: layout.today(name) for name in chosen})
            yield PublishedRows(path, frame, np.arange(frame.height) + first + 1, "row")
    except _BROKEN as error:
        problem = f"the parquet file cannot be read ({str(error).splitlines()[0][:200]})"
        raise AccountingLogError(path, f"{problem}; copy it again") from None


def rows_of_csv(
    path: Path, layout: PublishedLayout, batches: Iterable[bytes]
) -> Iterator[PublishedRows]:
    """The records of a csv file by batches of whole lines; a quoted field may span several."""
    texts = (io.StringIO(data.decode(errors="replace"), newline="\n") for data in batches)
    records = _records(path, csv.reader(chain.from_iterable(texts), strict=True))
    head, columns = next(records)
    columns = [name.strip() for name in columns]
    chosen = _chosen(path, layout, columns, line=head)
    places = [columns.index(name) for name in chosen]
    while some := list(islice(records, _RECORDS)):
        fields = [[record[place] for place in places] for _, record in some]
        schema = dict.fromkeys(map(layout.today, chosen), pl.String)
        lines = np.array([line for line, _ in some])
        yield PublishedRows(path, pl.DataFrame(fields, schema, orient="row"), lines, "line")


def _records(path: Path, reader: Any) -> Iterator[tuple[int, list[str]]]:
    """The fields of each record of a csv file, and the line on which it begins."""
    csv.field_size_limit(_LONGEST_FIELD)
    begin = width = 0
    try:
        for record in reader:
            width = width or len(record)
            if record and len(record) != width:
                found = f"{len(record)} fields, and the header names {width}"
                raise AccountingLogError(path, f"{found}; mend the record", line=begin + 1)
            if record:
                yield begin + 1, record
            begin = reader.line_num
    except csv.Error:
        problem = "a quote or a carriage return is out of place; mend the record"
        raise AccountingLogError(path, problem, line=begin + 1) from None


def _chosen(
    path: Path, layout: PublishedLayout, columns: Sequence[str], *, line: int | None
) -> list[str]:
    today = {layout.today(name) for name in columns}
    for name in layout.needed:
        if name not in today:
            problem = f"{layout.title} has this column and the file lacks it; export it too"
            raise AccountingLogError(path, problem, line=line, field=name)
    wanted = {*layout.needed, *layout.taken}
    return [name for name in dict.fromkeys(columns) if layout.today(name) in wanted]
