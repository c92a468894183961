"""What a time cost the users of a cluster, by goal: added up as it passes, job by job.

A job's wait is the time that it is pending, and its slowdown grows by 1 / max(run time, 10 s) in
each second of it. So the waits and slowdowns of all jobs are sums over time, and each second of
them belongs to the order that was in force then, whenever the job came or starts (Little's law).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from slurm_rl_plugin.simulator.kernel.workload import Workload
from slurm_rl_plugin.units import HOUR, FloatArray

#: Run times count as this long at least (bounded slowdown, docs/definitions.md), seconds.
_SHORTEST_RUN = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTimes:
    """Jobs, and when they started; those that have not yet have NaN or inf.

    Attributes:
        jobs: in order of submission; of one that has not ended, the run time is what is foretold.
        start: seconds, shape [n].
        capacity: processors of the machine.
    """

    jobs: Workload
    start: FloatArray
    capacity: int
    _until: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        waits = np.where(np.isfinite(self.start), self.start, np.inf)
        object.__setattr__(self, "_until", waits)

    def pending(self, begin: float, end: float) -> FloatArray:
        """Seconds for which each job was pending in a time, shape [n]."""
        return _overlap(self.jobs.submit, self._until, begin, end)

    def running(self, begin: float, end: float) -> FloatArray:
        """Seconds for which each job ran in a time, shape [n]."""
        return _overlap(self._until, self._until + self.jobs.run_time, begin, end)

    def present(self, begin: float, end: float) -> JobTimes:
        """The jobs that were there in a time."""
        here = (self.jobs.submit < end) & (self._until + self.jobs.run_time > begin)
        return JobTimes(jobs=self.jobs.select(here), start=self.start[here], capacity=self.capacity)


def _overlap(since: FloatArray, until: FloatArray, begin: float, end: float) -> FloatArray:
    return np.asarray(np.maximum(np.minimum(until, end) - np.maximum(since, begin), 0.0))


#: What a time cost, from its begin to its end, seconds.
Cost = Callable[[JobTimes, float, float], float]


def _slowdown(times: JobTimes, begin: float, end: float) -> float:
    grows = 1.0 / np.maximum(times.jobs.run_time, _SHORTEST_RUN)
    return float(times.pending(begin, end) @ grows) * HOUR / (end - begin)


def _interactive_wait(times: JobTimes, begin: float, end: float) -> float:
    return float(times.pending(begin, end) @ times.jobs.interactive) / (end - begin)


def _wait(times: JobTimes, begin: float, end: float) -> float:
    return float(times.pending(begin, end).sum()) / (end - begin)


def _longest_wait(times: JobTimes, begin: float, end: float) -> float:
    """Of those that are pending at the end, how long they are, hours."""
    del begin
    pending = (times.jobs.submit < end) & ~(times.start < end)
    return float((end - times.jobs.submit[pending]).max(initial=0.0)) / HOUR


def _unused(times: JobTimes, begin: float, end: float) -> float:
    """The part of the machine that nobody used."""
    used = float(times.running(begin, end) @ times.jobs.processors)
    return max(1.0 - used / (times.capacity * (end - begin)), 0.0)


def _unfairness(times: JobTimes, begin: float, end: float) -> float:
    """The largest part of its share that an account lacked (definitions: 1 less fairness)."""
    shares = times.jobs.shares
    service = np.bincount(
        times.jobs.account, times.running(begin, end) * times.jobs.billed, len(shares)
    )
    if service.sum() <= 0.0:
        return 0.0
    wanted = np.bincount(times.jobs.account, times.pending(begin, end), len(shares)) > 0.0
    lacks = np.where(wanted, np.maximum(shares - service / service.sum(), 0.0), 0.0)
    return float(lacks.max(initial=0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Something that costs users.

    Attributes:
        cost: of a time; less is better.
        meaning: what it is, with its unit.
    """

    cost: Cost
    meaning: str


#: By name, in the order of GOAL_NAMES.
GOALS: Mapping[str, Goal] = {
    "bounded_slowdown": Goal(
        cost=_slowdown, meaning="slowdown that waiting jobs gather in an hour"
    ),
    "interactive_wait": Goal(cost=_interactive_wait, meaning="interactive jobs that wait, mean"),
    "wait": Goal(cost=_wait, meaning="jobs that wait, mean"),
    "longest_wait": Goal(cost=_longest_wait, meaning="longest wait of a pending job, hours"),
    "unused": Goal(cost=_unused, meaning="part of the machine that is not used"),
    "unfairness": Goal(
        cost=_unfairness, meaning="largest part of a share that an account with waiting jobs lacks"
    ),
}


def costs(times: JobTimes, begin: float, end: float) -> FloatArray:
    """What a time cost by each of GOALS, shape [goals].

    Args:
        times: the jobs; others than those of the time may be among them.
        begin: seconds.
        end: seconds.
    """
    here = times.present(begin, end)
    return np.array([goal.cost(here, begin, end) for goal in GOALS.values()])
