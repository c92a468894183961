"""Cuts a `sacct -P` dump into records, batch by batch.

MarkedCutter cuts a dump whose times bear a mark: no text of a job can forge a record in it.
RecordCutter cuts any other by how its values look. There a line that is a whole row begins a record
and ends the one before it, so the lines between two such rows are a piece of their own. Rows with a
separator for each field and sound values are cut by polars; every other line goes, with the row
before it, through RecordsOfLines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slurm_rl_plugin.accounting.sacct.fields import (
    CUT_OFF,
    FREE_TEXT,
    MARKED_TIME,
    SEPARATOR,
    Layout,
)
from slurm_rl_plugin.errors import AccountingLogError
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray

#: A record of more lines than this is taken as broken.
MOST_LINES = 50
#: Bytes of a record at most; `max_submit_line_size` of Slurm is 1 MiB.
LONGEST_RECORD = 4 << 20
_BAR = SEPARATOR.encode()


class RecordsOfLines:
    """Cuts stretches of lines one after the other; what follows a stretch may still be part of it.

    A line that neither is nor begins a record goes on the last field of the record before it, if
    that is free text, or is the rest of one that is cut off.

    Attributes:
        position: lines of the last stretch before it are done; those from it on belong before the
            next stretch.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._held: list[str] | str | None = None
        self.position = 0
        # Every line of a broken stretch is asked about up to MOST_LINES times.
        self._is_row = lru_cache(maxsize=2 * MOST_LINES)(lambda line: layout.cut(line) is not None)

    def cut(self, lines: Sequence[str], *, last: bool = True) -> Iterator[list[str] | str]:
        """Yield the fields of each record that ends here, and of a broken one why it is none."""
        layout, self.position = self._layout, 0
        # What a line is may depend on this number of lines after it.
        until = len(lines) if last else len(lines) - MOST_LINES
        while self.position < until:
            line = lines[self.position]
            fields, used = _next_record(lines, self.position, layout, self._is_row)
            self.position += used
            if fields is None and self._belongs_to_held(line):
                continue
            if self._held is not None:
                yield self._held
            self._held = layout.why_no_record(line) if fields is None else fields
        if last and self._held is not None:
            yield self._held
            self._held = None

    def _belongs_to_held(self, line: str) -> bool:
        """Whether a line that is no record is none of its own; puts it to the one before it."""
        if not line.strip() or line == self._layout.header:
            return True
        if self._held is None or self._layout.begins_record(line):
            return False
        if isinstance(self._held, str):
            return True
        layout = self._layout
        if layout.trailing or len(layout.names) - 1 not in layout.free or layout.ends_record(line):
            return False
        if self._held[-1].count("\n") >= MOST_LINES - 1:
            return False
        self._held[-1] += "\n" + line
        return True


def _next_record(
    lines: Sequence[str], position: int, layout: Layout, is_row: Callable[[str], bool]
) -> tuple[list[str] | None, int]:
    """Return the record that begins here, if any, and the number of lines it takes."""
    text = lines[position]
    fields = layout.cut(text)
    if fields is not None or not layout.may_go_on(text):
        return fields, 1
    for last in range(position + 1, min(position + MOST_LINES, len(lines))):
        if lines[last] == layout.header or is_row(lines[last]):
            break
        text = f"{text}\n{lines[last]}"
        fields = layout.cut(text)
        if fields is not None:
            return fields, last + 1 - position
    return None, 1


class Batch(NamedTuple):
    """Records, in any order."""

    fields: pl.DataFrame  #: a column of text a field, named by its place
    places: IntArray  #: the order of the dump; shape [records], not negative
    lost: dict[int, str]  #: places of lines that are no whole record -> why each is none
    quoted: int = 0  #: lines within the texts of jobs that look like records


