"""Who may come after now: weeks of the site's own past, at the same hour of the week."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.units import DAY, FloatArray, IntArray

#: Seconds of a block where so much is known; submissions go by the hour and the day of the week.
WEEK = 7 * DAY
#: From how many of the last weeks, or days, a block is drawn.
_BLOCKS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class PastArrivals:
    """Submissions that are known.

    Attributes:
        submit: of all known jobs in order, seconds, shape [n].
    """

    submit: FloatArray

    def drawn(
        self, now: float, span: float, rng: np.random.Generator
    ) -> tuple[IntArray, FloatArray]:
        """Jobs of past weeks as if they came again, one drawn week behind the other.

        In the first week of a log days are drawn, at the same hour; on its first day nobody comes.

        Args:
            now: seconds; what was submitted later is not known.
            span: seconds from now in which they come.
            rng: draws the weeks.

        Returns:
            Numbers of the jobs, and when they come: seconds behind now, ascending; each [m].
        """
        known = now - self.submit[0]
        block = WEEK if known >= WEEK else DAY
        whole = int(known // block)
        if whole < 1:
            return np.empty(0, dtype=np.int64), np.empty(0)
        jobs, submit = [], []
        for ahead in range(math.ceil(span / block)):
            back = block * int(rng.integers(1, min(whole, _BLOCKS) + 1))
            until = min(span - ahead * block, block)
            first, last = np.searchsorted(self.submit, [now - back, now - back + until], "right")
            jobs.append(np.arange(first, last))
            submit.append(self.submit[first:last] + back + ahead * block)
        return np.concatenate(jobs), np.concatenate(submit)
