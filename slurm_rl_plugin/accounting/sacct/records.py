"""Cuts the lines of a `sacct -P` dump into records, with line breaks inside free text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from slurm_rl_plugin.accounting.sacct.layout import Layout

#: A record of more lines than this is taken as broken.
MOST_LINES = 50


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
        """Yield the fields of each record that ends here, and of a broken one why it is none.

        Args:
            lines: of a stretch.
            last: no other stretch follows.
        """
        layout, self.position = self._layout, 0
        # What a line is may depend on so many behind it.
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
        if _is_no_record(line, self._layout):
            return True
        if self._held is None or self._layout.begins_record(line):
            return False
        if isinstance(self._held, str):
            return True
        goes_on = _goes_on(self._held[-1], line, self._layout)
        if goes_on:
            self._held[-1] += "\n" + line
        return goes_on


def _is_no_record(line: str, layout: Layout) -> bool:
    return not line.strip() or line == layout.header


def _goes_on(value: str, line: str, layout: Layout) -> bool:
    """Whether a line that begins no record is more of the last value of the record before it."""
    if not layout.ends_in_free_text or layout.ends_record(line):
        return False
    return value.count("\n") < MOST_LINES - 1


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
