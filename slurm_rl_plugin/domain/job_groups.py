"""Groups of jobs by width and by time limit, whose waits are reported."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.units import DAY, HOUR, MINUTE, FloatArray, IntArray

#: Classes of width, narrowest first, and of requested limits with the seconds that they reach to.
WIDTHS = ("one processor", "up to an eighth", "below a half", "half or more")
LIMITS = {
    "up to 15 min": 15 * MINUTE,
    "up to 1 h": HOUR,
    "up to 4 h": 4 * HOUR,
    "up to 12 h": 12 * HOUR,
    "up to 24 h": DAY,
    "above 24 h": np.inf,
}
NO_LIMIT = "no limit"
#: All of them; each job is in one of the widths and in one of the limits.
GROUPS = (*WIDTHS, *LIMITS, NO_LIMIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """Each job in one group."""

    names: tuple[str, ...]  #: of the groups
    place: IntArray  #: in `names` of each job, shape [n]


def grouped_by_width(processors: IntArray, capacity: int) -> Grouping:
    """Jobs by the part of the machine."""
    part = processors / capacity
    several = 1 + (part > 1.0 / 8.0).astype(np.int64) + (part >= 0.5)
    return Grouping(names=WIDTHS, place=np.where(processors <= 1, 0, several))


def grouped_by_limit(time_limit: FloatArray) -> Grouping:
    """Jobs by their requested seconds, shape [n]."""
    limit = np.where(np.isfinite(time_limit) & (time_limit > 0), time_limit, np.nan)
    place = np.searchsorted(np.array(list(LIMITS.values())), limit)
    names = (*LIMITS, NO_LIMIT)
    return Grouping(names=names, place=np.where(np.isnan(limit), len(LIMITS), place))
