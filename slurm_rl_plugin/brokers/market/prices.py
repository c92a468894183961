"""What an owner asks and what an offer is worth: the variables of 2002, Fig. 9, at one place."""

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
from slurm_rl_plugin.brokers.market.timetable import Gaps, Lanes, end_of_schedule, taken_area
from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_borrowing
from slurm_rl_plugin.units import BoolArray, FloatArray, IntArray


class CompiledFormula(NamedTuple):
    """A formula as steps of a stack machine, which compiled code runs."""

    steps: IntArray  #: what to do, shape [steps]
    operands: FloatArray  #: number, or place of the variable, of each step
    names: IntArray  #: 1 for each variable that the formula names, shape [variables]


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


#: Place of `utilization` in MACHINE_VARIABLES; the dearest variable is computed where it is named.
_UTILIZATION = 6


class Terms(NamedTuple):
    """The owner's price function and the user's utility function, compiled."""

    owner: CompiledFormula
    user: CompiledFormula


class Request(NamedTuple):
    """A job as machines are told of it."""

    now: float  #: when it is asked for, seconds
    processors: int  #: how many it asks for
    duration: float  #: seconds that it is allocated
    splits: bool  #: whether it may run on several of them at once
    margin: float  #: what owners add to a start that is not now, seconds
    interactive: bool  #: whether it is of that class
    reach: BoolArray  #: machines that the request gets to, shape [machines]


@compiled_borrowing
def offered_start(start: float, request: Request) -> float:
    """The start that is offered for a planned one, seconds."""
    return start if start <= request.now else start + request.margin


@compiled_borrowing
def idle_beside(
    lanes: Lanes, gaps: Gaps, machine: int, start: float, duration: float, count: int
) -> float:
    """Processor-seconds idle on a machine's other processors while a job runs (`left_right`)."""
    first, last = lanes.first[machine], lanes.first[machine + 1]
    end, taken = start + duration, 0.0
    for lane in range(first, last):
        for place in range(gaps.place[lane], lanes.depth[lane]):
            if lanes.begin[place, lane] >= end:
                break
            overlap = min(lanes.finish[place, lane], end) - max(lanes.begin[place, lane], start)
            taken += max(overlap, 0.0)
    return (last - first - count) * duration - taken


@compiled
def price(
    lanes: Lanes,
    gaps: Gaps,
    machine: int,
    chosen: IntArray,
    start: float,
    request: Request,
    owner: CompiledFormula,
) -> float:
    """The owner's function for a job on chosen lanes of a machine (MV = MF(Pm)); -inf for no value.

    Args:
        gaps: each lane's gap at or before `start`, seconds.
        chosen: lanes, each free from `start` on for as long as the job asks for.
    """
    duration, now, count = request.duration, request.now, len(chosen)
    end = start + duration
    horizon = end_of_schedule(lanes, machine, end)
    under, over = 0.0, 0.0
    for lane in chosen:
        under += start - gaps.begin[lane]
        over += min(gaps.end[lane], horizon) - end
    left_right = idle_beside(lanes, gaps, machine, start, duration, count)
    area, utilization = count * duration, 0.0
    capacity = lanes.first[machine + 1] - lanes.first[machine]
    if owner.names[_UTILIZATION]:
        allocated = taken_area(lanes, machine, now, horizon) + area
        utilization = allocated / (capacity * (horizon - now))
    schedule = (over, under, left_right, left_right / area, utilization)
    interactive = 1.0 if request.interactive else 0.0
    values = np.array([count, duration, *schedule, start - now, end - now, capacity, interactive])
    return formula_value(owner, values)


@compiled
def worth(
    start: float, cost: float, capacity: int, request: Request, user: CompiledFormula
) -> float:
    """What the user thinks of a planned start, seconds, at a price."""
    if not np.isfinite(cost):
        return -np.inf
    wait, duration = offered_start(start, request) - request.now, request.duration
    interactive = 1.0 if request.interactive else 0.0
    values = np.array(
        [wait, wait + duration, duration, request.processors, cost, 0.0, capacity, interactive]
    )
    return formula_value(user, values)
