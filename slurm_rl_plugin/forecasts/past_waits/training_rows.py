"""What a model of waits is fitted to: a few rows of each batch, and waits that still last."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.forecasts.past_waits.seen_jobs import SeenJobs, codes_of
from slurm_rl_plugin.units import FloatArray, IntArray
from slurm_rl_plugin.utility.summary import one_user_capped

#: Rows of one template at one moment that are fitted to. A batch of a thousand equal jobs tells
#: little more than a few of it.
MOST_ALIKE = 4
#: A batch of n equal jobs counts as n to this power.
_COUNTS = 0.5
#: A wait that still lasts is taken as so many times what it has been, as waits of a heavy tail are.
_STILL_WAITS = 2.0


class TrainingRows(NamedTuple):
    """Rows to fit to.

    Attributes:
        rows: places in the jobs, int64[m].
        log_wait: log10 of the wait as it is known, float64[m].
        weight: how much each counts, float64[m].
    """

    rows: IntArray
    log_wait: FloatArray
    weight: FloatArray


def known_log_waits(jobs: SeenJobs, moment: float) -> FloatArray:
    """log10 of each wait as it is taken at a moment, those that still last longer, float64[n]."""
    so_far = jobs.log_wait_by(moment)
    return np.where(jobs.started_by(moment), so_far, so_far + np.log10(_STILL_WAITS))


def training_rows(
    jobs: SeenJobs, moment: float, samples: int, rng: np.random.Generator
) -> list[TrainingRows]:
    """Rows of jobs that were seen before a moment, and what is known of their waits by then.

    Args:
        jobs: any; those seen at the moment or later are left out.
        moment: seconds.
        samples: how often rows are chosen among equal jobs.
        rng: chooses them.
    """
    before = np.flatnonzero(jobs.moment < moment)
    seen = replace(jobs, look={}).select(before)
    log_wait, batch = known_log_waits(seen, moment), codes_of(seen.moment, seen.template)
    count = np.bincount(batch)
    first, number = np.cumsum(count) - count, count[batch]
    weight = number**_COUNTS / np.minimum(number, MOST_ALIKE)
    found = []
    for _ in range(samples):
        order = np.lexsort((rng.random(len(before)), batch))
        kept = np.sort(order[np.arange(len(before)) - first[batch[order]] < MOST_ALIKE])
        counts = weight[kept]
        if seen.user is not None:
            counts = one_user_capped(counts, seen.user[kept])
        found.append(TrainingRows(before[kept], log_wait[kept], counts))
    return found
