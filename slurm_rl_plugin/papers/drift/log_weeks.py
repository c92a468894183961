"""A log cut into weeks at the end of its first third, and clusters drawn of its weeks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.learning.load_windows import class_known_at_submission
from slurm_rl_plugin.simulator.workloads.log_workload import PreparedLog, select_prepared
from slurm_rl_plugin.simulator.workloads.recorded_runs import RecordedPast
from slurm_rl_plugin.units import IntArray
from slurm_rl_plugin.what_if.drift.weekly_costs import WEEK

#: Weeks before those that count, of the log's begin or in front of a drawn cluster.
IN_FRONT = 4
#: Weeks before and behind its own, of which a week of a changing cluster is drawn.
_REACH = 2
#: Streams of random numbers.
_CHANGING, _ALIKE = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWeeks:
    """A log in weeks; week 0 is the first behind its first third.

    Attributes:
        log: whole, with job classes that are known at submission.
        begin: of week 0, seconds.
        first: the first week of reference, below 0.
        count: whole weeks from week 0 on.
        jobs: week -> its jobs.
        known: the log, with what runs had told by `begin`.
    """

    log: PreparedLog
    begin: float
    first: int
    count: int
    jobs: Mapping[int, IntArray]
    known: PreparedLog

    @classmethod
    def of(cls, prepared: PreparedLog) -> LogWeeks:
        """Cut a log.

        Raises:
            ConfigurationError: its first third has no week of reference, or nothing follows.
        """
        log = class_known_at_submission(prepared)
        submit = log.log.submit
        begin = float(submit[len(submit) // 3])
        week = np.floor((submit - begin) / WEEK).astype(np.int64)
        first, count = int(week[0]) + IN_FRONT, int((submit[-1] - begin) // WEEK)
        if first >= 0 or count < 1:
            raise ConfigurationError(
                f"a third of the log is {-int(week[0])} weeks: more than {IN_FRONT} are needed."
            )
        past = RecordedPast(log)
        past.run(begin)
        return cls(
            log=log,
            begin=begin,
            first=first,
            count=count,
            jobs={number: np.flatnonzero(week == number) for number in range(int(week[0]), count)},
            known=replace(log, past=past.past),
        )

    def week(self, number: int) -> float:
        """When a week begins, seconds."""
        return self.begin + number * WEEK

    def changing(self, seed: int) -> IntArray:
        """Weeks of a history like the log's own: each is one that was near it, shape [count].

        A local block bootstrap (Paparoditis and Politis 2002), blocks of one week.
        """
        week = np.arange(self.count)
        low, high = np.maximum(week - _REACH, 0), np.minimum(week + _REACH, self.count - 1)
        return np.random.default_rng([seed, _CHANGING]).integers(low, high, endpoint=True)

    def alike(self, seed: int, count: int) -> IntArray:
        """Weeks of a history in which nothing changes: any of the reference, shape [count]."""
        return np.random.default_rng([seed, _ALIKE]).integers(self.first, 0, size=count)

    def cluster(self, weeks: IntArray) -> PreparedLog:
        """The jobs of drawn weeks, one after the other from `begin` on.

        The IN_FRONT weeks that really came before go in front, so that no queue is empty.

        Args:
            weeks: numbers, shape [n].
        """
        drawn = [*range(-IN_FRONT, 0), *weeks.tolist()]
        jobs = np.concatenate([self.jobs[week] for week in drawn])
        later = [
            np.full(len(self.jobs[week]), (place - IN_FRONT - week) * WEEK)
            for place, week in enumerate(drawn)
        ]
        shift = np.concatenate(later)
        chosen = select_prepared(self.known, jobs)
        log = chosen.log
        submit = log.submit + shift
        moved = replace(log, submit=submit, eligible=submit, start=log.start + shift)
        return replace(chosen, log=moved)
