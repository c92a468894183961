"""A stretch of a real log in compressed time, for a machine of pretended processors.

Run times shrink by the speed. Requests shrink less: a plan estimate has a grain of a minute, and
requests as short as the run times would leave no room for any.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.units import HOUR, FloatArray, IntArray

#: Who submits; users of the log take turns in the order in which they first come.
USERS = ("alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi")
ACCOUNTS = ("physics", "biology")
#: Only this last part of a log is replayed: the model was fitted on what comes before.
HELD_OUT = 0.4
#: Seconds that the shortest job sleeps, and that a batch system adds to each job, about.
SHORTEST, ADDED = 1.0, 1.5
#: Seconds of the log that a job without a request is taken to ask for.
_UNASKED = 18.0 * HOUR
_STEP = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class StretchPlan:
    """What to take of a log, and how to compress it.

    Attributes:
        jobs: of the stretch.
        minutes: in which they are submitted.
        processors: of the machine.
        over: how much less than run times requests are compressed.
        longest: minutes that a job may ask for, as the site's longest time would be.
        load: least and most work over what the machine can do, ADDED for each job included.
        seed: chooses among the stretches that have it.
    """

    jobs: int = 1000
    minutes: float = 28.0
    processors: int = 128
    over: float = 20.0
    longest: int = 8
    load: tuple[float, float] = (0.9, 1.0)
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StretchJob:
    """A job as it is submitted: seconds from the beginning, seconds that it sleeps, its request."""

    submit: float
    seconds: float
    minutes: int
    processors: int
    user: str

    @property
    def account(self) -> str:
        """Of its user."""
        return account_of(self.user)


def account_of(user: str) -> str:
    """Of one of USERS."""
    return ACCOUNTS[USERS.index(user) % len(ACCOUNTS)]


def stretch_of(log: JobLog, plan: StretchPlan) -> list[StretchJob]:
    """Jobs of the log's held out part, in order of submission.

    Raises:
        ValueError: no stretch has that load.
    """
    fits = np.flatnonzero(log.processors <= plan.processors)
    fits = fits[fits >= (1.0 - HELD_OUT) * len(log)]
    starts = np.arange(0, len(fits) - plan.jobs, _STEP)
    low, high = plan.load
    good = [at for at in starts if low <= _load(log, fits[at : at + plan.jobs], plan) <= high]
    if not good:
        raise ValueError(f"no {plan.jobs} jobs of this log make a load of {low:g} to {high:g}")
    at = int(np.random.default_rng(plan.seed).choice(good))
    return _compressed(log, fits[at : at + plan.jobs], plan)


def _speed(log: JobLog, chosen: IntArray, plan: StretchPlan) -> float:
    """Seconds of the log in one second of the run."""
    return float(log.submit[chosen[-1]] - log.submit[chosen[0]]) / (60.0 * plan.minutes)


def _seconds(log: JobLog, chosen: IntArray, plan: StretchPlan) -> FloatArray:
    run_time: FloatArray = log.run_time[chosen]
    return np.maximum(run_time / _speed(log, chosen, plan), SHORTEST)


def _load(log: JobLog, chosen: IntArray, plan: StretchPlan) -> float:
    work = float(((_seconds(log, chosen, plan) + ADDED) * log.processors[chosen]).sum())
    return work / (plan.processors * 60.0 * plan.minutes)


def _compressed(log: JobLog, chosen: IntArray, plan: StretchPlan) -> list[StretchJob]:
    speed, seconds = _speed(log, chosen, plan), _seconds(log, chosen, plan)
    asked = np.nan_to_num(log.time_limit[chosen], nan=_UNASKED, posinf=_UNASKED)
    wanted = np.minimum(asked * plan.over / speed, 60.0 * plan.longest)
    minutes = np.ceil(np.maximum(wanted, seconds + 60.0) / 60.0)
    users = in_turn(log.user[chosen].tolist())
    return [
        StretchJob(
            submit=float(log.submit[job] - log.submit[chosen[0]]) / speed,
            seconds=round(float(seconds[place]), 2),
            minutes=int(max(minutes[place], 2)),
            processors=int(log.processors[job]),
            user=users[place],
        )
        for place, job in enumerate(chosen.tolist())
    ]


def in_turn(users: Sequence[Hashable]) -> list[str]:
    """Who of USERS submits each job, given whose it is in the log."""
    turns = dict.fromkeys(users)  # in the order in which they first come
    ours = dict(zip(turns, itertools.cycle(USERS), strict=False))
    return [ours[user] for user in users]
