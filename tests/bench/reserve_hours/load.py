"""An hour of LPC-like load for 32 processors, drawn from a seed; nothing needs the trace.

Fitted to LPC-EGEE as its log has it: jobs of one user and class that follow each other within a
minute make bursts of 3 in the mean, interactive jobs (below 900 s) run for 12 s in the median and
59 s in the mean of busy hours, batch jobs below an hour for 900 s and more, 1,870 s in the mean.
Batch jobs of more than an hour (38 % of the log's) are left out: none would end within the hour,
and in all runs alike they would only take processors away. The log's jobs have one processor each;
here some batch jobs are wide, since a limit on a class is hardest on those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.units import HOUR

PROCESSORS = 32
ACCOUNTS = ("physics", "biology")
SHARES = (0.7, 0.3)
#: Seconds between the submissions of a burst in the mean.
_STEP = 5.0
_SHORTEST, _SHORT_MEDIAN, _SHORT_SIGMA, _SHORT_LONGEST = 12.0, 12.0, 1.75, 600.0
_LONG_SHORTEST, _LONG_MEAN = 900.0, 1870.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HourPlan:
    """What kind of hour.

    Attributes:
        interactive: jobs of that class.
        load: work of all jobs, those of the beginning too, over what the machine can do.
        burst: jobs of a burst in the mean.
        wide: part of the batch jobs that have several processors.
        widest: processors; such a job has 2 to so many.
    """

    interactive: int = 140
    load: float = 1.04
    burst: float = 3.0
    wide: float = 0.06
    widest: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class HourJob:
    """One job; times in seconds of the hour."""

    submit: float
    run_time: float
    processors: int
    interactive: bool
    account: int


def lpc_like_hour(seed: int, plan: HourPlan | None = None) -> list[HourJob]:
    """The jobs of the hour in order of submission; those at 0 are the machine's earlier load."""
    plan = plan or HourPlan()
    rng = np.random.default_rng(seed)
    jobs = _running(rng, plan.load)
    while sum(job.interactive for job in jobs) < plan.interactive:
        jobs += _burst(rng, plan, interactive=True)
    wanted = plan.load * PROCESSORS * HOUR
    while (left := wanted - _work(jobs)) > 0.0:
        burst = _burst(rng, plan, interactive=False)
        jobs += burst[: 1 + int(left / _LONG_MEAN)]
    return sorted(jobs, key=lambda job: job.submit)


def _work(jobs: Sequence[HourJob]) -> float:
    """Processor-seconds."""
    return sum(job.run_time * job.processors for job in jobs)


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


def _running(rng: np.random.Generator, load: float) -> list[HourJob]:
    """Batch jobs that fill the machine at the beginning, each with a part of its time left."""
    return [
        HourJob(
            submit=0.0,
            run_time=max(_long(rng) * float(rng.random()), 60.0),
            processors=1,
            interactive=False,
            account=int(rng.choice(len(ACCOUNTS), p=SHARES)),
        )
        for _ in range(round(load * PROCESSORS))
    ]


def _short(rng: np.random.Generator) -> float:
    drawn = float(rng.lognormal(np.log(_SHORT_MEDIAN), _SHORT_SIGMA))
    return float(np.clip(drawn, _SHORTEST, _SHORT_LONGEST))


def _long(rng: np.random.Generator) -> float:
    drawn = _LONG_SHORTEST + float(rng.exponential(_LONG_MEAN - _LONG_SHORTEST))
    return min(drawn, HOUR)
