"""Cuts a `sacct -P` dump whose times bear a mark; no text of a job can forge a record in it.

Whoever makes such a dump draws the mark when `sacct` starts, and hands it over where no other user
sees it (`fields.marked_format`). Every text in the dump was stored before or by users who do not
know the mark, so a line that begins with the mark begins a record, and no other line does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from slurm_rl_plugin.accounting.sacct.batches import Batch, Lines, RecordCutter, mended
from slurm_rl_plugin.accounting.sacct.fields import FREE_TEXT, MARKED_TIME, SEPARATOR
from slurm_rl_plugin.accounting.sacct.layout import CUT_OFF, Layout
from slurm_rl_plugin.errors import AccountingLogError
from slurm_rl_plugin.units import IntArray

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Bytes of a record at most; `max_submit_line_size` of Slurm is 1 MiB.
LONGEST_RECORD = 4 << 20
_BAR = SEPARATOR.encode()


def mark_of(names: Sequence[str], line: str) -> str:
    """The mark of a dump, "" where it has none.

    Args:
        names: lower-case field names of its header.
        line: its first record.
    """
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

    Args:
        layout: of the dump, with its mark.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._mark = layout.mark.encode()
        self._begin = b"\n" + self._mark
        self._bars = len(layout.names) - 1
        self._typed = _typed_fields(layout.names)
        self._rest = b""

    def cut(self, data: bytes, *, last: bool = False) -> Batch:
        """The records that end in these lines.

        Args:
            data: whole lines, following those of the last call.
            last: nothing follows.
        """
        # what stands before the first mark is the header
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
        return self._batch(lines, np.array(places, dtype=np.int64), odd, quoted)

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

    def _batch(
        self,
        plain: list[bytes],
        places: IntArray,
        odd: list[tuple[int, list[str] | str]],
        quoted: int,
    ) -> Batch:
        lines = Lines(b"\n".join([*plain, b""]), self._layout)
        sound = lines.plain
        others = lines.batch_of(odd)
        faulty = np.flatnonzero(~sound).tolist()
        lost = {
            int(places[i]): self._layout.why_no_record(plain[i].decode()) for i in faulty
        } | others.lost
        fields = pl.concat([lines.rows(sound), others.fields])
        return Batch(fields, np.concatenate([places[sound], others.places]), lost, quoted)


def cutter_of(layout: Layout) -> MarkedCutter | RecordCutter:
    """What cuts a dump: strictly where its times bear a mark, else by how values look."""
    return MarkedCutter(layout) if layout.mark else RecordCutter(layout)
