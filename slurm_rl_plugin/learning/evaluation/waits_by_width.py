"""How long jobs of each width wait: an order that is good for the many may be bad for the wide."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.utility.summary import ScheduledJobs

#: Classes of width, narrowest first.
WIDTHS = ("one processor", "up to an eighth", "below a half", "half or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class WidthWaits:
    """Waits of the jobs of one width under one schedule.

    Attributes:
        jobs: how many there are.
        mean_wait: seconds.
        longest_wait: seconds.
    """

    jobs: int
    mean_wait: float
    longest_wait: float


def waits_by_width(jobs: ScheduledJobs, counted: slice) -> dict[str, WidthWaits]:
    """Width -> waits of its jobs; a width that no counted job has is left out.

    Args:
        jobs: a whole schedule.
        counted: the jobs that are measured.
    """
    width = _widths(jobs)[counted]
    wait = jobs.wait[counted]
    return {
        name: WidthWaits(
            jobs=int(found.sum()),
            mean_wait=float(wait[found].mean()),
            longest_wait=float(wait[found].max()),
        )
        for place, name in enumerate(WIDTHS)
        if (found := width == place).any()
    }


def _widths(jobs: ScheduledJobs) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Place in WIDTHS of each job, by its part of the machine, shape [n]."""
    part = jobs.processors / jobs.capacity
    several = 1 + (part > 1.0 / 8.0).astype(np.int64) + (part >= 0.5)
    return np.where(jobs.processors <= 1, 0, several)