class RecordCutter:
    """Cuts batches of lines one after the other; what is not finished waits for the next."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._bars = len(layout.names) - 1 + layout.trailing
        self._header = layout.header.encode()
        self._odd = RecordsOfLines(layout)
        self._rest: list[bytes] = []

    def cut(self, data: bytes, *, last: bool = False) -> Batch:
        """The records that end in these whole lines, which follow those of the last call."""
        # what waits is mended already: a second return before a line's end is a letter of the text
        lines = self._rest + mended(data).removesuffix(b"\n").split(b"\n") * bool(data)
        bars = np.array([-1 if b"\r" in line else line.count(_BAR) for line in lines], np.int64)
        ends = _BAR if self._layout.trailing else b""
        right = (bars == self._bars) & _of_lines(lines, lambda line: line.endswith(ends))
        fields, sound = cut_rows([lines[i] for i in np.flatnonzero(right)], self._layout)
        plain = right.copy()
        plain[right] = sound
        done = len(lines) if last else int(np.max(np.flatnonzero(plain), initial=0))
        if not (last or done):  # any line but the first may be more of the one before it
            found = list(self._odd.cut(_texts(lines), last=False))
            self._rest = lines[self._odd.position :]
            return _batch_of(enumerate(found), self._layout)
        self._rest = lines[done:]
        # these surely begin a record, though it may be a broken one
        begins = (bars >= self._bars) & _of_lines(lines, lambda line: line != self._header)
        # a plain row before a line that begins none may go on in it
        alone = plain[:done] & np.append(begins[1:done], True)
        others = self._one_by_one(lines, np.flatnonzero(~alone))
        kept = np.append(alone, np.zeros(len(lines) - done, dtype=np.bool_))[right]
        places = np.concatenate([np.flatnonzero(alone) + 1, others.places])
        return Batch(pl.concat([fields.filter(kept), others.fields]), places, others.lost)

    def _one_by_one(self, lines: Sequence[bytes], odd: IntArray) -> Batch:
        """The records in odd lines, and the one that began before all lines."""
        found: list[tuple[int, list[str] | str]] = []
        if not (len(odd) and odd[0] == 0):
            found += enumerate(self._odd.cut([]))
        # each run of consecutive lines
        for run in np.split(odd, np.flatnonzero(np.diff(odd) > 1) + 1) if len(odd) else ():
            first, after = int(run[0]), int(run[-1]) + 1
            # the one from before may be one more than there are lines
            started = 0 if first == 0 else first + 1
            found += enumerate(self._odd.cut(_texts(lines[first:after])), start=started)
        return _batch_of(found, self._layout)


def cut_rows(lines: Sequence[bytes], layout: Layout) -> tuple[pl.DataFrame, BoolArray]:
    """The fields of lines with a separator for each, and which lines are sound."""
    schema = dict.fromkeys(_names(len(layout.names) + layout.trailing), pl.String)
    fields = pl.DataFrame(schema=schema)
    if lines:
        fields = pl.read_csv(
            b"\n".join(lines),
            has_header=False,
            schema=schema,
            separator=SEPARATOR,
            quote_char=None,
            empty_string_is_null=False,
        )
    fields = fields.select(_names(len(layout.names)))
    return fields, sound_rows(fields, layout)


def _of_lines(lines: Sequence[bytes], holds: Callable[[bytes], bool]) -> BoolArray:
    return np.array([holds(line) for line in lines], dtype=np.bool_)


def _texts(lines: Sequence[bytes]) -> list[str]:
    return [line.decode() for line in lines]


def _batch_of(found: Iterable[tuple[int, list[str] | str]], layout: Layout) -> Batch:
    placed = list(found)
    whole = [(place, fields) for place, fields in placed if not isinstance(fields, str)]
    schema = dict.fromkeys(_names(len(layout.names)), pl.String)
    rows = pl.DataFrame([fields for _, fields in whole], schema=schema, orient="row")
    places = np.array([place for place, _ in whole], dtype=np.int64)
    lost = {place: each for place, each in placed if isinstance(each, str)}
    return Batch(rows, places, lost)


def _names(count: int) -> list[str]:
    return [str(place) for place in range(count)]


def mended(data: bytes) -> bytes:
    """As `reader.plain_lines` decodes: line ends of Windows made plain, broken letters marked."""
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
    return data if data.isascii() else data.decode("utf-8", errors="replace").encode()


def mark_of(names: Sequence[str], line: str) -> str:
    """The mark of a dump by the names of its header and its first record; "" for none."""
    found = MARKED_TIME.fullmatch(line.partition(SEPARATOR)[0])
    return found[1] if found is not None and _typed_fields(names) else ""


def _typed_fields(names: Sequence[str]) -> int:
    """How many fields come before all texts of users; 0 if marks do not separate the texts.

    Texts come last. Behind the first one the submission, with its mark, is in front of each.
    """
    first = next((i for i, name in enumerate(names) if name in FREE_TEXT), len(names))
    wanted = ["submit" if i % 2 else None for i in range(len(names) - first)]
    fits = all(
        name == frame if frame else name in FREE_TEXT
        for name, frame in zip(names[first:], wanted, strict=True)
    )
    return first if names[0] == "submit" and fits and (len(names) - first) % 2 else 0


class MarkedCutter:
    """Cuts batches of lines one after the other; the last record waits for what follows it.

    The maker of such a dump draws the mark when `sacct` starts, and hands it over where no other
    user sees it (`fields.marked_format`). Every text in the dump was stored before or by users who
    do not know the mark, so a line that begins with the mark begins a record, and no other does.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._mark = layout.mark.encode()
        self._begin = b"\n" + self._mark
        self._bars = len(layout.names) - 1
        self._typed = _typed_fields(layout.names)
        self._rest = b""

    def cut(self, data: bytes, *, last: bool = False) -> Batch:
        """As `RecordCutter.cut`."""
        # the header precedes the first mark
        records = (b"\n" + self._rest + mended(data)).split(self._begin)[1:]
        if any(len(record) > LONGEST_RECORD for record in records):
            raise AccountingLogError(
                "sacct",
                f"a record is longer than {LONGEST_RECORD >> 20} MiB; where several dumps were "
                "joined to this file, give each as a file of its own",
            )
        self._rest = self._mark + records.pop() if records and not last else b""
        lines: list[bytes] = []
        places: list[int] = []
        odd: list[tuple[int, list[str] | str]] = []
        quoted = 0
        for place, record in enumerate(records):
            line = record.removesuffix(b"\n")
            if line.count(_BAR) == self._bars and b"\n" not in line and b"\r" not in line:
                lines.append(line.replace(self._mark, b""))
                places.append(place)
            else:
                odd.append((place, self._fields(line.decode())))
                quoted += sum(each.count(_BAR) >= self._bars for each in line.split(b"\n")[1:])
        rows, sound = cut_rows(lines, self._layout)
        others = _batch_of(odd, self._layout)
        faulty = np.flatnonzero(~sound).tolist()
        lost = {places[i]: self._layout.why_no_record(lines[i].decode()) for i in faulty}
        fields = pl.concat([rows.filter(sound), others.fields])
        found = np.concatenate([np.array(places, dtype=np.int64)[sound], others.places])
        return Batch(fields, found, lost | others.lost, quoted)

    def _fields(self, record: str) -> list[str] | str:
        """The fields of a record with bars or line breaks in its texts, or why it is none."""
        *typed, rest = record.split(SEPARATOR, self._typed)
        fields = [each.replace(self._layout.mark, "") for each in typed]
        for i, text in enumerate(rest.split(SEPARATOR + self._layout.mark)):
            fields += text.split(SEPARATOR, 1) if i else [text]
        if len(typed) != self._typed or len(fields) != self._bars + 1:
            return CUT_OFF
        for place, pattern in self._layout.strict:
            if not pattern.fullmatch(fields[place]):
                return f"unreadable {self._layout.names[place]}"
        return fields


