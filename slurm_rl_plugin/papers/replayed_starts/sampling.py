"""Which submissions are foretold: some of each of some days, spread over the end of a log."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.units import DAY, BoolArray, FloatArray, IntArray

#: Parts of a log's time: what is before teaches run times; then bands are set; then figures count.
_BANDS_FROM, _COUNTED_FROM = 0.4, 0.6
#: Of a day of a short log so many times `Sampling.jobs` at most: they wait in one queue together,
#: so that more of them tell little more, and each takes as long to foretell.
_MOST_TIMES = 3


class Sampling(NamedTuple):
    """How much is foretold.

    Attributes:
        warm_up: days whose forecasts set the first bands.
        days: that count.
        jobs: of each day at most; up to three times as many where the log has fewer days.
        draws: replays for each job.
    """

    warm_up: int = 12
    days: int = 20
    jobs: int = 20
    draws: int = 16


QUICK = Sampling(warm_up=3, days=3, jobs=4, draws=4)


class SampledJobs(NamedTuple):
    """Jobs to foretell, ascending; arrays of shape [m].

    Attributes:
        jobs: numbers in the log.
        day: number of each one's day.
        counted: whether its day counts.
    """

    jobs: IntArray
    day: IntArray
    counted: BoolArray


def sampled_jobs(
    submit: FloatArray, asked: BoolArray, sampling: Sampling, seed: int
) -> SampledJobs:
    """Draw jobs of days that are spread evenly; a day without any gives none.

    Args:
        submit: of all jobs in order, seconds, shape [n].
        asked: whom somebody would ask for, shape [n].
        sampling: how many.
        seed: of the draws.

    Raises:
        ConfigurationError: nobody is there to ask in the part that counts.
    """
    rng = np.random.default_rng(seed)
    days = np.floor((submit - submit[0]) / DAY).astype(np.int64)
    last = int(days[-1])
    first, border = int(_BANDS_FROM * (last + 1)), int(_COUNTED_FROM * (last + 1))
    jobs = []
    for begin, end, count in (
        (first, border - 1, sampling.warm_up),
        (border, last, sampling.days),
    ):
        chosen = _spread(begin, end, count)
        times = min(count / max(len(chosen), 1), _MOST_TIMES)  # more of each day of a short log
        most = int(sampling.jobs * times)
        for day in chosen:
            there = np.flatnonzero((days == day) & asked)
            jobs.append(np.sort(rng.permutation(there)[:most]))
    taken = np.concatenate(jobs)
    if not (days[taken] >= border).any():
        raise ConfigurationError(
            "no job waits on the drawn days of the last 40 %: nothing is to be foretold there."
        )
    return SampledJobs(jobs=taken, day=days[taken], counted=days[taken] >= border)


def _spread(first: int, last: int, count: int) -> IntArray:
    return np.unique(np.linspace(first, last, count).astype(np.int64))
