"""A job array has the place of all its waiting tasks together, and of one that was just served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_rl_plugin.accounting.port import JobLog
from slurm_rl_plugin.batch_systems.port import ApplyReport, FactorChange
from slurm_rl_plugin.batch_systems.simulated import SimulatedCluster
from slurm_rl_plugin.domain import QueueSnapshot
from slurm_rl_plugin.policies.port import Policy
from slurm_rl_plugin.policies.q_network import load_q_network
from slurm_rl_plugin.policies.registry import rule_policy
from slurm_rl_plugin.services.hook import model_path
from slurm_rl_plugin.simulator.schedules.simulation import SimulationSettings
from slurm_rl_plugin.simulator.workloads.log_workload import prepare_log
from slurm_rl_plugin.units import HOUR, MINUTE, FloatArray, IntArray
from tests.unit.hook.queues import cycle_over


def log_of(
    submit: FloatArray, run_time: FloatArray, account: IntArray, names: Sequence[str], capacity: int
) -> JobLog:
    """Jobs of one processor; their limits are their run times; each account is one user."""
    times = {"submit": submit, "eligible": submit, "run_time": run_time, "time_limit": run_time}
    return JobLog(
        **times,
        job_id=np.arange(1, len(submit) + 1),
        start=np.full(len(submit), np.nan),
        processors=np.ones_like(account),
        account=account,
        user=account,
        partition=np.zeros_like(account),
        accounts=tuple(names),
        users=tuple(names),
        partitions=("",),
        processors_available=capacity,
        kind="swf",
    )


class ArrayCluster(SimulatedCluster):
    """Jobs of the account `array` are tasks of one array: one pending row, one factor."""

    tasks: Sequence[int] = ()

    def snapshot(self) -> QueueSnapshot:
        """The queue with all waiting tasks in the row of the first one."""
        found = super().snapshot()
        pending = found.pending
        is_task = pending.jobs.account == found.accounts.index("array")
        self.tasks = pending.jobs.job_id[is_task].tolist()
        if not self.tasks:
            return found
        first = int(np.flatnonzero(is_task)[0])
        rows = np.sort(np.append(np.flatnonzero(~is_task), first))
        last_start = np.full(len(pending), np.nan)
        last_start[first] = self._last_start(found)
        whole = replace(
            pending,
            tasks=np.where(np.arange(len(pending)) == first, len(self.tasks), 1),
            last_start=last_start,
        )
        return replace(found, pending=whole.select(rows))

    def apply(self, changes: Sequence[FactorChange]) -> ApplyReport:
        """Write an array's factor to every waiting task of it."""
        spread = []
        for change in changes:
            jobs = self.tasks if change.job_id in self.tasks else [change.job_id]
            spread += [replace(change, job_id=job) for job in jobs]
        report = super().apply(spread)
        asked = {change.job_id for change in changes}
        return replace(report, accepted=report.accepted & asked)

    def _last_start(self, found: QueueSnapshot) -> float:
        tasks = np.flatnonzero(self._jobs.account == found.accounts.index("array"))
        starts = self.start[tasks]
        return float(np.nanmax(starts)) if np.isfinite(starts).any() else np.nan


#: As 20,000 tasks on 100 processors: 200 minutes of the whole machine.
TASKS, CAPACITY, OTHERS = 1000, 5, 50
LONGEST = 8 * HOUR


def waits(policy: Policy, tasks: int, folder: Path) -> tuple[FloatArray, FloatArray]:
    """Waits and run times of 50 jobs, seconds; an array of minutes comes with them after 10 min."""
    rng = np.random.default_rng(2)
    first = rng.uniform(0.0, LONGEST, CAPACITY)  # they run when the others come
    run_time = np.exp(rng.uniform(np.log(5 * MINUTE), np.log(LONGEST), OTHERS))
    submit = np.sort(rng.uniform(1.0, HOUR, OTHERS))
    columns = (
        np.concatenate([np.zeros(CAPACITY), submit, np.full(tasks, 10 * MINUTE)]),
        np.concatenate([first, run_time, np.full(tasks, MINUTE)]),
        np.concatenate(
            [np.zeros(CAPACITY, np.int64), np.arange(OTHERS) % 3, np.full(tasks, 3, np.int64)]
        ),
    )
    order = np.argsort(columns[0], kind="stable")
    names = ("a", "b", "c", "array")
    submit, run_time, account = (column[order] for column in columns)
    log = log_of(submit, run_time, account, names, CAPACITY)
    prepared = prepare_log(log, shares=dict.fromkeys(names, 0.25))
    cluster = ArrayCluster(prepared, SimulationSettings(capacity=CAPACITY))
    folder.mkdir()
    cycle = cycle_over(cluster, policy, folder)
    while not cluster.finished:
        cluster.advance(cluster.now + MINUTE)
        cycle.run()
    other = (account != names.index("array")) & (submit > 0.0)
    return cluster.start[other] - submit[other], run_time[other]


@pytest.mark.parametrize("name", ["default", "sjf"])
def test_no_job_waits_long_because_of_an_array_of_short_tasks(name: str, tmp_path: Path) -> None:
    policy = load_q_network(model_path(name)) if name == "default" else rule_policy(name)
    alone, run_time = waits(policy, 0, tmp_path / "alone")
    beside, _ = waits(policy, TASKS, tmp_path / "beside")
    longer = beside - alone
    assert (longer <= run_time + LONGEST / 2).all()
    assert (longer[run_time < HOUR] <= 2 * MINUTE).all()
    assert longer.mean() < 0.25 * TASKS * MINUTE / CAPACITY