_LOCAL_TIME = "%Y-%m-%dT%H:%M:%S"


def sound_rows(fields: pl.DataFrame, layout: Layout) -> BoolArray:
    """Which of these rows hold in every strict field what its pattern wants."""
    fits = [pl.col(str(i)).str.contains(f"^(?:{each.pattern})$") for i, each in layout.strict]
    return fields.select(pl.all_horizontal(fits)).to_series().to_numpy()


def of_each(texts: pl.Series, meaning: Callable[[str], object], kind: type) -> np.ndarray:
    """What a function says of each text; asked once for each distinct one."""
    distinct = texts.unique()
    given: NDArray[Any] = np.array([meaning(text) for text in distinct.to_list()], dtype=kind)
    return given[texts.replace_strict(distinct, np.arange(len(distinct)), return_dtype=pl.UInt32)]


def counts(texts: pl.Series) -> FloatArray:
    """Sound whole numbers; NaN for words and nothing; shape [n]."""
    return texts.cast(pl.Int64, strict=False).cast(pl.Float64).fill_null(np.nan).to_numpy()


def times(texts: pl.Series) -> FloatArray:
    """Seconds since the epoch of sound times (local ones are taken as UTC); NaN for none."""
    seconds = pl.col("").cast(pl.Int64, strict=False)
    # leap seconds and the year 0, which polars knows, are no times here
    plain = pl.when(~pl.col("").str.contains("^0000|60$")).then(pl.col(""))
    local = plain.str.to_datetime(_LOCAL_TIME, strict=False, time_unit="ms").dt.epoch("s")
    # the number 0 is none: 1970-01-01T00:00:00 is a time
    given = pl.coalesce(pl.when(seconds != 0).then(seconds), local)
    found = texts.alias("").to_frame().select(given.cast(pl.Float64).fill_null(np.nan))
    return found.to_series().to_numpy()


def value_of(fields: pl.DataFrame, layout: Layout, *names: str) -> pl.Series:
    """The first of these fields that is not empty, else ""."""
    columns = [str(layout.column[name]) for name in names if name in layout.column]
    if len(columns) == 1:
        return fields[columns[0]]
    given = [pl.when(pl.col(each) != "").then(pl.col(each)) for each in columns]
    return fields.select(pl.coalesce(*given, pl.repeat("", pl.len()))).to_series()
