"""An hour of LPC-like load for 32 processors, drawn from a seed; nothing needs the trace.

Fitted to LPC-EGEE as its log has it: jobs of one user and class that follow each other within a
minute make bursts of 3 in the mean, interactive jobs (below 900 s) run for 12 s in the median and
59 s in the mean of busy hours, batch jobs below an hour for 900 s and more, 1,870 s in the mean.
Batch jobs of more than an hour (38 % of the log's) are left out: none would end within the hour,
and in all runs alike they would only take processors away. The log's jobs have one processor each;
here some batch jobs are wide, since a limit on a class is hardest on those.
"""

from __future__ import annotations

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
        load: work of all jobs that come, over what the machine can do in the hour.
        burst: jobs of a burst in the mean.
        wide: part of the batch jobs that have several processors.
        widest: processors; such a job has 2 to so many.
    """

    interactive: int = 160
    load: float = 0.92
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
    quick = _class_of_jobs(rng, plan, plan.interactive, interactive=True)
    work = sum(job.run_time * job.processors for job in quick)
    wanted = plan.load * PROCESSORS * HOUR - work
    width = 1.0 + plan.wide * plan.widest / 2.0
    count = round(wanted / (_LONG_MEAN * width))
    slow = _class_of_jobs(rng, plan, count, interactive=False)
    return sorted([*_running(rng, plan.load), *quick, *slow], key=lambda job: job.submit)


def _class_of_jobs(
    rng: np.random.Generator, plan: HourPlan, count: int, *, interactive: bool
) -> list[HourJob]:
    """Bursts of one class at random times of the hour."""
    jobs: list[HourJob] = []
    while len(jobs) < count:
        size = min(int(rng.geometric(1.0 / plan.burst)), count - len(jobs))
        begin = rng.uniform(0.0, HOUR - 120.0)
        account = int(rng.choice(len(ACCOUNTS), p=SHARES))
        submit = np.minimum(begin + np.cumsum(rng.exponential(_STEP, size)), HOUR)
        for at in submit.tolist():
            run_time = _short(rng) if interactive else _long(rng)
            wide = not interactive and rng.random() < plan.wide
            jobs.append(
                HourJob(
                    submit=at,
                    run_time=run_time,
                    processors=int(rng.integers(2, plan.widest + 1)) if wide else 1,
                    interactive=interactive,
                    account=account,
                )
            )
    return jobs


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
