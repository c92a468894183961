"""Cuts the lines of a `sacct -P` dump into records, with line breaks inside free text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from slurm_rl_plugin.accounting.sacct_layout import Layout

#: A record of more lines than this is taken as broken.
MOST_LINES = 50


def cut_records(lines: Sequence[str], layout: Layout) -> Iterator[list[str] | None]:
    """Yield the fields of each record, None for a record that is cut off.

    A line that neither is nor begins a record goes on the last field of the record before it, if
    that is free text, or is the rest of one that is cut off.
    """
    # Every line of a broken stretch is asked about up to MOST_LINES times.
    is_row = lru_cache(maxsize=2 * MOST_LINES)(lambda line: layout.cut(line) is not None)
    held: list[str] | None = None
    has_held, position = False, 0
    while position < len(lines):
        line = lines[position]
        fields, used = _next_record(lines, position, layout, is_row)
        position += used
        if fields is None and _is_no_record(line, layout):
            continue
        if fields is None and has_held and not layout.begins_record(line):
            if held is None:
                continue
            if _goes_on(held[-1], line, layout):
                held[-1] += "\n" + line
                continue
        if has_held:
            yield held
        held, has_held = fields, True
    if has_held:
        yield held


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
