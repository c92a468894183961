"""Cases as data: tables of tests/assets/cases, a test for each row."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent / "assets" / "cases"


def tables(*files: str) -> dict[str, Any]:
    """All tables of some files; two of the same name are refused."""
    found: dict[str, Any] = {}
    for file in files:
        for name, each in tomllib.loads((FOLDER / f"{file}.toml").read_text()).items():
            assert name not in found, f"{file}.toml: a table {name} is in another file too"
            found[name] = each
    return found


def table(file: str, name: str) -> Any:
    """A table of a file; for "" the whole of it."""
    return tables(file)[name] if name else tables(file)


def tried(found: Any, names: str) -> pytest.MarkDecorator:
    """Tries each row of a table, values by these names; or each entry of it, key and value.

    With one name alone that is the row, or the value of the entry. A table without rows, which
    pytest would skip, and a row that is there twice are refused.
    """
    texts = [str(each) for each in found]
    assert texts, f"{names}: a table without rows tries nothing"
    assert len(set(texts)) == len(texts), f"{names}: {max(texts, key=texts.count)} is there twice"
    alone = " " not in names
    if isinstance(found, dict):
        found = list(found.values() if alone else found.items())
    ids = [each[:60] for each in texts]
    return pytest.mark.parametrize(names if alone else names.split(), found, ids=ids)


def rows(file: str, name: str, names: str) -> pytest.MarkDecorator:
    """Tries each row of a table of a file, see `tried`."""
    return tried(table(file, name), names)


def known(row: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """A row whose keys may be left out; another one, which no test would read, is refused."""
    assert not set(row) - set(keys), f"{sorted(set(row) - set(keys))}: give {', '.join(keys)}"
    return row
