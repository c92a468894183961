"""No case of tests/assets/cases can be lost in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import case_files
from tests.functional.typed import TABLES

TESTS = Path(__file__).parents[1]


def test_each_table_is_read_by_a_test() -> None:
    texts = "\n".join(path.read_text() for path in TESTS.rglob("*.py"))
    unread = [
        (path.stem, name)
        for path in case_files.FOLDER.glob("*.toml")
        for name in case_files.tables(path.stem)
        if not any(
            words in texts
            for words in (
                *(f'"{path.stem}", "{name}"', f'"{path.stem}", ""'),
                *((f'rows_of("{name}")', f'TABLES["{name}"]') if name in TABLES else ()),
            )
        )
    ]
    assert unread == []


@pytest.mark.parametrize("rows", [[], {}, [["a", 1], ["b", 2], ["a", 1]]])
def test_no_row_and_one_twice_are_refused(rows: object) -> None:
    with pytest.raises(AssertionError, match=r"tries nothing|is there twice"):
        case_files.tried(rows, "words said")


def test_a_table_of_two_files_and_a_misspelt_key_are_refused() -> None:
    with pytest.raises(AssertionError, match="in another file too"):
        case_files.tables("utility", "utility")
    with pytest.raises(AssertionError, match=r"\['huors'\]: give hours"):
        case_files.known({"huors": 1.0}, "hours")
