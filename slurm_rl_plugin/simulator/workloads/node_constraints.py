"""Constraints over node features, as `sbatch --constraint` takes them, and who meets them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from slurm_rl_plugin.errors import ConfigurationError

_WORD = re.compile(r"[^\s&|,()\[\]*]+")
_COUNT = re.compile(r"\*\d+")


def meets(constraint: str, features: frozenset[str]) -> bool:
    """Whether a node of these features may serve a job of this constraint.

    `&` and `,` bind stronger than `|`, as in Slurm; a number of nodes (`rack1*2`) is left out, and
    brackets, which ask that all nodes meet the same one of several, count as parentheses.

    Raises:
        ConfigurationError: the expression cannot be read; says which.
    """
    words = _COUNT.sub("", constraint).replace("[", "(").replace("]", ")").replace(",", "&")
    text = words.replace(" ", "")
    if not text:
        return True
    try:
        found, place = _either(text, 0, features)
    except (ValueError, RecursionError):
        place = -1
    if place != len(text):
        raise _unread(constraint)
    return found


def kinds_that_meet(constraint: str, features: Sequence[frozenset[str]]) -> list[bool]:
    """Which kinds of nodes may serve.

    Raises:
        ConfigurationError: the expression cannot be read; says which.
    """
    return [meets(constraint, each) for each in features]


def _unread(constraint: str) -> ConfigurationError:
    return ConfigurationError(
        f"the constraint {constraint!r} is no expression over features: write it as "
        "`sbatch --constraint` takes it."
    )


def _either(text: str, place: int, features: frozenset[str]) -> tuple[bool, int]:
    found, place = _both(text, place, features)
    while place < len(text) and text[place] == "|":
        other, place = _both(text, place + 1, features)
        found = found or other
    return found, place


def _both(text: str, place: int, features: frozenset[str]) -> tuple[bool, int]:
    found, place = _one(text, place, features)
    while place < len(text) and text[place] == "&":
        other, place = _one(text, place + 1, features)
        found = found and other
    return found, place


def _one(text: str, place: int, features: frozenset[str]) -> tuple[bool, int]:
    if text.startswith("(", place):
        found, place = _either(text, place + 1, features)
        if not text.startswith(")", place):
            raise ValueError
        return found, place + 1
    word = _WORD.match(text, place)
    if word is None:
        raise ValueError
    return word[0] in features, word.end()
