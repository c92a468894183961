"""Attacks on protection by somebody who may submit jobs: places taken, and places earned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slurm_rl_plugin.domain import Decision, JobTable, PendingJobs, QueueSnapshot, RunningJobs
from slurm_rl_plugin.policies.protection import Protection
from slurm_rl_plugin.policies.registry import rule_policy
from tests.unit.hook.queues import job_table, snapshot_of

HOUR = 3600.0
ATTACKER, HONEST = 0, 1


def jobs_of(user: list[int], submit: list[float], first: int = 1) -> JobTable:
    table, arrived = job_table(len(user)), np.array(submit)
    return replace(
        table,
        job_id=table.job_id + first - 1,
        submit=arrived,
        eligible=arrived,
        user=np.array(user),
    )


def look(waiting: JobTable, hours: float, **columns: np.ndarray) -> QueueSnapshot:
    """A machine of ten processors on which ten later jobs have run since the first hour."""
    running = jobs_of([HONEST] * 10, [HOUR] * 10, first=101)
    pending = replace(PendingJobs.untouched(waiting), **columns)
    snapshot = replace(snapshot_of(pending, hours * HOUR), capacity=10)
    return replace(snapshot, running=RunningJobs(jobs=running, start=np.full(10, HOUR)))


def protected(snapshot: QueueSnapshot) -> list[int]:
    decision: Decision = rule_policy("protected:fifo").decide(snapshot)
    return decision.protected.tolist()


def test_jobs_that_never_start_keep_nobody_else_from_being_protected() -> None:
    """They wait for nodes that are always in use; Slurm calls that Resources, as any wait."""
    waiting = jobs_of([ATTACKER] * 50 + [HONEST], [float(place) for place in range(51)])
    assert protected(look(waiting, hours=30.0)) == [0, 1, 50]
    assert Protection().of_one_user == 2


def test_a_hold_or_a_limit_of_ones_own_earns_no_protection() -> None:
    waiting = jobs_of([ATTACKER, HONEST], [0.0, 1.0])
    own = np.array([True, False])
    for columns in ({"held": own}, {"own_doing": own}, {"accrued": np.array([60.0, 29.5 * HOUR])}):
        assert protected(look(waiting, 30.0, **columns)) == [1]


def test_an_old_job_that_nobody_overtook_is_not_before_those_whom_many_overtook() -> None:
    """Under first come, first served waiting alone earns nothing, however long."""
    waiting = jobs_of([ATTACKER, HONEST], [2 * HOUR, 0.0])  # all that run came before his
    assert protected(look(waiting, hours=300.0)) == [1]
