"""Aligned tables and JSON documents on standard output."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any


def print_table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print columns under capitals: the first flush left, numbers flush right."""
    texts = [[_text(cell) for cell in row] for row in rows]
    columns = [header, *texts]
    widths = [max(len(row[place]) for row in columns) for place in range(len(header))]
    for row in columns:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        sys.stdout.write("  ".join(cells).rstrip() + "\n")


def _text(cell: Any) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.0f}" if abs(cell) >= 1000 else f"{cell:.3f}"
    return str(cell)


def print_json(document: Mapping[str, Any]) -> None:
    """Print one JSON document and nothing else; what is not finite becomes null."""
    json.dump(_finite(document), sys.stdout, indent=2)
    sys.stdout.write("\n")


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
