"""Utility and price formulas: read by a small parser of our own, never by Python's.

A formula is a sum of products over named variables, with powers and a few functions. It is read
into a short program for a stack, which is all that is ever carried out: nothing in it can name an
attribute, call Python or take long. Length, nesting and exponents are bounded while it is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from slurm_rl_plugin.errors import FormulaError

__all__ = ["Formula", "parse_formula"]

#: Deepest nesting of parentheses, functions, signs and powers.
DEEPEST = 24
#: Largest exponent, either sign; it must be a plain number.
LARGEST_EXPONENT = 8.0

#: What a step of a program does; `compiled_formula` gives them the same numbers.
NUMBER, VARIABLE, NEGATE, ADD, SUBTRACT, MULTIPLY, DIVIDE, POWER = range(8)
ABS, SQRT, LOG, EXP, MIN, MAX = range(8, 14)
_SIGNS = {"+": ADD, "-": SUBTRACT, "*": MULTIPLY, "/": DIVIDE, "**": POWER}
#: Function -> step and number of arguments.
_FUNCTIONS = {
    "abs": (ABS, 1),
    "sqrt": (SQRT, 1),
    "log": (LOG, 1),
    "exp": (EXP, 1),
    "min": (MIN, 2),
    "max": (MAX, 2),
}
_ONE: Mapping[int, Callable[[float], float]] = {
    NEGATE: lambda value: -value,
    ABS: abs,
    SQRT: math.sqrt,
    LOG: math.log,
    EXP: math.exp,
}
_TWO: Mapping[int, Callable[[float, float], float]] = {
    ADD: lambda left, right: left + right,
    SUBTRACT: lambda left, right: left - right,
    MULTIPLY: lambda left, right: left * right,
    DIVIDE: lambda left, right: left / right,
    POWER: math.pow,
    MIN: min,
    MAX: max,
}
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


class _Word(NamedTuple):
    """A word of a formula: a number, a name or a sign, with its place in the text.

    Attributes:
        kind: "number", "name", "sign", or "end" after the last.
        text: as written; `**` for both signs of a power.
        place: of its first character, from 1.
    """

    kind: str
    text: str
    place: int


def words_of(text: str) -> list[_Word]:
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
        found.append(_Word(str(match.lastgroup), word, place + 1))
        place = match.end()
    if not found:
        raise FormulaError("the formula is empty: give one such as -StartTime.")
    return [*found, _Word("end", "the end", len(text) + 1)]


def _runs_on(text: str, match: re.Match[str]) -> bool:
    """Whether a number or name is followed at once by more of the same, as in 1.2.3 or 2x."""
    after = text[match.end() : match.end() + 1]
    return match.lastgroup != "sign" and (after.isalnum() or after in {".", "_"})


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula that was read.

    Attributes:
        text: as given.
        variables: those that it may name, in the order of their numbers in the program.
        program: steps for a stack: what to do, and the number or the variable's place.
    """

    text: str
    variables: tuple[str, ...]
    program: tuple[tuple[int, float], ...]

    @property
    def names(self) -> frozenset[str]:
        """The variables that it does name."""
        return frozenset(
            self.variables[int(operand)] for step, operand in self.program if step == VARIABLE
        )

    def value(self, mapping: Mapping[str, float]) -> float:
        """The formula's value for these variables, a finite number.

        Args:
            mapping: variable -> value; others than those of the formula are ignored.

        Raises:
            FormulaError: a variable is missing, or there is no finite value, as after 1 / 0.
        """
        missing = sorted(self.names - mapping.keys())
        if missing:
            raise FormulaError(f"formula {self.text!r}: no value is known for {missing[0]}.")
        try:
            value = self._run([float(mapping.get(name, math.nan)) for name in self.variables])
        except (ArithmeticError, ValueError):  # 1 / 0, sqrt(-1), exp(1000)
            value = math.nan
        if not math.isfinite(value):
            raise FormulaError(f"formula {self.text!r} has no finite value here.")
        return value

    def _run(self, values: Sequence[float]) -> float:
        stack: list[float] = []
        for step, operand in self.program:
            if step == NUMBER:
                stack.append(operand)
            elif step == VARIABLE:
                stack.append(values[int(operand)])
            elif step in _ONE:
                stack.append(_ONE[step](stack.pop()))
            else:
                right = stack.pop()
                stack.append(_TWO[step](stack.pop(), right))
        return stack.pop()


