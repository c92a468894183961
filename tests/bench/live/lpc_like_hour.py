"""Draws an hour of LPC-like load for 32 processors from a seed; needs no log.

Fitted to LPC-EGEE: jobs of one user and class that follow each other within a minute form bursts of
3 on average; interactive jobs (below 900 s) run for 12 s (median) or 59 s (mean of busy hours);
batch jobs below an hour run for at least 900 s, 1,870 s on average. Batch jobs of more than an hour
(38 % of the log's) are left out: none would end within the hour, and they would take the same
processors away from all runs. The log's jobs have one processor each; here some batch jobs are
wide, since a limit on a class harms those most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.units import HOUR

PROCESSORS = 32
ACCOUNTS = ("physics", "biology")
SHARES = (0.7, 0.3)
#: Mean seconds between the submissions of a burst.
_STEP = 5.0
_SHORTEST, _SHORT_MEDIAN, _SHORT_SIGMA, _SHORT_LONGEST = 12.0, 12.0, 1.75, 600.0
_LONG_SHORTEST, _LONG_MEAN = 900.0, 1870.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HourPlan:
    """Parameters of an hour."""

    interactive: int = 140  #: number of interactive jobs
    load: float = 1.04  #: work of all jobs, initial ones included, over what the machine can do
    burst: float = 3.0  #: mean number of jobs in a burst
    wide: float = 0.06  #: part of the batch jobs that have 2 to `widest` processors
    widest: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class HourJob:
    """A job; times in seconds of the hour."""

    submit: float
    run_time: float
    processors: int
    interactive: bool
    account: int


def lpc_like_hour(seed: int, plan: HourPlan | None = None) -> list[HourJob]:
    """The jobs of the hour in order of submission; jobs at 0 fill the machine when it begins."""
    plan = plan or HourPlan()
    rng = np.random.default_rng(seed)
    jobs = [
        HourJob(
            submit=0.0,
            run_time=max(_long(rng) * float(rng.random()), 60.0),
            processors=1,
            interactive=False,
            account=int(rng.choice(len(ACCOUNTS), p=SHARES)),
        )
        for _ in range(round(plan.load * PROCESSORS))
    ]
    while sum(job.interactive for job in jobs) < plan.interactive:
        jobs += _burst(rng, plan, interactive=True)
    wanted = plan.load * PROCESSORS * HOUR
    while (left := wanted - sum(job.run_time * job.processors for job in jobs)) > 0.0:
        burst = _burst(rng, plan, interactive=False)
        jobs += burst[: 1 + int(left / _LONG_MEAN)]
    return sorted(jobs, key=lambda job: job.submit)


def _burst(rng: np.random.Generator, plan: HourPlan, *, interactive: bool) -> list[HourJob]:
    """Jobs of one account and class at a random time of the hour."""
    size = int(rng.geometric(1.0 / plan.burst))
    begin = rng.uniform(0.0, HOUR - 120.0)
    account = int(rng.choice(len(ACCOUNTS), p=SHARES))
    submit = np.minimum(begin + np.cumsum(rng.exponential(_STEP, size)), HOUR)
    return [
        HourJob(
            submit=at,
            run_time=_short(rng) if interactive else _long(rng),
            processors=_width(rng, plan) if not interactive else 1,
            interactive=interactive,
            account=account,
        )
        for at in submit.tolist()
    ]


def _width(rng: np.random.Generator, plan: HourPlan) -> int:
    return int(rng.integers(2, plan.widest + 1)) if rng.random() < plan.wide else 1


def _short(rng: np.random.Generator) -> float:
    drawn = float(rng.lognormal(np.log(_SHORT_MEDIAN), _SHORT_SIGMA))
    return float(np.clip(drawn, _SHORTEST, _SHORT_LONGEST))


def _long(rng: np.random.Generator) -> float:
    drawn = _LONG_SHORTEST + float(rng.exponential(_LONG_MEAN - _LONG_SHORTEST))
    return min(drawn, HOUR)
