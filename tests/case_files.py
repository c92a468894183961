"""Cases as data: tables of tests/assets/cases, a test for each row."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent / "assets" / "cases"


def table(file: str, name: str) -> Any:
    """A table of a file; for "" the whole of it."""
    found = tomllib.loads((FOLDER / f"{file}.toml").read_text())
    return found[name] if name else found


def rows(file: str, name: str, names: str) -> pytest.MarkDecorator:
    """Tries each row of a table, values by these names; or each entry of it, key and value.

    With one name alone that is the row, or the value of the entry.
    """
    found = table(file, name)
    ids = [str(each)[:60] for each in found]
    alone = " " not in names
    if isinstance(found, dict):
        found = list(found.values() if alone else found.items())
    return pytest.mark.parametrize(names if alone else names.split(), found, ids=ids)