def parse_formula(text: str, variables: Collection[str]) -> Formula:
    """Parse a formula and compile it; nothing but arithmetic is allowed in it.

    Numbers, variables, `+ - * /`, powers `**` or `^` with a plain number of at most 8 as exponent,
    parentheses, and abs, sqrt, log, exp, min(a, b), max(a, b). The signs that papers print for
    minus and times are read too.

    Args:
        text: at most 400 characters.
        variables: the names that it may use.

    Raises:
        FormulaError: refused; a ConfigurationError and a ValueError of one sentence.
    """
    reader = _Reader(words_of(text), tuple(variables))
    reader.read_sum(0)
    if reader.next.kind != "end":
        raise reader.refusal(f"{reader.next.text!r} was not expected")
    return Formula(text, reader.variables, tuple(reader.program))


class _Reader:
    """Reads words from left to right, one function a rule of the grammar."""

    def __init__(self, words: Sequence[_Word], variables: tuple[str, ...]) -> None:
        self.variables = variables
        self.program: list[tuple[int, float]] = []
        self._words = iter(words)
        self.next = next(self._words)

    def refusal(self, problem: str) -> FormulaError:
        return FormulaError(f"formula: {problem} at character {self.next.place}.")

    def _take(self) -> _Word:
        word = self.next
        self.next = next(self._words, word)
        return word

    def _expect(self, sign: str) -> None:
        if self.next.text != sign:
            raise self.refusal(f"{sign!r} is missing before {self.next.text!r}")
        self._take()

    def _step(self, step: int, operand: float = 0.0) -> None:
        self.program.append((step, operand))

    def read_sum(self, depth: int) -> None:
        self._read_chain(("+", "-"), self._read_product, depth)

    def _read_product(self, depth: int) -> None:
        self._read_chain(("*", "/"), self._read_signed, depth)

    def _read_chain(self, signs: Collection[str], part: Callable[[int], None], depth: int) -> None:
        part(depth)
        while self.next.text in signs:
            sign = self._take().text
            part(depth)
            self._step(_SIGNS[sign])

    def _read_signed(self, depth: int) -> None:
        if depth > DEEPEST:
            raise self.refusal(f"it is nested deeper than {DEEPEST} levels")
        if self.next.text in {"+", "-"}:
            negative = self._take().text == "-"
            self._read_signed(depth + 1)
            if negative:
                self._step(NEGATE)
            return
        self._read_term(depth)
        if self.next.text == "**":
            self._take()
            self._step(NUMBER, self._exponent())
            self._step(POWER)

    def _exponent(self) -> float:
        """A plain number; a power of a power needs parentheses."""
        negative = self.next.text == "-"
        if negative:
            self._take()
        if self.next.kind != "number":
            raise self.refusal("an exponent must be a plain number")
        exponent = float(self.next.text)
        if exponent > LARGEST_EXPONENT:
            raise self.refusal(f"exponent {self.next.text} is larger than {LARGEST_EXPONENT:g}")
        self._take()
        return -exponent if negative else exponent

    def _read_term(self, depth: int) -> None:
        word = self.next
        if word.kind == "number":
            self._step(NUMBER, self._number())
        elif word.kind == "name":
            self._read_name(depth)
        elif word.text == "(":
            self._take()
            self.read_sum(depth + 1)
            self._expect(")")
        else:
            raise self.refusal(f"a number or a variable is missing before {word.text!r}")

    def _number(self) -> float:
        number = float(self.next.text)
        if not math.isfinite(number):
            raise self.refusal(f"number {self.next.text} is too large")
        self._take()
        return number

    def _read_name(self, depth: int) -> None:
        name = self.next.text
        if name in self.variables:
            self._take()
            self._step(VARIABLE, float(self.variables.index(name)))
        elif name in _FUNCTIONS:
            self._take()
            self._read_call(*_FUNCTIONS[name], depth)
        else:
            raise self.refusal(
                f"{name!r} is no variable: the variables are {', '.join(self.variables)}; it stands"
            )

    def _read_call(self, step: int, arguments: int, depth: int) -> None:
        self._expect("(")
        self.read_sum(depth + 1)
        for _ in range(arguments - 1):
            self._expect(",")
            self.read_sum(depth + 1)
        self._expect(")")
        self._step(step)
