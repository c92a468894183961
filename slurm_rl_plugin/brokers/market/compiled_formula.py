"""Formulas inside compiled loops: the same program for a stack, as arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.brokers.market.formula import (
    ABS,
    DIVIDE,
    EXP,
    LOG,
    MAX,
    MIN,
    MULTIPLY,
    NEGATE,
    NUMBER,
    POWER,
    SQRT,
    SUBTRACT,
    VARIABLE,
    Formula,
)
from slurm_rl_plugin.simulator.kernel.compilation import compiled
from slurm_rl_plugin.units import FloatArray, IntArray


class CompiledFormula(NamedTuple):
    """A formula as steps of a stack machine, which compiled code runs.

    Attributes:
        steps: what to do, shape [steps].
        operands: number, or place of the variable, of each step.
        names: 1 for each variable that the formula names, shape [variables].
    """

    steps: IntArray
    operands: FloatArray
    names: IntArray


def compile_formula(formula: Formula) -> CompiledFormula:
    """The program of a formula as arrays."""
    return CompiledFormula(
        steps=np.array([step for step, _ in formula.program], dtype=np.int64),
        operands=np.array([operand for _, operand in formula.program]),
        names=np.array([name in formula.names for name in formula.variables], dtype=np.int64),
    )


@compiled
def formula_value(formula: CompiledFormula, values: FloatArray) -> float:
    """Value for the variables in their order; -inf where it is not finite, so that it never wins.

    Where `Formula.value` raises, as there is no finite value, this is -inf.
    """
    stack = np.empty(len(formula.steps))
    top = -1
    for place in range(len(formula.steps)):
        step = formula.steps[place]
        if step == NUMBER:
            top += 1
            stack[top] = formula.operands[place]
        elif step == VARIABLE:
            top += 1
            stack[top] = values[np.int64(formula.operands[place])]
        elif step == NEGATE or (ABS <= step <= EXP):
            stack[top] = _of_one(step, stack[top])
        else:
            top -= 1
            stack[top] = _of_two(step, stack[top], stack[top + 1])
        if not np.isfinite(stack[top]):
            return -np.inf
    return stack[0]


@compiled
def _of_one(step: int, value: float) -> float:
    if step == NEGATE:
        return -value
    if step == ABS:
        return abs(value)
    if step == EXP:
        return np.exp(value)
    if value < 0.0 or (step == LOG and value == 0.0):
        return np.nan
    return np.log(value) if step == LOG else np.sqrt(value)


@compiled
def _of_two(step: int, left: float, right: float) -> float:
    value = left + right  # ADD
    if step == SUBTRACT:
        value = left - right
    elif step == MULTIPLY:
        value = left * right
    elif step == MIN:
        value = min(left, right)
    elif step == MAX:
        value = max(left, right)
    elif step == DIVIDE:
        value = left / right if right != 0.0 else np.nan
    elif step == POWER:
        value = _power(left, right)
    return value


@compiled
def _power(base: float, exponent: float) -> float:
    """NaN where Python's own function refuses."""
    whole = exponent == np.floor(exponent)
    if (base == 0.0 and exponent < 0.0) or (base < 0.0 and not whole):
        return np.nan
    return base**exponent


assert ABS < SQRT < LOG < EXP < MIN  # the range that `formula_value` relies on
