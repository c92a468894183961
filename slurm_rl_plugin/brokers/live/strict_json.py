"""Reads a JSON object of a stranger: bounded before it is parsed, and only what JSON is."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from slurm_rl_plugin.errors import RequestRefused

BAD = "400 Bad Request"
#: Deepest nesting of objects and lists; a job needs two.
DEEPEST = 4


def strict_object(body: bytes) -> dict[str, Any]:
    """The object that a text is.

    Args:
        body: UTF-8; its length is bounded by who read it.

    Raises:
        RequestRefused: no JSON, no object, too deep, a key twice, or a number that is none.
    """
    if _depth(body) > DEEPEST:  # before the parser, which calls itself for each level
        raise RequestRefused(BAD, f"the JSON is nested deeper than {DEEPEST} levels.")
    try:
        found = json.loads(body.decode(), object_pairs_hook=_object, parse_constant=_no_number)
    except RequestRefused:
        raise
    except UnicodeDecodeError:
        raise RequestRefused(BAD, "the body is no UTF-8.") from None
    except (ValueError, RecursionError):  # also a number of thousands of digits
        raise RequestRefused(BAD, "the body is no JSON.") from None
    if not isinstance(found, dict):
        raise RequestRefused(BAD, "the body is no JSON object.")
    return found


def _depth(body: bytes) -> int:
    """Deepest nesting, brackets inside texts left out."""
    depth = deepest = 0
    in_text = escaped = False
    for sign in body:
        if in_text:
            in_text = escaped or sign != 0x22
            escaped = sign == 0x5C and not escaped
        elif sign == 0x22:
            in_text = True
        elif sign in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif sign in b"]}":
            depth -= 1
    return deepest


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise RequestRefused(BAD, "the JSON has a key twice.")
    return found


def _no_number(name: str) -> NoReturn:
    raise RequestRefused(BAD, f"{name} is no number in JSON.")
