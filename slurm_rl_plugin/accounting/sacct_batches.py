"""Cuts a `sacct -P` dump into records batch by batch: plain rows all at once, others one by one.

A line that is a whole row begins a record and ends the one before it, so the lines between two such
rows are a piece of their own. Rows with a separator for each field and sound values are cut by
polars; every other line goes, with the row before it, through `sacct_records`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import polars as pl

from slurm_rl_plugin.accounting.sacct_layout import SEPARATOR, Layout
from slurm_rl_plugin.accounting.sacct_records import cut_records
from slurm_rl_plugin.accounting.sacct_values import sound_values
from slurm_rl_plugin.units import BoolArray, IntArray

_LINE_END, _RETURN = ord("\n"), ord("\r")


class Batch(NamedTuple):
    """Records, in any order.

    Attributes:
        fields: one column of text a field, named by its place.
        places: tell the order of the dump; shape [records].
        cut_off: records that are not whole.
    """

    fields: pl.DataFrame
    places: IntArray
    cut_off: int


class RecordCutter:
    """Cuts batches of lines one after the other; what is not finished waits for the next."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._rest = b""

    def cut(self, data: bytes, *, last: bool = False) -> Batch:
        """The records that end in these lines.

        Args:
            data: whole lines, following those of the last call.
            last: nothing follows.
        """
        # what waits is mended already: a second return before a line's end is a letter of the text
        lines = _Lines(self._rest + _mended(data), self._layout)
        begins = np.flatnonzero(lines.plain)
        done = lines.count if last else int(begins[-1]) if len(begins) else 0
        self._rest = lines.text(done, lines.count)
        # a plain row before a line that is none may go on in it
        alone = lines.plain[:done] & np.append(lines.plain[1:done], True)
        plain = np.flatnonzero(alone)
        others = self._one_by_one(lines, np.flatnonzero(~alone))
        fields = [lines.rows(plain), others.fields] if len(plain) else [others.fields]
        places = np.concatenate([plain, others.places]) if len(plain) else others.places
        return Batch(pl.concat(fields), places, others.cut_off)

    def _one_by_one(self, lines: _Lines, odd: IntArray) -> Batch:
        """The records in odd lines."""
        places: list[int] = []
        found: list[list[str]] = []
        cut_off = 0
        for first, after in _stretches(odd):
            texts = lines.text(first, after).decode().split("\n")
            for place, fields in enumerate(cut_records(texts, self._layout), start=first):
                if fields is None:
                    cut_off += 1
                else:
                    places.append(place)
                    found.append(fields)
        rows = pl.DataFrame(found, schema=lines.fields.schema, orient="row")
        return Batch(rows, np.array(places, dtype=np.int64), cut_off)


class _Lines:
    """Lines of a dump; `plain` are those that polars could cut, with sound values."""

    def __init__(self, data: bytes, layout: Layout) -> None:
        self._data = data if not data or data.endswith(b"\n") else data + b"\n"
        letters = np.frombuffer(self._data, dtype=np.uint8)
        self._ends = np.flatnonzero(letters == _LINE_END)
        self.count = len(self._ends)
        right = self._with_all_separators(letters, layout)
        self.fields = _cut_all(self._bytes_of(letters, right), layout)
        if self.fields.height != np.count_nonzero(right):  # never seen; then none is plain
            right[:] = False
            self.fields = self.fields.clear()
        sound = sound_values(self.fields, layout)
        self.plain: BoolArray = right.copy()
        self.plain[right] = sound
        self._rows = np.cumsum(right) - 1

    def text(self, first: int, after: int) -> bytes:
        """Lines from `first` until before `after`, with their ends."""
        if first >= after:
            return b""
        begin = self._ends[first - 1] + 1 if first else 0
        return self._data[begin : self._ends[after - 1] + 1]

    def rows(self, lines: IntArray) -> pl.DataFrame:
        """The fields of plain lines."""
        wanted = np.zeros(self.fields.height, dtype=np.bool_)
        wanted[self._rows[lines]] = True
        return self.fields.filter(wanted)

    def _with_all_separators(self, letters: np.ndarray, layout: Layout) -> BoolArray:
        marks = np.flatnonzero(letters == ord(SEPARATOR))
        counts = np.diff(np.searchsorted(marks, self._ends), prepend=0)
        right = counts == len(layout.names) - 1 + layout.trailing
        if layout.trailing and self.count:
            right &= letters[np.maximum(self._ends - 1, 0)] == ord(SEPARATOR)
        if b"\r" in self._data:  # polars would take one at a line's end for a part of that
            returns = np.searchsorted(np.flatnonzero(letters == _RETURN), self._ends)
            right &= np.diff(returns, prepend=0) == 0
        return np.asarray(right, dtype=np.bool_)

    def _bytes_of(self, letters: np.ndarray, lines: BoolArray) -> bytes:
        if lines.all():
            return self._data
        lengths = np.diff(self._ends, prepend=-1)
        return letters[np.repeat(lines, lengths)].tobytes()


def _cut_all(data: bytes, layout: Layout) -> pl.DataFrame:
    names = [str(place) for place in range(len(layout.names) + layout.trailing)]
    schema = dict.fromkeys(names, pl.String)
    if not data:
        return pl.DataFrame(schema=schema).select(names[: len(layout.names)])
    rows = pl.read_csv(
        data,
        has_header=False,
        schema=schema,
        separator=SEPARATOR,
        quote_char=None,
        empty_string_is_null=False,
    )
    return rows.select(names[: len(layout.names)])


def _mended(data: bytes) -> bytes:
    """As `sacct.SacctReader` decodes: line ends of Windows made plain, broken letters marked."""
    data = data.replace(b"\r\n", b"\n")
    return data if data.isascii() else data.decode("utf-8", errors="replace").encode()


def _stretches(lines: IntArray) -> Iterator[tuple[int, int]]:
    """First and one behind the last of each run of consecutive numbers."""
    if not len(lines):
        return
    breaks = np.flatnonzero(np.diff(lines) > 1)
    firsts = lines[np.append(0, breaks + 1)]
    lasts = lines[np.append(breaks, len(lines) - 1)]
    for first, final in zip(firsts.tolist(), lasts.tolist(), strict=True):
        yield first, final + 1
