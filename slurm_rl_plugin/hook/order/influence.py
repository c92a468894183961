"""Bounded influence: the place in our order is worth so many hours of age, and no more."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.batch_systems.port import HIGHEST_PRIORITY
from slurm_rl_plugin.hook.order.order_changes import LOWEST_PRIORITY, OrderChanges
from slurm_rl_plugin.units import BoolArray, IntArray

#: Part of the influence by which a written term may be off: ranks shift with every arrival.
TOLERANCE = 0.02


def bounded_changes(
    native: IntArray,
    factor: IntArray,
    points: float,
    ceiling: int = HIGHEST_PRIORITY + 1,
    lost: BoolArray | None = None,
) -> OrderChanges:
    """What to write so that the best place adds `points`, the last one next to nothing.

    The terms fall evenly from place to place, as the simulator's do. One that is off by less than
    TOLERANCE of the influence stays as it is, so a queue that hardly changes costs hardly any
    writes; two jobs closer than that may stand in either order.

    Args:
        native: the batch system's own priority of each job, in the wanted order, first to start
            first; shape [n].
        factor: our current term, same order; shape [n].
        points: what the best place is worth, priority points.
        ceiling: priority of the lowest job that must stay before all of these.
        lost: jobs whose term was for another request and is not kept, shape [n]; None for none.
    """
    count = len(native)
    ideal = np.rint(points * np.arange(count, 0, -1) / max(count, 1)).astype(np.int64)
    ideal = np.minimum(ideal, np.maximum(ceiling - 1 - native, 0))
    off = np.abs(ideal - factor) > TOLERANCE * points
    if lost is not None:
        off |= lost & (ideal != factor)
    newcomers = (factor == 0) & (ideal > 0)  # 0 tells that a job was never placed
    moved = np.flatnonzero(off | newcomers)
    most_wrong_first = np.argsort(-np.abs(ideal - factor)[moved], kind="stable")
    place = moved[most_wrong_first]
    priority = np.maximum(native[place] + ideal[place], LOWEST_PRIORITY)
    return OrderChanges(place=place, priority=priority)
