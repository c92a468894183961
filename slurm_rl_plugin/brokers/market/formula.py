"""Utility and price formulas: Python's parser reads them, and only arithmetic is allowed.

A formula is a sum of products over named variables, with powers and a few functions. Its syntax
tree becomes a short program for a stack, and nothing else is executed: other nodes are refused, so
that no formula can use an attribute, call Python or take long. Length, nesting and exponents are
bounded before any computation.
"""

from __future__ import annotations

import ast
import math
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.errors import FormulaError
from slurm_rl_plugin.units import FloatArray, IntArray

#: Deepest nesting of functions, signs and right-hand sides; Python bounds parentheses.
DEEPEST = 24
#: Largest exponent, either sign; it must be a plain number.
LARGEST_EXPONENT = 8.0

#: Steps of a program: numbers and variables, functions of one number, and of two.
NUMBER, VARIABLE, NEGATE, ABS, SQRT, LOG, EXP = range(7)
ADD, SUBTRACT, MULTIPLY, DIVIDE, POWER, MIN, MAX = range(7, 14)
_SIGNS: Mapping[type[ast.operator], int] = {
    ast.Add: ADD,
    ast.Sub: SUBTRACT,
    ast.Mult: MULTIPLY,
    ast.Div: DIVIDE,
}
#: Function -> step and number of arguments.
_FUNCTIONS = {
    "abs": (ABS, 1),
    "sqrt": (SQRT, 1),
    "log": (LOG, 1),
    "exp": (EXP, 1),
    "min": (MIN, 2),
    "max": (MAX, 2),
}
#: Longest formula, characters; the paper's longest has fewer than 100.
LONGEST_TEXT = 400
#: Characters that no formula has, and a number with a suffix, as in 2x; Python accepts some.
_MEANINGLESS = re.compile(
    r"[^A-Za-z0-9_+\-*/(),. \t]|\b[0-9][0-9.]*"
    r"(?:[A-DF-Za-df-z_]|[eE](?![+-]?[0-9])|[eE][+-]?[0-9]+[A-Za-z_.])"
)
#: Signs as papers print them, and the other sign of a power.
_PRINTED = {"\u2212": "-", "\u00b7": "*", "\u00d7": "*", "^": "**"}


class Program(NamedTuple):
    """A formula as steps of a stack machine."""

    steps: IntArray  #: operations, shape [steps]
    operands: FloatArray  #: number, or place of the variable, of each step
    names: IntArray  #: 1 for each variable that the formula names, shape [variables]


def run_program(program: Program, values: FloatArray) -> float:
    """The value for the variables in their order; -inf if any part of it is not finite.

    `offers` compiles it, and prefers any offer to one of -inf.
    """
    stack = np.empty(len(program.steps))
    top = -1
    for place in range(len(program.steps)):
        step = program.steps[place]
        if step <= VARIABLE:
            top += 1
            operand = program.operands[place]
            stack[top] = operand if step == NUMBER else values[int(operand)]
        elif step <= EXP:
            stack[top] = of_one(step, stack[top])
        else:
            top -= 1
            stack[top] = of_two(step, stack[top], stack[top + 1])
        if not np.isfinite(stack[top]):
            return -np.inf
    return stack[0]


def of_one(step: int, value: float) -> float:
    """A function of one number; not finite where it has no value."""
    if step == NEGATE:
        return -value
    if step == ABS:
        return abs(value)
    if step == SQRT:
        return np.sqrt(value)
    return np.log(value) if step == LOG else np.exp(value)


def of_two(step: int, left: float, right: float) -> float:
    """A function of two numbers; not finite where it has no value."""
    value = left + right  # ADD
    if step == SUBTRACT:
        value = left - right
    elif step == MULTIPLY:
        value = left * right
    elif step == DIVIDE:
        value = left / right if right != 0.0 else np.nan
    elif step == POWER:
        value = left**right
    elif step == MIN:
        value = min(left, right)
    elif step == MAX:
        value = max(left, right)
    return value


