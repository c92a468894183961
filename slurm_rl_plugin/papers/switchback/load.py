"""Drawn clusters: users with habits, who submit series of jobs by day and hardly at weekends."""

from __future__ import annotations

import numpy as np

from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.units import DAY, HOUR, FloatArray, IntArray

PROCESSORS = 128
_USERS, _ACCOUNTS = 40, 4
#: Parts of the machine's time that jobs ask for, and jobs a day, drawn evenly between.
_LOADS, _JOBS_A_DAY = (0.75, 0.95), (150.0, 350.0)
#: Mean jobs of a series, and seconds between them.
_SERIES, _APART = 4.0, 300.0
#: Requests over run times, and how many jobs ask so.
_OVER, _PARTS = np.array([1.1, 1.5, 3.0, 8.0, 20.0]), np.array([0.15, 0.25, 0.30, 0.20, 0.10])
_SHORTEST, _LONGEST, _LONGEST_LIMIT = 10.0, 48.0 * HOUR, 72.0 * HOUR
_INTERACTIVE = 900.0


def drawn_cluster(rng: np.random.Generator, days: int) -> Workload:
    """The jobs of some days on PROCESSORS processors; the first day is a Monday.

    Args:
        rng: of all draws.
        days: how many.
    """
    usual = rng.lognormal(np.log(1800.0), 1.4, _USERS)
    width = 2.0 ** rng.integers(0, 6, _USERS)
    submit, user = _arrivals(rng, days)
    run = usual[user] * rng.lognormal(0.0, 1.0, len(user))
    wide = np.clip(width[user] * 2.0 ** rng.integers(-1, 2, len(user)), 1, PROCESSORS)
    processors = wide.astype(np.int64)
    work = rng.uniform(*_LOADS) * PROCESSORS * days * DAY
    run = np.clip(run * work / float(run @ processors), _SHORTEST, _LONGEST)
    over = rng.choice(_OVER, size=len(run), p=_PARTS)
    limit = np.minimum(np.ceil(run * over / _INTERACTIVE) * _INTERACTIVE, _LONGEST_LIMIT)
    return Workload(
        submit=submit,
        run_time=run,
        estimate=limit,
        time_limit=limit,
        processors=processors,
        account=user % _ACCOUNTS,
        interactive=limit <= _INTERACTIVE,
        shares=np.full(_ACCOUNTS, 1.0 / _ACCOUNTS),
    )


def _arrivals(rng: np.random.Generator, days: int) -> tuple[FloatArray, IntArray]:
    """When jobs come, ascending, and whose they are."""
    count = int(days * rng.uniform(*_JOBS_A_DAY) / _SERIES)
    begins = np.empty(0)
    while len(begins) < count:
        drawn = rng.uniform(0.0, days * DAY, size=count)
        begins = np.append(begins, drawn[rng.random(count) < _busyness(drawn)])
    begins = begins[:count]
    sizes = rng.geometric(1.0 / _SERIES, size=count)
    whose = rng.choice(_USERS, size=count, p=rng.dirichlet(np.full(_USERS, 0.6)))
    within = np.concatenate([np.arange(size) for size in sizes])
    submit = np.repeat(begins, sizes) + within * rng.exponential(_APART, size=len(within))
    order = np.argsort(submit, kind="stable")
    order = order[submit[order] < days * DAY]
    return submit[order], np.repeat(whose, sizes)[order].astype(np.int64)


def _busyness(time: FloatArray) -> FloatArray:
    """How many come at a time, beside the busiest: most at 14 h, half at weekends."""
    hour, day = (time % DAY) / HOUR, (time // DAY) % 7
    return (0.35 + 0.65 * np.exp(-(((hour - 14.0) / 4.5) ** 2))) * np.where(day < 5, 1.0, 0.5)
