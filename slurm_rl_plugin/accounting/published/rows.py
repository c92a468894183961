"""Records of a published file as columns of numbers, times and texts, and where each stands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from slurm_rl_plugin.errors import AccountingLogError
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: What csv files write where a table holds nothing.
_NOTHING = ("", "nan", "nat", "none", "null", "<na>")
#: Without its offset a time is taken as UTC.
_WITH_OFFSET, _WITHOUT = "%Y-%m-%d %H:%M:%S%.f%#z", "%Y-%m-%d %H:%M:%S%.f"
_MICROSECONDS = 1e6


@dataclass(frozen=True, slots=True)
class PublishedRows:
    """Some records of a file.

    Attributes:
        path: of the file, for messages.
        frame: a column for each that is read; of csv all are texts.
        place: line of each record in a csv file, number of its row in a parquet file, from 1;
            shape [n].
        unit: "line" or "row".
    """

    path: Path
    frame: pl.DataFrame
    place: IntArray
    unit: str

    def __len__(self) -> int:
        return self.frame.height

    def numbers(self, name: str, *, nothing: tuple[str, ...] = ()) -> FloatArray:
        """A column of numbers, shape [n]; NaN where it says nothing, or is not there.

        Args:
            name: of the column.
            nothing: further words that stand for no number.

        Raises:
            AccountingLogError: a value is no number.
        """
        if name not in self.frame.columns:
            return np.full(len(self), np.nan)
        told = self._told(name, nothing)
        found = told.cast(pl.Float64, strict=False)
        unread = told.is_not_null() & (found.is_null() | found.is_infinite())
        self._refuse(name, unread.to_numpy(), "is no number")
        return found.fill_null(np.nan).to_numpy().copy()

    def times(self, name: str) -> FloatArray:
        """A column of times, seconds since the epoch, shape [n]; NaN where it says nothing.

        Raises:
            AccountingLogError: a value is no time.
        """
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
        """Raise the error that blames the first value that could not be read."""
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