@dataclass(frozen=True, slots=True)
class Formula:
    """A parsed formula."""

    text: str
    variables: tuple[str, ...]  #: allowed ones, in the order of their numbers in the program
    program: Program

    @property
    def names(self) -> frozenset[str]:
        """The variables that it uses."""
        return frozenset(np.array(self.variables)[self.program.names == 1].tolist())

    def value(self, mapping: Mapping[str, float]) -> float:
        """The formula's finite value for variable -> value; other variables are ignored.

        Raises:
            FormulaError: a variable is missing, or a part has no finite value, as after 1 / 0.
        """
        missing = sorted(self.names - mapping.keys())
        if missing:
            raise FormulaError(f"formula {self.text!r}: no value is known for {missing[0]}.")
        values = np.array([float(mapping.get(name, math.nan)) for name in self.variables])
        with np.errstate(all="ignore"):
            value = float(run_program(self.program, values))
        if not math.isfinite(value):
            raise FormulaError(f"formula {self.text!r} has no finite value here.")
        return value + 0.0  # turns -0 into 0


def parse_formula(
    text: str, variables: Collection[str], former: Mapping[str, str] | None = None
) -> Formula:
    """Parse and compile a formula of at most 400 characters.

    It may have numbers, variables, `+ - * /`, powers `**` or `^` with a plain number of at most 8
    as exponent, parentheses, and abs, sqrt, log, exp, min(a, b), max(a, b). Printed signs for minus
    and times are accepted.

    Raises:
        FormulaError: refused; a ConfigurationError and a ValueError of one sentence.
    """
    if len(text) > LONGEST_TEXT:
        raise FormulaError(
            f"the formula has {len(text)} characters: at most {LONGEST_TEXT} are read."
        )
    plain = text.strip(" \t")
    for printed, sign in _PRINTED.items():
        plain = plain.replace(printed, sign)
    if not plain:
        raise FormulaError("the formula is empty: give one such as -StartTime.")
    if (match := _MEANINGLESS.search(plain)) is not None:
        raise FormulaError(
            f"formula: {match.group()!r} at character {match.start() + 1} has no meaning there: "
            "write numbers, variables, + - * / ** and parentheses."
        )
    try:
        tree = ast.parse(plain, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        place = getattr(error, "offset", None) or len(plain) + 1
        raise FormulaError(
            f"formula {text!r} cannot be read at character {place}: a sign, a parenthesis, a "
            "number or a variable is missing there."
        ) from None
    names = tuple(variables)
    known = {each: place for place, each in enumerate(names)}
    known |= {old: known[new] for old, new in (former or {}).items() if new in known}
    steps, operands = zip(*_steps(tree.body, known, 0), strict=True)
    used = {
        names[int(place)] for step, place in zip(steps, operands, strict=True) if step == VARIABLE
    }
    program = Program(
        steps=np.array(steps),
        operands=np.array(operands),
        names=np.array([name in used for name in names], dtype=np.int64),
    )
    return Formula(text, names, program)


def _steps(node: ast.expr, known: Mapping[str, int], depth: int) -> Iterator[tuple[int, float]]:
    """The program of a node of the syntax tree."""
    if depth > DEEPEST:
        raise _refusal(node, f"it is nested deeper than {DEEPEST} levels")
    match node:
        case ast.Constant():
            yield NUMBER, _number(node)
        case ast.Name():
            yield VARIABLE, _place(node, known)
        case ast.UnaryOp(op=ast.UAdd() | ast.USub() as sign, operand=operand):
            yield from _steps(operand, known, depth + 1)
            if isinstance(sign, ast.USub):
                yield NEGATE, 0.0
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            yield from _steps(left, known, depth + 1)
            yield NUMBER, _exponent(right)
            yield POWER, 0.0
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _SIGNS:
            yield from _steps(left, known, depth)
            yield from _steps(right, known, depth + 1)
            yield _SIGNS[type(sign)], 0.0
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            step, count = _FUNCTIONS[name]
            _check_count(node, name, count)
            for each in args:
                yield from _steps(each, known, depth + 1)
            yield step, 0.0
        case _:
            raise _refusal(node, f"{ast.unparse(node)!r} has no meaning")


def _place(node: ast.Name, known: Mapping[str, int]) -> float:
    if node.id not in known:
        every = ", ".join(known)
        raise _refusal(node, f"{node.id!r} is no variable: the variables are {every}; found")
    return float(known[node.id])


def _check_count(node: ast.Call, name: str, count: int) -> None:
    if len(node.args) != count:
        raise _refusal(node, f"{name} takes {count} numbers, not {len(node.args)}, found")


def _number(node: ast.Constant) -> float:
    value = node.value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _refusal(node, f"{value!r} is no number")
    if value > sys.float_info.max:
        raise _refusal(node, "the number is too large")
    return float(value)


def _exponent(node: ast.expr) -> float:
    """A plain number; a power of a power needs parentheses."""
    negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    number = node.operand if isinstance(node, ast.UnaryOp) and negative else node
    if not isinstance(number, ast.Constant):
        raise _refusal(node, "an exponent must be a plain number")
    exponent = _number(number)
    if exponent > LARGEST_EXPONENT:
        raise _refusal(node, f"exponent {exponent:g} is larger than {LARGEST_EXPONENT:g}")
    return -exponent if negative else exponent


def _refusal(node: ast.expr, problem: str) -> FormulaError:
    return FormulaError(f"formula: {problem} at character {node.col_offset + 1}.")


#: Variables of a user's function. Times in seconds from the request on; a later start is larger.
#: JobCost is the price by the owner's function, SiteUtility the site's expected utility of such a
#: job in [0, 1] (0 in the simulated market), SiteProcessors the number of its processors,
#: Interactive 1 for a job of the interactive class, else 0.
USER_VARIABLES = (
    "StartTime",
    "EndTime",
    "RunTime",
    "NumberOfProcessors",
    "JobCost",
    "SiteUtility",
    "SiteProcessors",
    "Interactive",
)
#: Variables of an owner's function about the schedule (Fig. 9). Areas in processor-seconds: `under`
#: idle on the job's processors before it, `over` after it, `left_right` idle on the machine's other
#: processors while it runs; `left_right_rel` is `left_right` over the job's own area; `utilization`
#: that of the machine from now to the end of its schedule.
SCHEDULE_VARIABLES = ("over", "under", "left_right", "left_right_rel", "utilization")
#: Variables of an owner's function: the job, the schedule, and the start of the job.
MACHINE_VARIABLES = (
    "NumberOfProcessors",
    "RunTime",
    *SCHEDULE_VARIABLES,
    "StartTime",
    "EndTime",
    "SiteProcessors",
    "Interactive",
)
#: Name in configurations of 0.1.0 -> variable.
FORMER_NAMES: Mapping[str, str] = {
    "processors": "NumberOfProcessors",
    "run_time": "RunTime",
    "wait": "StartTime",
    "interactive": "Interactive",
    "all_processors": "SiteProcessors",
    "price": "JobCost",
    "utility": "SiteUtility",
}

_AREA = "NumberOfProcessors * RunTime"
_RELATIVE = "(1 - left_right_rel)"
#: Section 5.1.
_MACHINE_TEXTS: Mapping[str, str] = {
    "MF1": f"({_AREA} + over + under + left_right) * {_RELATIVE}",
    "MF2": f"{_AREA} + over + under + left_right",
    "MF3": f"({_AREA} + over + under) * {_RELATIVE}",
    "MF4": f"({_AREA} + left_right) * {_RELATIVE}",
    "MF5": f"({_AREA} + over + left_right) * {_RELATIVE}",
    "MF6": f"({_AREA} + under + left_right) * {_RELATIVE}",
}
#: Section 5.2.
_USER_TEXTS: Mapping[str, str] = {
    "UF1": "-StartTime",
    "UF2": "-JobCost",
    "UF3": "-(StartTime + JobCost)",
    "UF4": "-(StartTime + 2 * JobCost)",
    "UF5": "-(2 * StartTime + JobCost)",
}


def user_function(text: str) -> Formula:
    """A user's utility function over USER_VARIABLES, or one of the paper's; higher is better."""
    return parse_formula(_USER_TEXTS.get(text.strip(), text), USER_VARIABLES, FORMER_NAMES)


def machine_function(text: str) -> Formula:
    """An owner's price function over MACHINE_VARIABLES, or one of the paper's."""
    return parse_formula(_MACHINE_TEXTS.get(text.strip(), text), MACHINE_VARIABLES, FORMER_NAMES)


MACHINE_FUNCTIONS: Mapping[str, Formula] = {name: machine_function(name) for name in _MACHINE_TEXTS}
USER_FUNCTIONS: Mapping[str, Formula] = {name: user_function(name) for name in _USER_TEXTS}
