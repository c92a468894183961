"""Reads what `-F json` of OpenPBS prints, also where a user's words make it no JSON.

Up to 23.06 a value that C reads as a number stands there bare, `.5`, `0x10`, `nan` or `007`, and a
backslash as it was given; so one variable of one job would make the whole queue unreadable. These
releases print one value a line: where the answer is no JSON, each value is mended by itself.
A number with a fraction or an exponent stays the text that it is: `1.10` may be an account's name.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

_KEY = re.compile(r'\s*("[^"\\]*(?:\\.[^"\\]*)*"):')
#: The name of a variable, which stands there as it was given, with quotes and backslashes.
_RAW_KEY = re.compile(r'\s*"(.*?)":')
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
#: Digits of the largest whole numbers that are read as such; others stay text.
_DIGITS = 18


class Told(dict[str, Any]):
    """An object of the answer; `twice` are the names that stand in it more than once."""

    twice: frozenset[str] = frozenset()


def read_json(text: str) -> Any:
    """The document; line breaks inside values are taken.

    Takes time in proportion to the length of the text.

    Raises:
        ValueError: the text has another form, whatever becomes of its values.
        RecursionError: likewise.
    """
    try:
        return _read(text)
    except ValueError:
        return _read("\n".join(_mended(line) for line in text.split("\n")))


def _read(text: str) -> Any:
    return json.loads(
        text,
        strict=False,
        parse_int=_whole,
        parse_float=str,
        parse_constant=str,
        object_pairs_hook=_object,
    )


def _whole(digits: str) -> int | str:
    return int(digits) if len(digits) <= _DIGITS else digits


def _object(pairs: Sequence[tuple[str, Any]]) -> Told:
    found = Told(pairs)
    if len(found) < len(pairs):
        times = Counter(name for name, _ in pairs)
        found.twice = frozenset(name for name, count in times.items() if count > 1)
    return found


def _mended(line: str) -> str:
    key = _KEY.match(line)
    name = None if key is None else key[1]
    if name is None or ("\\" in name and not _is_json(name)):
        key = _RAW_KEY.match(line)
        name = None if key is None else json.dumps(key[1])
    if key is None:
        return line
    value = line[key.end() :].strip()
    comma = "," if value.endswith(",") else ""
    return f"{name}:{_sound(value.removesuffix(','))}{comma}"


def _sound(value: str) -> str:
    """A value as it stands where that is JSON, else as text."""
    if value in ("{", "[", "{}", "[]", "true", "false", "null") or _NUMBER.fullmatch(value):
        return value
    if not value.startswith('"'):
        return json.dumps(value)
    return value if _is_json(value) else json.dumps(value[1:].removesuffix('"'))


def _is_json(text: str) -> bool:
    try:
        json.loads(text, strict=False)
    except ValueError:
        return False
    return True
