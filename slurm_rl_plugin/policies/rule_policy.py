"""A rule as a policy of a live queue: scores from a snapshot, the same as in the simulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np

from slurm_rl_plugin.domain import Decision, JobTable, Memory, QueueSnapshot
from slurm_rl_plugin.features.estimates import RunTimeEstimate
from slurm_rl_plugin.policies.ordering_rules import Rule
from slurm_rl_plugin.policies.waiting_rules import reads_users
from slurm_rl_plugin.units import FloatArray

#: Scores, shape [n], of the pending jobs of a snapshot: (snapshot, jobs, estimated seconds). The
#: jobs are submitted when they arrived, as in the simulator: from when on a job's wait counts.
QueueRule = Callable[[QueueSnapshot, JobTable, FloatArray], FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePolicy:
    """A rule as a policy for the hook."""

    name: str  #: as a configuration calls it
    rule: QueueRule  #: gives the scores
    estimates: RunTimeEstimate  #: of run times
    #: Processors that it always wants kept free of batch work; None for no wish.
    reserve: int | None = None

    def decide(self, snapshot: QueueSnapshot, memory: Memory | None = None) -> Decision:
        """Score the pending jobs by the rule."""
        del memory
        jobs = snapshot.weighed(snapshot.pending.jobs)
        pending = snapshot.pending
        waits = (pending.accrued, pending.wait_counts, pending.last_start)
        if any(each is not None for each in waits):
            jobs = replace(jobs, submit=snapshot.now - snapshot.counted_wait)
        estimate = self.estimates.estimate(jobs.time_limit, jobs.interactive) * snapshot.each_runs
        scores = np.asarray(self.rule(snapshot, jobs, estimate), dtype=np.float64)
        return Decision(scores=scores, reserve=self.reserve)


def static_rule(rule: Rule) -> QueueRule:
    """A rule of STATIC_RULES on a snapshot: the time and what was used tell it nothing."""
    return lambda _, jobs, estimate: rule(jobs, estimate)


def waiting_rule(rule: Callable[..., Any]) -> QueueRule:
    """A rule of WAITING_RULES on a snapshot; it gets the columns that its parameters are named of.

    These are wait, estimate, size, processors, interactive, capacity, usage, share and in_use, as
    `multifactor`, `utility_greedy` and `drf` describe them.
    """
    names, told_apart = tuple(signature(rule).parameters), reads_users(rule)

    def scores(snapshot: QueueSnapshot, jobs: JobTable, estimate: FloatArray) -> FloatArray:
        in_use: Any = 0.0
        if told_apart:  # what the running jobs of each job's user take; of -1, the unknown ones
            running = snapshot.weighed(snapshot.running.jobs)
            of_user = np.bincount(running.user + 1, running.size, len(snapshot.users) + 1)
            in_use = of_user[jobs.user + 1] / max(snapshot.capacity, 1)
        columns = {
            "wait": snapshot.counted_wait,
            "estimate": estimate,
            "size": np.maximum(jobs.size, 1.0),
            "processors": np.maximum(jobs.processors, 1).astype(np.float64),
            "interactive": jobs.interactive,
            "capacity": float(max(snapshot.capacity, 1)),
            "usage": snapshot.usage[jobs.account],
            "share": snapshot.shares[jobs.account],
            "in_use": in_use,
        }
        return np.asarray(rule(*(columns[name] for name in names)), dtype=np.float64)

    return scores
