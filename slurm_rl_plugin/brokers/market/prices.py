"""What an owner asks and what an offer is worth: the variables of 2002, Fig. 9, at one place."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.brokers.market.compiled_formula import CompiledFormula, formula_value
from slurm_rl_plugin.brokers.market.lanes import Gaps, Lanes, end_of_schedule, taken_area
from slurm_rl_plugin.simulator.kernel.compilation import compiled, compiled_borrowing
from slurm_rl_plugin.units import IntArray

#: Place of `utilization` in MACHINE_VARIABLES; the dearest variable is computed where it is named.
_UTILIZATION = 6


class Terms(NamedTuple):
    """The owner's price function and the user's utility function, compiled.

    Attributes:
        owner: of MACHINE_VARIABLES.
        user: of USER_VARIABLES.
    """

    owner: CompiledFormula
    user: CompiledFormula


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
    duration: float,
    now: float,
    interactive: bool,
    owner: CompiledFormula,
) -> float:
    """The owner's function for a job on the chosen lanes of one machine (MV = MF(Pm)).

    Args:
        lanes: the schedule.
        gaps: each lane's gap at or before `start`.
        machine: its number.
        chosen: lanes, each free from `start` for `duration` seconds.
        start: seconds.
        duration: seconds.
        now: seconds.
        interactive: whether the job is of that class.
        owner: of MACHINE_VARIABLES.

    Returns:
        -inf where the function has no value.
    """
    end, count = start + duration, len(chosen)
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
    relative = left_right / area
    schedule = (over, under, left_right, relative, utilization)
    values = np.array(
        [count, duration, *schedule, start - now, end - now, capacity, 1.0 if interactive else 0.0]
    )
    return formula_value(owner, values)


@compiled
def utility(
    start: float,
    duration: float,
    processors: int,
    cost: float,
    capacity: int,
    interactive: bool,
    user: CompiledFormula,
) -> float:
    """The user's function for an offer; `start` in seconds from the request on."""
    if not np.isfinite(cost):
        return -np.inf
    values = np.array(
        [
            start,
            start + duration,
            duration,
            processors,
            cost,
            0.0,
            capacity,
            1.0 if interactive else 0.0,
        ]
    )
    return formula_value(user, values)
