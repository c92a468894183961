"""Lines of keys. The oracle is the document itself: each value is, or begins with, its own line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_rl_plugin.configuration.reading.toml_lines import TomlPath, key_given_twice, lines_of

WORDS = st.sampled_from(["hook", "cycle", "a-b", "1", '"qu.oted"', "'lit eral'", '"\\u00e9\\""'])
#: Values that hold the line as LINE, and look like something else.
VALUES = (
    "LINE",
    "LINE # cycle = 3",
    "[LINE, 2]",
    "[\n  LINE, # ]\n\n  [3, '#'],\n]",
    '"""LINE\n[hook]\ncycle = 3\n"""',
    '"""LINE\\\n  "" x\\""""',
    "'''LINE\ncycle = 3 ''''",
    "{ in = LINE, 'ner' = {deep.er = LINE}, s = [LINE, '}'] }",
    "[{ x = LINE }, { x = LINE, y.z = 'LINE,#' },\n]",
    "[\n  { x = LINE },\n  # {\n  { x = LINE },\n]",
    "'LINE # [hook]'",
)
FILLINGS = ("", "\n", "# [hook] 'x\n", '\t\n  # cycle = 3 """\n')


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Statements, tables and lists of tables in any order, with unique names."""
    text = ""
    for number in range(draw(st.integers(1, 12))):
        text += draw(st.sampled_from(FILLINGS))
        name = ".".join([f"k{number}", *draw(st.lists(WORDS, max_size=2))])
        shape = draw(st.sampled_from(["key", "key", "table", "new list", "same list"]))
        if shape == "table":
            text += f"[ {name} ] # [x]\n"
        elif shape == "new list":
            text += f"[[{name}]]\n"
        elif shape == "same list":
            text += f"[[rules]]\nk{number} = LINE\n[rules.sub]\n"
        else:
            text += f"  {name} = {draw(st.sampled_from(VALUES))}\n"
    return numbered(text)


def numbered(text: str) -> str:
    """LINE becomes the line in which the statement, or the inline key, begins."""
    lines = text.split("\n")
    for place in range(len(lines)):
        begin = place
        while "LINE" in lines[place] and "=" not in lines[begin] and "{" not in lines[begin]:
            begin -= 1
        lines[place] = lines[place].replace("LINE", str(begin + 1))
    return "\n".join(lines)


def leaves(content: Any, path: TomlPath = ()) -> Iterator[tuple[TomlPath, int]]:
    """Path of a key and the line that its value tells."""
    for key, value in content.items():
        first = value
        while isinstance(first, list) and first and not isinstance(first[0], dict):
            first = first[0]
        if isinstance(first, str):
            first = int(re.match(r"\d+", first)[0])
        if isinstance(first, int):
            yield (*path, key), first
        elif isinstance(first, dict):
            yield from leaves(first, (*path, key))
        else:
            for place, each in enumerate(value):
                yield from leaves(each, (*path, key, place))


@given(documents())
def test_every_key_is_found_in_its_line(text: str) -> None:
    content = tomllib.loads(text)
    lines = lines_of(text, content)
    for path, line in leaves(content):
        assert lines[path] == line, text


@given(documents())
def test_windows_ends_of_lines_do_not_count_twice(text: str) -> None:
    content = tomllib.loads(text.replace("\n", "\r\n"))
    assert lines_of(text.replace("\n", "\r\n"), content) == lines_of(text, tomllib.loads(text))


def test_tables_and_elements_have_the_line_of_their_first_header() -> None:
    text = "a.b = 1\n\n[c.d]\n[[job_class]]\nx = 1\n[[job_class]]\nx = 2\n"
    assert lines_of(text, tomllib.loads(text)) == {
        ("a",): 1,
        ("a", "b"): 1,
        ("c",): 3,
        ("c", "d"): 3,
        ("job_class",): 4,
        ("job_class", 0): 4,
        ("job_class", 0, "x"): 5,
        ("job_class", 1): 6,
        ("job_class", 1, "x"): 7,
    }


def test_no_line_is_better_than_a_wrong_one() -> None:
    assert lines_of("a = 1\n", {"b": 1}) == {}
    assert lines_of("a = " + "[" * 5000, {"a": 1}) == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[hook]\ncycle = 1\nmode = 'x'\ncycle = 2\n", (("hook", "cycle"), 2, 4)),
        ("[hook]\n[policy]\n# x\n[hook]\n", (("hook",), 1, 4)),
        ("[hook]\ncycle = 1\ncycle = [\n1,\n2]\nport = = 3", (("hook", "cycle"), 2, 3)),
        ("a.b = 1\na.c = 2\n", None),
        ("[[rules]]\nx = 1\n[[rules]]\nx = 1\n", None),
    ],
)
def test_a_key_that_is_given_twice(text: str, expected: tuple[TomlPath, int, int] | None) -> None:
    assert key_given_twice(text, 99) == expected
