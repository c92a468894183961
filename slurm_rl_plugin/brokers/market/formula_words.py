"""The words of a formula: numbers, names and signs, each with its place in the text."""

from __future__ import annotations

import re
from typing import NamedTuple

from slurm_rl_plugin.errors import FormulaError

#: Longest formula that is read; the paper's longest has fewer than 100 characters.
LONGEST_TEXT = 400
#: Digits and exponent of a number stay short, so that each is an ordinary float.
_WORD = re.compile(
    r"(?P<number>(?:[0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})(?:[eE][+-]?[0-9]{1,3})?)"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]{0,63})"
    r"|(?P<sign>\*\*|[-+*/^(),])"
)
#: Signs as papers print them.
_PRINTED = str.maketrans({"\u2212": "-", "\u00b7": "*", "\u00d7": "*"})


class Word(NamedTuple):
    """A word of a formula: a number, a name or a sign, with its place in the text.

    Attributes:
        kind: "number", "name", "sign", or "end" after the last.
        text: as written; `**` for both signs of a power.
        place: of its first character, from 1.
    """

    kind: str
    text: str
    place: int


def words_of(text: str) -> list[Word]:
    """The words of a formula and "end".

    Raises:
        FormulaError: too long, empty, or a character that has no meaning.
    """
    if len(text) > LONGEST_TEXT:
        raise FormulaError(
            f"the formula has {len(text)} characters: at most {LONGEST_TEXT} are read."
        )
    text = text.translate(_PRINTED)
    found, place = [], 0
    while place < len(text):
        if text[place] in " \t":
            place += 1
            continue
        match = _WORD.match(text, place)
        if match is None or _runs_on(text, match):
            raise FormulaError(
                f"formula: {text[place]!r} at character {place + 1} has no meaning there: write "
                "numbers, variables, + - * / ** and parentheses."
            )
        word = "**" if match.group() == "^" else match.group()
        found.append(Word(str(match.lastgroup), word, place + 1))
        place = match.end()
    if not found:
        raise FormulaError("the formula is empty: give one such as -StartTime.")
    return [*found, Word("end", "the end", len(text) + 1)]


def _runs_on(text: str, match: re.Match[str]) -> bool:
    """Whether a number or name is followed at once by more of the same, as in 1.2.3 or 2x."""
    after = text[match.end() : match.end() + 1]
    return match.lastgroup != "sign" and (after.isalnum() or after in {".", "_"})
