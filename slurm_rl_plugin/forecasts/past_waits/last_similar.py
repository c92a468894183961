"""The simplest source: the wait that the last job alike had, as it was known at the moment.

Alike is of the same template; else of the same account in the partition; else of the partition;
else any.
"""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.forecasts.past_waits.history import groups_of
from slurm_rl_plugin.forecasts.past_waits.seen_jobs import SeenJobs
from slurm_rl_plugin.units import FloatArray

_ALIKE = ("template", "account in partition", "partition", "all")


def last_similar_log_waits(
    jobs: SeenJobs, log_wait: FloatArray, moment: float, fallback: float = np.nan
) -> FloatArray:
    """log10 of the wait of the last job alike, of the jobs seen at a moment, float64[now].

    Args:
        jobs: those seen then, and those before.
        log_wait: of all, as it is known by then, float64[n].
        moment: seconds.
        fallback: where there is none.
    """
    now, before = np.flatnonzero(jobs.moment == moment), np.flatnonzero(jobs.moment < moment)
    last = before[np.lexsort((jobs.submit[before], jobs.moment[before]))]
    found = np.full(len(now), np.nan)
    groups = groups_of(jobs)
    for codes in (groups[name] for name in _ALIKE):
        of_group = np.full(int(codes.max(initial=0)) + 1, np.nan)
        of_group[codes[last]] = log_wait[last]  # the last one stays
        found = np.where(np.isnan(found), of_group[codes[now]], found)
    return np.where(np.isnan(found), fallback, found)


def median_of_partition(
    jobs: SeenJobs, log_wait: FloatArray, moment: float, fallback: float = np.nan
) -> FloatArray:
    """Median log10 wait of all earlier jobs of the partition, of the jobs seen at a moment.

    Args:
        jobs: those seen then, and those before.
        log_wait: of all, as it is known by then, float64[n].
        moment: seconds.
        fallback: of a partition without any, where there is no earlier job at all.
    """
    now, before = jobs.moment == moment, jobs.moment < moment
    overall = float(np.median(log_wait[before])) if before.any() else fallback
    median = {
        each: np.median(log_wait[before & (jobs.partition == each)])
        for each in np.unique(jobs.partition[before])
    }
    return np.array([median.get(each, overall) for each in jobs.partition[now]])
