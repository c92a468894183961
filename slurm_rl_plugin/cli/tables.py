"""Aligned tables and JSON documents on standard output."""

from __future__ import annotations

import json
import math
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from slurm_rl_plugin.readable import printable
from slurm_rl_plugin.units import DAY, HOUR


def print_table(
    header: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    with_header: bool = True,
    of_words: bool = False,
) -> None:
    """Print aligned columns: the first flush left, the others flush right unless they are words."""
    texts = [[_text(cell) for cell in row] for row in rows]
    columns = [header, *texts] if with_header else texts
    widths = [max((len(row[place]) for row in columns), default=0) for place in range(len(header))]
    align = str.ljust if of_words else str.rjust
    for row in columns:
        cells = [row[0].ljust(widths[0])]
        cells += [align(cell, width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        sys.stdout.write("  ".join(cells).rstrip() + "\n")


def print_parsable(header: Sequence[str] | None, rows: Iterable[Sequence[Any]]) -> None:
    """Print as Slurm's --parsable2: bars between fields, and nothing for None."""
    if header is not None:
        sys.stdout.write("|".join(header) + "\n")
    for row in rows:
        cells = ("" if cell is None else printable(str(cell)) for cell in row)
        sys.stdout.write("|".join(cell.replace("|", "?") for cell in cells) + "\n")


#: The units of `waiting_time`, for a legend.
WAIT_UNITS = "in seconds unless marked h (hours) or d (days)"


def waiting_time(seconds: float | None) -> float | str | None:
    """A wait for a table: seconds below three hours, hours below two days, else days."""
    if seconds is None or not abs(seconds) >= 3 * HOUR:
        return seconds
    if abs(seconds) < 2 * DAY:
        return f"{seconds / HOUR:.1f} h"
    return f"{seconds / DAY:.1f} d"


def slurm_duration(seconds: float) -> str:
    """`[D-]HH:MM:SS` as Slurm prints it; `-` if not finite."""
    if not math.isfinite(seconds):
        return "-"
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return (f"{days}-" if days else "") + f"{hour:02d}:{minute:02d}:{second:02d}"


def slurm_size(mib: float) -> str:
    """A size as Slurm prints it, in the largest unit above 1: `500M`, `4G`, `62.5G`, `3T`."""
    size, units = mib, iter("MGT")
    unit = next(units)
    while size >= 1024.0 and unit != "T":
        size, unit = size / 1024.0, next(units)
    return f"{size:.4g}{unit}"


def slurm_time(seconds: float) -> str | None:
    """`YYYY-MM-DDTHH:MM:SS` in local time; None if it has none."""
    try:
        return datetime.fromtimestamp(seconds).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):  # not finite, or beyond the clock's range
        return None


def _text(cell: Any) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.0f}" if abs(cell) >= 1000 else f"{cell:.3f}"
    return printable(str(cell))


def answer(options: Namespace, document: Mapping[str, Any], show: Callable[[], object]) -> int:
    """Print the document with --json, else call `show`; 0."""
    if options.json:
        print_json(document)
    else:
        show()
    return 0


def print_json(document: Mapping[str, Any]) -> None:
    """Print one JSON document; numbers that are not finite become null."""
    json.dump(finite(document), sys.stdout, indent=2)
    sys.stdout.write("\n")


def finite(value: Any) -> Any:
    """The same document with None for every number that is not finite, which JSON lacks."""
    if isinstance(value, Mapping):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
