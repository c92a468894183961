"""Cuts a `sacct -P` dump into records batch by batch: plain rows all at once, others one by one.

A line that is a whole row begins a record and ends the one before it, so the lines between two such
rows are a piece of their own. Rows with a separator for each field and sound values are cut by
polars; every other line goes, with the row before it, through `sacct.records`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import polars as pl

from slurm_rl_plugin.accounting.sacct.fields import SEPARATOR
from slurm_rl_plugin.accounting.sacct.layout import Layout
from slurm_rl_plugin.accounting.sacct.records import RecordsOfLines
from slurm_rl_plugin.accounting.sacct.values import sound_values, with_numbers
from slurm_rl_plugin.units import BoolArray, IntArray

_LINE_END, _RETURN = ord("\n"), ord("\r")


class Batch(NamedTuple):
    """Records, in any order.

    Attributes:
        fields: one column of text a field, named by its place, and those of `with_numbers`.
        places: tell the order of the dump; shape [records], not negative.
        lost: such numbers too, of lines that are no whole record, and why each is none.
        quoted: lines within the texts of jobs that look like records.
    """

    fields: pl.DataFrame
    places: IntArray
    lost: dict[int, str]
    quoted: int = 0


class RecordCutter:
    """Cuts batches of lines one after the other; what is not finished waits for the next."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._odd = RecordsOfLines(layout)
        self._rest = b""

    def cut(self, data: bytes, *, last: bool = False) -> Batch:
        """The records that end in these lines.

        Args:
            data: whole lines, following those of the last call.
            last: nothing follows.
        """
        # what waits is mended already: a second return before a line's end is a letter of the text
        lines = Lines(self._rest + mended(data), self._layout)
        done = lines.count if last else lines.last_plain()
        if not (last or done):
            return self._without_plain_rows(lines)
        self._rest = lines.text(done, lines.count)
        # a plain row before a line that begins none may go on in it
        alone = lines.plain[:done] & np.append(lines.begins[1:done], True)
        others = self._one_by_one(lines, np.flatnonzero(~alone))
        fields = pl.concat([lines.rows(alone), others.fields])
        places = np.concatenate([np.flatnonzero(alone) + 1, others.places])
        return Batch(fields, places, others.lost)

    def _without_plain_rows(self, lines: Lines) -> Batch:
        """What ends in lines of which any but the first may be more of the one before it."""
        found = list(self._odd.cut(lines.texts(0, lines.count), last=False))
        self._rest = lines.text(self._odd.position, lines.count)
        return lines.batch_of(enumerate(found))

    def _one_by_one(self, lines: Lines, odd: IntArray) -> Batch:
        """The records in odd lines, and the one that began before all lines."""
        found: list[tuple[int, list[str] | str]] = []
        if not (len(odd) and odd[0] == 0):
            found += enumerate(self._odd.cut([]))
        for first, after in _stretches(odd):
            # the one from before may be one more than there are lines
            started = 0 if first == 0 else first + 1
            found += enumerate(self._odd.cut(lines.texts(first, after)), start=started)
        return lines.batch_of(found)


class Lines:
    """Lines of a dump.

    Attributes:
        plain: those that polars could cut, with sound values; shape [lines].
        begins: those that surely begin a record, though it may be a broken one; shape [lines].
    """

    def __init__(self, data: bytes, layout: Layout) -> None:
        self._data = data if not data or data.endswith(b"\n") else data + b"\n"
        self._layout = layout
        letters = np.frombuffer(self._data, dtype=np.uint8)
        self._ends = np.flatnonzero(letters == _LINE_END)
        self.count = len(self._ends)
        fields = _cut_all(self._data, layout)
        if fields.height != self.count:  # never seen; then none is plain
            fields = pl.DataFrame([[""] * self.count] * fields.width, schema=fields.schema)
        lengths = fields.select(pl.sum_horizontal(pl.all().str.len_bytes().cast(pl.Int64)))
        whole = np.diff(self._ends, prepend=-1) - 1
        # beside what is in the fields: separators, and more behind one that is to spare
        beside = whole - lengths.to_series().to_numpy()
        if b"\r" in self._data:  # polars would take one at a line's end for a part of that
            beside[np.searchsorted(self._ends, np.flatnonzero(letters == _RETURN))] = -1
        right = beside == fields.width - 1
        if layout.trailing:
            right &= (fields.to_series(-1) == "").to_numpy()
        self._fields = with_numbers(fields.select(_names(len(layout.names))), layout)
        self.plain: BoolArray = sound_values(self._fields, layout, right)
        # a line as long as the header may be one: that ends no record, nor begins one
        others = (beside >= fields.width - 1) & (whole != len(layout.header.encode()))
        self.begins: BoolArray = self.plain | others

    def last_plain(self) -> int:
        """Number of the last plain line, or 0."""
        found = np.flatnonzero(self.plain)
        return int(found[-1]) if len(found) else 0

    def text(self, first: int, after: int) -> bytes:
        """Lines from `first` until before `after`, with their ends."""
        if first >= after:
            return b""
        begin = self._ends[first - 1] + 1 if first else 0
        return self._data[begin : self._ends[after - 1] + 1]

    def texts(self, first: int, after: int) -> list[str]:
        """The same lines one by one, without their ends."""
        return self.text(first, after).decode().split("\n")[:-1]

    def rows(self, wanted: BoolArray) -> pl.DataFrame:
        """The fields of plain lines among the first, with their numbers."""
        fields = self._fields.head(len(wanted))
        return fields if wanted.all() else fields.filter(wanted)

    def batch_of(self, found: Iterable[tuple[int, list[str] | str]]) -> Batch:
        """Records with their places, and why for lines that are none."""
        placed = list(found)
        whole = [(place, fields) for place, fields in placed if not isinstance(fields, str)]
        schema = dict.fromkeys(_names(len(self._layout.names)), pl.String)
        rows = pl.DataFrame([fields for _, fields in whole], schema=schema, orient="row")
        places = np.array([place for place, _ in whole], dtype=np.int64)
        lost = {place: each for place, each in placed if isinstance(each, str)}
        return Batch(with_numbers(rows, self._layout), places, lost)


def _names(count: int) -> list[str]:
    return [str(place) for place in range(count)]


def _cut_all(data: bytes, layout: Layout) -> pl.DataFrame:
    """The parts of lines, empty where one has fewer; those to spare are left out."""
    schema = dict.fromkeys(_names(len(layout.names) + layout.trailing), pl.String)
    if not data:
        return pl.DataFrame(schema=schema)
    return pl.read_csv(
        data,
        has_header=False,
        schema=schema,
        separator=SEPARATOR,
        quote_char=None,
        empty_string_is_null=False,
        truncate_ragged_lines=True,
        missing_columns="insert",
        extra_columns="ignore",
    )


def mended(data: bytes) -> bytes:
    """As `reader.plain_lines` decodes: line ends of Windows made plain, broken letters marked."""
    if b"\r" in data:
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
